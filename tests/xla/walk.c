/* walk.c - the table of operator calls on device xla, against the CPU: many cases in each program, since to compile a
 * program takes longer than to execute it.
 *
 * test_xla_walk [part of a label [device]] */
#include <stdlib.h>

#include "check.h"
#include "op_inputs.h"
#include "ops/op.h"

enum { MOST = 1000, AT_ONCE = 24 };

static const char *case_filter, *device_name = XLA_DEVICE;

/* What a case gave: the result, then gradients. */
typedef struct outcome {
    ls_tensor *tensor[1 + CASE_INPUTS];
    ls_dtype dtype[1 + CASE_INPUTS];
    int64_t n[1 + CASE_INPUTS];
    double *values[1 + CASE_INPUTS];
} outcome;

static bool is_walked(const op_case *c)
{
    return !case_filter || strstr(c->label, case_filter);
}

static outcome submit(ls_run *run, const op_case *c, ls_dtype dtype, layout how)
{
    outcome out = {0};
    inputs all = inputs_make(c, how);
    ls_tensor *in[CASE_INPUTS] = {0}, *leaf[CASE_INPUTS] = {0};
    bool backward = is_differentiable(c);
    ls_set_seed(run, 7);
    for (int i = 0; i < all.n; i++) {
        in[i] = make_input(run, &c->in[i], dtype, how, all.values[i]);
        bool wants = backward && c->in[i].kind != INPUT_INDEX && c->in[i].kind != INPUT_BOOL && !c->in[i].no_gradient;
        if (wants) leaf[i] = in[i] = ls_set_requires_grad(ls_detach(in[i]), true);
    }
    out.tensor[0] = c->call(run, in);
    if (backward) ls_backward(run, weighted_sum(run, out.tensor[0]));
    for (int i = 0; i < all.n; i++) out.tensor[1 + i] = leaf[i] ? ls_grad(leaf[i]) : NULL;
    for (int i = 0; i <= CASE_INPUTS; i++)
        if (out.tensor[i]) out.tensor[i] = ls_contiguous(ls_detach(out.tensor[i]));
    CHECK_MSG(ls_error(run) == LS_OK, "%s %s: %s", c->label, ls_dtype_name(dtype), ls_error_message(run));
    ls_clear_error(run);
    inputs_free(&all);
    return out;
}

/* Numbers in the tensor's own type, as doubles: to convert them there would be one more program. */
static void read(ls_run *run, const op_case *c, outcome *out)
{
    for (int i = 0; i <= CASE_INPUTS; i++) {
        ls_tensor *t = out->tensor[i];
        if (!t) continue;
        out->dtype[i] = ls_dtype_of(t);
        out->n[i] = ls_numel(t);
        ls_run *host = ls_init(NULL, NULL, .device = "cpu");
        size_t bytes = (size_t)out->n[i] * ls_dtype_size(out->dtype[i]);
        void *raw = malloc(bytes + 1);
        out->values[i] = calloc((size_t)out->n[i] + 1, sizeof(double));
        CHECK_MSG(ls_read(t, raw, bytes), "%s: %s", c->label, ls_error_message(run));
        ls_tensor *wide = ls_cast(ls_from(host, out->dtype[i], LS_SHAPE(out->n[i]), raw), LS_F64);
        CHECK(ls_read(wide, out->values[i], (size_t)out->n[i] * sizeof(double)));
        ls_finish(host);
        free(raw);
    }
}

static void outcome_free(outcome *out)
{
    for (int i = 0; i <= CASE_INPUTS; i++) free(out->values[i]);
}

/* Both sides round intermediate results; the order of sums differs. */
static double tolerance(ls_dtype dtype, const op_case *c)
{
    double slack = c->slack ? c->slack : 1;
    switch (dtype) {
    case LS_F64: return 1e-10 * slack;
    case LS_F32: return 1e-5 * slack;
    case LS_F16: return 6e-3 * slack;
    case LS_BF16: return 5e-2 * slack;
    default: return 0;
    }
}

static void compare(const op_case *c, const outcome *got, const outcome *want, const char *how)
{
    for (int t = 0; t <= CASE_INPUTS; t++) {
        CHECK_MSG(!want->values[t] == !got->values[t], "%s %s: only one device gives %s %d", c->label, how,
                  t ? "gradient" : "output", t - 1);
        if (!want->values[t] || !got->values[t]) continue;
        bool is_random_tensor = c->in[0].kind == INPUT_NONE;
        double limit = is_random_tensor ? 0 : tolerance(want->dtype[t], c), scale = 1;
        CHECK_MSG(got->n[t] == want->n[t] && got->dtype[t] == want->dtype[t], "%s %s: shapes differ", c->label, how);
        for (int64_t i = 0; i < want->n[t]; i++) scale = fmax(scale, fabs(want->values[t][i]));
        for (int64_t i = 0; i < want->n[t]; i++) {
            double a = got->values[t][i], b = want->values[t][i];
            if (fabs(a - b) <= limit * scale || (isnan(a) && isnan(b)) || a == b) continue;
            check_fail(__FILE__, __LINE__, "%s/%s %s, %s %d: element %lld is %.9g, expected %.9g (limit %.3g)",
                       ls_op_table[c->op].name, c->label, how, t ? "gradient" : "output", t - 1, (long long)i, a, b,
                       limit * scale);
            break;
        }
    }
}

/* Operators that run on the host because XLA has no form for them; all others are compiled. */
static void check_host_operators(ls_run *run)
{
    static const char *const known[] = {"randperm"};
    char names[sizeof((ls_device_counts){0}).host_operators], *rest = NULL;
    snprintf(names, sizeof names, "%s", ls_device_stats(run).host_operators);
    for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        bool is_known = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) is_known |= strcmp(name, known[i]) == 0;
        CHECK_MSG(is_known, "%s ran on the host", name);
    }
}

/* Cases [first, first + count) in one program on the device, then on the CPU. */
static void walk(int first, int count, ls_dtype dtype, layout how)
{
    static const char *const names[] = {"plain", "gaps", "turned", "repeated"};
    static outcome got[AT_ONCE], want[AT_ONCE];
    const char *const devices[] = {device_name, "cpu"};
    for (int d = 0; d < 2; d++) {
        outcome *all = d ? want : got;
        ls_run *run = ls_init(NULL, NULL, .seed = 7, .device = devices[d]);
        for (int i = 0; i < count; i++)
            if (is_walked(&op_cases[first + i])) all[i] = submit(run, &op_cases[first + i], dtype, how);
        for (int i = 0; i < count; i++)
            if (is_walked(&op_cases[first + i])) read(run, &op_cases[first + i], &all[i]);
        check_host_operators(run);
        ls_finish(run);
    }
    for (int i = 0; i < count; i++) {
        const op_case *c = &op_cases[first + i];
        char text[80];
        snprintf(text, sizeof text, "%s %s", ls_dtype_name(dtype), names[how]);
        if (is_walked(c)) compare(c, &got[i], &want[i], text);
        if (is_walked(c)) outcome_free(&got[i]), outcome_free(&want[i]);
        got[i] = want[i] = (outcome){0};
    }
}

static void walk_all(ls_dtype dtype, layout how)
{
    for (int first = 0; first < op_case_count; first += AT_ONCE)
        walk(first, op_case_count - first < AT_ONCE ? op_case_count - first : AT_ONCE, dtype, how);
}

static void every_case_in_f32(void)
{
    walk_all(LS_F32, PLAIN);
}

static void every_case_in_bf16(void)
{
    walk_all(LS_BF16, PLAIN);
}

static void every_case_in_f64(void)
{
    walk_all(LS_F64, PLAIN);
}

static void inputs_with_gaps(void)
{
    walk_all(LS_F32, GAPS);
}

static void inputs_turned_in_memory(void)
{
    walk_all(LS_F32, TURNED);
}

int main(int argc, char **argv)
{
    if (argc > 1) case_filter = argv[1];
    if (argc > 2) device_name = argv[2];
    CHECK_RUN(every_case_in_f32);
    CHECK_RUN_SLOW(every_case_in_bf16);
    CHECK_RUN_SLOW(every_case_in_f64);
    CHECK_RUN_SLOW(inputs_with_gaps);
    CHECK_RUN_SLOW(inputs_turned_in_memory);
    return check_done();
}
