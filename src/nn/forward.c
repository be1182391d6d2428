/* forward.c - a module runs: in a scope, on the path that errors carry, in its precision. */
#include <string.h>

#include "nn/module.h"

/* Append the module to the path that errors carry: "net/layer3.2/conv1". Returns where to cut it off again. */
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

bool ls_layer_takes(const ls_module *module, int n, int least, int most)
{
    if (n >= least && n <= most) return true;
    ls_run *run = module->object.run;
    if (least == most)
        ls_fail(&run->errors, LS_ERR_VALUE, "%s takes %d input%s, not %d", module->kind, least, least == 1 ? "" : "s",
                n);
    else ls_fail(&run->errors, LS_ERR_VALUE, "%s takes %d to %d inputs, not %d", module->kind, least, most, n);
    return false;
}

static ls_tensor *call(ls_module *module, int n, ls_tensor *const *inputs)
{
    ls_run *run = module->object.run;
    if (module->forward_n) return module->forward_n(module, n, inputs, module->user);
    if (module->forward)
        return ls_layer_takes(module, n, 1, 1) ? module->forward(module, inputs[0], module->user) : &run->poison;
    return LS_POISON(run, LS_ERR_STATE, "%s has no forward function; run its children", module->kind);
}

/* A prepared module computes in the run's mixed precision; what it returns is f32 again, so that losses and metrics are
 * not computed with eight bits. */
static ls_tensor *call_in_its_precision(ls_module *module, int n, ls_tensor *const *inputs)
{
    ls_run *run = module->object.run;
    if (run->mixed_precision == LS_F32 || !module->object.prepared) return call(module, n, inputs);
    ls_autocast_begin(run, run->mixed_precision);
    ls_tensor *y = call(module, n, inputs);
    ls_autocast_end(run);
    bool half = y && y->life == LS_LIFE_LIVE && (y->view.dtype == LS_BF16 || y->view.dtype == LS_F16);
    return half ? ls_cast(y, LS_F32) : y;
}

/* If it is trained, the user may have wanted mixed precision and forgotten ls_prepare(): ls_backward() will look. */
static void note_full_precision(ls_module *module)
{
    ls_run *run = module->object.run;
    if (run->mixed_precision == LS_F32 || module->object.prepared || run->autocast_count || run->no_grad) return;
    module->in_full_precision = run->full_precision_forwards = true;
}

ls_tensor *ls_forward_n(ls_module *module, int n, ls_tensor *const *inputs)
{
    if (!module) {
        ls_run *current = ls_run_of(n > 0 ? inputs[0] : NULL);
        return LS_POISON(current, LS_ERR_VALUE, "ls_forward: the module is NULL");
    }
    ls_run *run = module->object.run;
    if (ls_failed(run)) return ls_object_has_ended(module, "ls_forward"), &run->poison;
    char *path = run->errors.path;
    size_t cut = enter_path(path, sizeof run->errors.path, module);
    if (cut == 0) note_full_precision(module);
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *y = call_in_its_precision(module, n, inputs);
    if (!y) y = LS_POISON(run, LS_ERR_VALUE, "the forward function returned NULL");
    y = ls_scope_end(run, mark, y);
    module->has_output = y->life == LS_LIFE_LIVE;
    if (module->has_output) module->output = ls_view_shape(&y->view);
    path[cut] = '\0';
    return y;
}

ls_tensor *ls_forward(ls_module *module, ls_tensor *x)
{
    return ls_forward_n(module, 1, &x);
}
