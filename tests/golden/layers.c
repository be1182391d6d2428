/* layers.c - every layer, every loss and operators that are put together from others, against PyTorch: names, forward,
 * gradients of inputs and parameters, buffers. */
#include "golden/read.h"

#define TOLERANCE 2e-6

typedef struct layer_case {
    const char *name;
    ls_module *(*make)(ls_run *run);
    bool eval;
} layer_case;

#define LAYER(name, expression)                                                                                        \
    static ls_module *make_##name(ls_run *run)                                                                         \
    {                                                                                                                  \
        return expression;                                                                                             \
    }
#include "golden/layers.def"
#undef LAYER

static const layer_case layer_cases[] = {
#define LAYER(name, expression) {#name, make_##name, false},
#include "golden/layers.def"
#undef LAYER
};

/* ---- losses and operators are functions ---- */

typedef struct function_case {
    const char *name;
    ls_tensor *(*call)(ls_tensor *const *x);
} function_case;

#define LOSS(name, expression)                                                                                         \
    static ls_tensor *loss_##name(ls_tensor *const *x)                                                                 \
    {                                                                                                                  \
        return expression;                                                                                             \
    }
#include "golden/losses.def"
#undef LOSS

static const function_case loss_cases[] = {
#define LOSS(name, expression) {#name, loss_##name},
#include "golden/losses.def"
#undef LOSS
};

#define FUNCTION(name, expression)                                                                                     \
    static ls_tensor *function_##name(ls_tensor *const *x)                                                             \
    {                                                                                                                  \
        return expression;                                                                                             \
    }
#include "golden/functions.def"
#undef FUNCTION

static const function_case function_cases[] = {
#define FUNCTION(name, expression) {#name, function_##name},
#include "golden/functions.def"
#undef FUNCTION
};

/* ---- one case ---- */

enum { MAX_INPUTS = 4 };

static int load_inputs(ls_run *run, const golden *g, const char *name, ls_tensor **inputs)
{
    int n = 0;
    for (const golden_entry *entry; n < MAX_INPUTS && (entry = golden_find(g, "%s/in%d", name, n)); n++) {
        inputs[n] = golden_tensor(run, entry);
        if (golden_find(g, "%s/grad%d", name, n)) ls_set_requires_grad(inputs[n], true);
    }
    return n;
}

static void compare_outcome(ls_run *run, const golden *g, const char *name, ls_tensor *y, int n, ls_tensor **inputs)
{
    golden_compare(y, golden_find(g, "%s/out", name), TOLERANCE);
    if (!golden_find(g, "%s/seed", name)) return; /* no gradient */
    ls_backward(run, ls_sum(ls_mul(y, golden_tensor(run, golden_find(g, "%s/seed", name)))));
    for (int i = 0; i < n; i++) {
        const golden_entry *want = golden_find(g, "%s/grad%d", name, i);
        if (want) golden_compare(ls_grad(inputs[i]), want, TOLERANCE);
    }
}

static void compare_named(const golden *g, const char *name, const char *what, ls_module *module, bool gradients)
{
    char prefix[128];
    snprintf(prefix, sizeof prefix, "%s/%s/", name, what);
    for (int i = 0; i < g->count; i++) {
        if (strncmp(g->entries[i].name, prefix, strlen(prefix)) != 0) continue;
        ls_tensor *t = ls_module_tensor(module, g->entries[i].name + strlen(prefix));
        golden_compare(gradients ? ls_grad(t) : t, &g->entries[i], TOLERANCE);
    }
}

static void check_layer(const golden *g, const layer_case *c)
{
    ls_run *run = golden_run(LS_F32);
    ls_module *module = c->make(run);
    ls_tensor *inputs[MAX_INPUTS];
    int n = load_inputs(run, g, c->name, inputs);
    CHECK_MSG(n > 0, "%s: no golden values", c->name);
    char prefix[128];
    snprintf(prefix, sizeof prefix, "%s/state/", c->name);
    ls_load_state_dict(module, golden_state(run, g, prefix));
    if (strstr(c->name, "_eval")) ls_eval(module);
    ls_tensor *y = ls_forward_n(module, inputs, n);
    compare_outcome(run, g, c->name, y, n, inputs);
    compare_named(g, c->name, "grad", module, true);
    compare_named(g, c->name, "after", module, false);
    CHECK_MSG(ls_error(run) == LS_OK, "%s: %s", c->name, ls_error_message(run));
    ls_clear_error(run);
    ls_finish(run);
}

static void layers_match(void)
{
    golden g = golden_open(GOLDEN_DIR "/layers.safetensors");
    for (size_t i = 0; i < sizeof layer_cases / sizeof *layer_cases; i++) check_layer(&g, &layer_cases[i]);
    golden_close(&g);
}

static void check_functions(const char *file, const function_case *cases, size_t count)
{
    golden g = golden_open(file);
    for (size_t i = 0; i < count; i++) {
        ls_run *run = golden_run(LS_F32);
        const char *name = cases[i].name;
        ls_tensor *inputs[MAX_INPUTS];
        int n = load_inputs(run, &g, name, inputs);
        compare_outcome(run, &g, name, cases[i].call(inputs), n, inputs);
        CHECK_MSG(ls_error(run) == LS_OK, "%s: %s", name, ls_error_message(run));
        ls_clear_error(run);
        ls_finish(run);
    }
    golden_close(&g);
}

static void losses_match(void)
{
    check_functions(GOLDEN_DIR "/losses.safetensors", loss_cases, sizeof loss_cases / sizeof *loss_cases);
}

static void functions_match(void)
{
    check_functions(GOLDEN_DIR "/functions.safetensors", function_cases,
                    sizeof function_cases / sizeof *function_cases);
}

/* Nothing that PyTorch computed goes unused. */
static void all_cases_are_taken(void)
{
    golden g = golden_open(GOLDEN_DIR "/layers.safetensors");
    for (int i = 0; i < g.count; i++) {
        bool found = false;
        size_t length = strcspn(g.entries[i].name, "/");
        for (size_t c = 0; c < sizeof layer_cases / sizeof *layer_cases; c++)
            found |= strlen(layer_cases[c].name) == length && !strncmp(layer_cases[c].name, g.entries[i].name, length);
        CHECK_MSG(found, "%s: no such case", g.entries[i].name);
    }
    golden_close(&g);
}

int main(int argc, char **argv)
{
    golden_arguments(argc, argv);
    CHECK_RUN(layers_match);
    CHECK_RUN(losses_match);
    CHECK_RUN(functions_match);
    CHECK_RUN(all_cases_are_taken);
    return check_done();
}
