/* conv_norm.c - a convolution and the batch norm after it, as one operator if the result is the same. */
#include "nn/layers.h"

#include "ops/op.h"

bool ls_conv_norm_is_one(const ls_module *conv, const ls_module *norm, ls_tensor *x, ls_tensor *residual)
{
    const ls_conv_layer *c = ls_as_conv2d(conv);
    const ls_norm_layer *n = ls_as_batch_norm(norm);
    if (!c || !n || !n->running_mean || ls_failed(conv->object.run)) return false;
    if (!ls_device_supports(c->weight->storage->device, LS_OP_conv2d_norm)) return false;
    if (conv->hooks || norm->hooks) return false;                     /* hooks see the intermediate result */
    if (conv->object.prepared || norm->object.prepared) return false; /* each in its own precision */
    if (n->comm && norm->training) return false;                      /* by the batches of all processes */
    return !ls_must_record(conv->object.run, 6, (ls_tensor *[]){x, c->weight, c->bias, n->weight, n->bias, residual});
}

static ls_outputs both_forward(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    const ls_conv_layer *conv = ls_as_conv2d(self);
    const ls_norm_layer *norm = ls_as_batch_norm(user);
    ls_batch_norm_opts opts = {.weight = norm->weight,
                               .bias = norm->bias,
                               .running_mean = norm->running_mean,
                               .running_var = norm->running_var,
                               .residual = n > 1 ? x[1] : NULL,
                               .training = norm->module.training,
                               .momentum = norm->momentum,
                               .epsilon = norm->epsilon,
                               .activation = norm->activation};
    ls_tensor *y = ls_conv2d_norm(x[0], conv->weight, conv->bias, &conv->geometry, &opts);
    if (opts.training && y->life == LS_LIFE_LIVE && !ls_is_recomputing(y->run)) ls_counter_step(norm->batches);
    return LS_OUTPUTS(y);
}

ls_tensor *ls_forward_conv_norm(ls_module *conv, ls_module *norm, ls_tensor *x, ls_tensor *residual)
{
    if (!ls_conv_norm_is_one(conv, norm, x, residual)) {
        ls_carried at = {.tensor = x};
        ls_carry_on(&at, conv, NULL, ls_forward(conv, x));
        ls_tensor *y = at.tensor;
        ls_carry_on(&at, norm, NULL, residual ? ls_forward(norm, y, residual) : ls_forward(norm, y));
        return at.tensor;
    }
    ls_outputs y = ls_forward_as(conv, both_forward, (ls_tensor *[]){x, residual}, residual ? 2 : 1, norm);
    ls_forwarded_with(norm, conv, 0);
    return y.item[0];
}
