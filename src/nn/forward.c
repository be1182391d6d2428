/* forward.c - run a module: in a scope, on the error path, in its precision. */
#include <string.h>

#include "autograd/replay.h"
#include "base/list.h"
#include "nn/module.h"
#include "step/step.h"

/* Append the module to the error path: "net/layer3.2/conv1". Returns the previous length. */
static size_t enter_path(char path[], size_t size, const ls_module *module)
{
    size_t at = strlen(path), end = at;
    const char *name = module->name ? module->name : module->kind;
    size_t length = strlen(name);
    if (at && end + 1 < size) path[end++] = module->name && name[0] >= '0' && name[0] <= '9' ? '.' : '/';
    if (length > size - 1 - end) length = size - 1 - end;
    memcpy(path + end, name, length);
    path[end + length] = '\0';
    return at;
}

bool ls_layer_takes(const ls_module *module, int64_t n, int least, int most)
{
    if (n >= least && n <= most) return true;
    ls_run *run = module->object.run;
    if (least == most)
        ls_fail(&run->errors, LS_ERR_VALUE, "%s takes %d input%s, not %d", module->kind, least, least == 1 ? "" : "s",
                (int)n);
    else ls_fail(&run->errors, LS_ERR_VALUE, "%s takes %d to %d inputs, not %d", module->kind, least, most, (int)n);
    return false;
}

static ls_tensor *refuse(const ls_module *module, int64_t n)
{
    ls_run *run = module->object.run;
    if (module->forward) ls_layer_takes(module, n, 1, 1);
    else ls_fail(&run->errors, LS_ERR_STATE, "%s has no forward function; run its children", module->kind);
    return &run->poison;
}

static void call(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *out)
{
    out->count = 1;
    if (module->forward && n == 1) out->item[0] = module->forward(module, inputs[0], module->user);
    else if (module->forward_n) out->item[0] = module->forward_n(module, inputs, n, module->user);
    else if (module->forward_all) *out = module->forward_all(module, inputs, n, module->user);
    else out->item[0] = refuse(module, n);
}

static bool is_half(const ls_tensor *y)
{
    return y && y->life == LS_LIFE_LIVE && (y->view.dtype == LS_BF16 || y->view.dtype == LS_F16);
}

/* A prepared module computes in the run's mixed precision and returns f32, so that losses and metrics are computed in
 * full precision. */
static inline void call_in_its_precision(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *out)
{
    ls_run *run = module->object.run;
    if (run->step->mixed_precision == LS_F32 || !module->object.prepared) {
        call(module, inputs, n, out);
        return;
    }
    ls_autocast_begin(run, run->step->mixed_precision);
    call(module, inputs, n, out);
    ls_autocast_end(run);
    for (int64_t i = 0; i < out->count && i < LS_MAX_MODULE_OUTPUTS; i++)
        if (is_half(out->item[i])) out->item[i] = ls_cast(out->item[i], LS_F32);
}

/* ---- recomputation in backward ---- */

_Static_assert(LS_MAX_MODULE_INPUTS <= LS_REPLAY_INPUTS, "a replay holds the inputs of any module");

/* The state that a module's result depends on: versions of its parameters, its mode, and what is trained. */
static uint64_t print_of(const ls_module *module)
{
    uint64_t print = 1 + module->training;
    for (int i = 0; i < module->member_count; i++) {
        const ls_module_member *member = &module->members[i];
        if (!member->is_buffer) print = 31 * print + 2 * member->tensor->storage->version + member->tensor->is_leaf;
    }
    for (int i = 0; i < module->child_count; i++) print = 31 * print + print_of(module->children[i].module);
    return print;
}

static void again(void *user, uint64_t print, int n, ls_tensor *const *inputs)
{
    ls_module *module = user;
    ls_outputs out;
    if (print == print_of(module)) call_in_its_precision(module, inputs, n, &out);
    else
        ls_fail(&module->object.run->errors, LS_ERR_STATE,
                "%s changed between its forward pass and ls_backward(), which recomputes it: a parameter, training or "
                "evaluation mode, or what is frozen",
                module->kind);
}

void ls_set_recompute(ls_module *module, bool on)
{
    if (!module || ls_object_has_ended(module, "ls_set_recompute")) return;
    if (on && !module->forward && !module->forward_n && !module->forward_all)
        ls_fail(&module->object.run->errors, LS_ERR_STATE,
                "ls_set_recompute: %s has no forward function; recompute its children", module->kind);
    else module->recomputes = on;
}

/* ---- around the forward function ---- */

/* After a failure, and if outputs are invalid, a single poison output. */
static void check_outputs(const ls_module *module, const char *maker, ls_outputs *out)
{
    ls_run *run = module->object.run;
    if (ls_failed(run)) out->count = 0;
    else if (out->count < 1 || out->count > LS_MAX_MODULE_OUTPUTS)
        ls_fail(&run->errors, LS_ERR_VALUE, "%s returned %d outputs; a module has 1 to %d", maker, (int)out->count,
                LS_MAX_MODULE_OUTPUTS);
    for (int64_t i = 0; i < out->count && !ls_failed(run); i++)
        if (!out->item[i] && out->count == 1) ls_fail(&run->errors, LS_ERR_VALUE, "%s returned NULL", maker);
        else if (!out->item[i])
            ls_fail(&run->errors, LS_ERR_VALUE, "output %d of %d that %s returned is NULL", (int)i, (int)out->count,
                    maker);
    if (ls_failed(run)) *out = (ls_outputs){.count = 1, .item = {&run->poison}};
}

static void refuse_several(const ls_module *module, ls_outputs *out)
{
    out->item[0] = LS_POISON(module->object.run, LS_ERR_VALUE,
                             "%s has %d outputs, but one is expected here; ls_forward_all() returns all of them",
                             module->kind, (int)out->count);
    out->count = 1;
}

/* If it is trained, the user may have forgotten ls_prepare() for mixed precision: ls_backward() will check. */
static void note_full_precision(ls_module *module)
{
    ls_run *run = module->object.run;
    if (run->step->mixed_precision == LS_F32 || module->object.prepared || run->autocast_count || run->no_grad) return;
    module->in_full_precision = run->step->full_precision_forwards = true;
}

static void note_outputs(ls_module *module, const ls_outputs *out)
{
    module->output_count = out->item[0]->life == LS_LIFE_LIVE ? (int)out->count : 0;
    for (int i = 0; i < module->output_count; i++) module->output[i] = ls_view_shape(&out->item[i]->view);
}

/* State that a module changes while it runs. */
typedef struct surroundings {
    size_t path_end;
    const char *site;
    ls_mark mark;
    int32_t no_grad, autocasts;
} surroundings;

static surroundings enter(ls_module *module)
{
    ls_run *run = module->object.run;
    surroundings outside = {.path_end = enter_path(run->errors.path, sizeof run->errors.path, module),
                            .site = run->site,
                            .no_grad = run->no_grad,
                            .autocasts = run->autocast_count};
    run->site = module->site = ls_site_here(run, module->site);
    outside.mark = ls_scope_begin(run);
    module->running++;
    return outside;
}

static void leave(ls_module *module, surroundings outside, ls_outputs *out)
{
    ls_run *run = module->object.run;
    ls_scope_end_n(run, outside.mark, (int)out->count, out->item);
    note_outputs(module, out);
    module->running--;
    run->errors.path[outside.path_end] = '\0';
    run->site = outside.site;
}

/* A mode switched on in the forward function would otherwise stay on for everything that follows. */
static void check_switches(const ls_module *module, const surroundings *outside)
{
    ls_run *run = module->object.run;
    if (run->no_grad == outside->no_grad && run->autocast_count == outside->autocasts) return;
    const char *what = run->no_grad == outside->no_grad ? "autocast" : "no_grad";
    bool open = run->no_grad > outside->no_grad || run->autocast_count > outside->autocasts;
    ls_fail(&run->errors, LS_ERR_STATE, "%s called ls_%s_%s() without ls_%s_%s() in its forward function or a hook",
            module->kind, what, open ? "begin" : "end", what, open ? "end" : "begin");
    run->no_grad = outside->no_grad;
    run->autocast_count = outside->autocasts;
}

enum { DEEPEST = 1000 };

/* Run a module with up to `most` outputs. Returns at least one output, poison after a failure. */
static void forward(ls_module *module, ls_tensor *const *inputs, int64_t n, int most, ls_outputs *out)
{
    ls_run *run = module ? module->object.run : ls_run_of(n > 0 && inputs ? inputs[0] : NULL);
    bool takes = n <= LS_MAX_MODULE_INPUTS && ls_is_list(inputs, n);
    if (!module || ls_failed(run) || !takes || module->running >= DEEPEST) {
        if (!module) ls_fail(&run->errors, LS_ERR_VALUE, "ls_forward: the module is NULL");
        else if (!ls_object_has_ended(module, "ls_forward") && module->running >= DEEPEST)
            ls_fail(&run->errors, LS_ERR_STATE,
                    "ls_forward: %s runs inside itself %d times; its forward function or a hook calls it endlessly",
                    module->kind, module->running);
        else if (!ls_object_has_ended(module, "ls_forward") &&
                 ls_list_is_sound(&run->errors, "ls_forward", "inputs", inputs, n))
            ls_fail(&run->errors, LS_ERR_VALUE, "ls_forward: %d inputs; a module takes up to %d", (int)n,
                    LS_MAX_MODULE_INPUTS);
        out->count = 1;
        out->item[0] = &run->poison;
        return;
    }
    surroundings outside = enter(module);
    if (outside.path_end == 0) note_full_precision(module);
    ls_tensor *replaced[LS_MAX_MODULE_INPUTS];
    if (module->hooks) inputs = ls_hooks_before(module, inputs, n, replaced);
    out->count = 0;
    ls_replay *replay = NULL;
    if (module->recomputes) replay = ls_replay_begin(run, again, module, print_of(module), (int)n, inputs);
    if (!ls_failed(run)) call_in_its_precision(module, inputs, n, out);
    if (replay) ls_replay_end(replay);
    if (out->count != 1 || !out->item[0]) check_outputs(module, "the forward function", out);
    if (module->hooks) {
        ls_hooks_after(module, inputs, n, out);
        check_outputs(module, "a forward hook", out);
    }
    check_switches(module, &outside);
    if (ls_failed(run)) *out = (ls_outputs){.count = 1, .item = {&run->poison}};
    if (out->count > most) refuse_several(module, out);
    leave(module, outside, out);
}

ls_outputs ls_forward_as(ls_module *module, ls_forward_all_fn *function, ls_tensor *const *inputs, int64_t n,
                         void *user)
{
    surroundings outside = enter(module);
    ls_outputs out = function(module, inputs, n, user);
    leave(module, outside, &out);
    return out;
}

ls_tensor *ls_forward_n(ls_module *module, ls_tensor *const *inputs, int64_t count)
{
    ls_outputs out;
    forward(module, inputs, count, 1, &out);
    return out.item[0];
}

ls_outputs ls_forward_all_n(ls_module *module, ls_tensor *const *inputs, int64_t count)
{
    ls_outputs out;
    forward(module, inputs, count, LS_MAX_MODULE_OUTPUTS, &out);
    ls_run *run = ls_run_of(out.item[0]);
    bool failed = ls_failed(run);
    if (failed) out.count = 0;
    for (int64_t i = out.count; i < LS_MAX_MODULE_OUTPUTS; i++) out.item[i] = failed ? &run->poison : NULL;
    return out;
}

ls_outputs ls_outputs_n(ls_tensor *const *items, int64_t count)
{
    ls_outputs out = {.count = count};
    if (!ls_is_list(items, count)) {
        ls_list_is_sound(&ls_run_of(NULL)->errors, "ls_outputs_n", "outputs", items, count);
        out.count = 0;
    }
    for (int64_t i = 0; i < out.count && i < LS_MAX_MODULE_OUTPUTS; i++) out.item[i] = items[i];
    return out;
}
