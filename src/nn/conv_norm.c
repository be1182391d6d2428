/* conv_norm.c - a convolution and the batch norm after it, as one operator if the result is the same. */
#include "nn/layers.h"

#include "ops/op.h"

/* Must each be run on its own? Hooks see the result in between, and what is prepared has its own precision. Recomputing
 * one of them would save next to nothing, as both keep little more than their inputs: in a pair neither is. */
static bool are_apart(const ls_module *conv, const ls_module *norm)
{
    return conv->hooks || norm->hooks || conv->object.prepared || norm->object.prepared;
}

bool ls_conv_norm_is_one(const ls_module *conv, const ls_module *norm, ls_tensor *x, ls_tensor *residual)
{
    const ls_conv_layer *c = ls_as_conv2d(conv);
    const ls_norm_layer *n = ls_as_batch_norm(norm);
    if (!c || !n || !n->running_mean || ls_failed(conv->object.run)) return false;
    if (!ls_device_supports(c->weight->storage->device, LS_OP_conv2d_norm)) return false;
    if (are_apart(conv, norm)) return false;
    if (n->comm && norm->training) return false; /* by the batches of all processes */
    return !ls_must_record(conv->object.run, 6, (ls_tensor *[]){x, c->weight, c->bias, n->weight, n->bias, residual});
}

static ls_batch_norm_opts norm_opts(const ls_norm_layer *norm, ls_tensor *residual)
{
    return (ls_batch_norm_opts){.weight = norm->weight,
                                .bias = norm->bias,
                                .running_mean = norm->running_mean,
                                .running_var = norm->running_var,
                                .residual = residual,
                                .training = norm->module.training || !norm->running_mean,
                                .momentum = norm->momentum,
                                .epsilon = norm->epsilon,
                                .activation = norm->activation};
}

/* y has been normalised by its batch. */
static void count_batch(const ls_norm_layer *norm, const ls_tensor *y)
{
    if (y->life == LS_LIFE_LIVE && !ls_is_recomputing(y->run)) ls_counter_step(norm->batches);
}

static ls_outputs both_forward(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    const ls_conv_layer *conv = ls_as_conv2d(self);
    const ls_norm_layer *norm = ls_as_batch_norm(user);
    ls_batch_norm_opts opts = norm_opts(norm, n > 1 ? x[1] : NULL);
    ls_tensor *y = ls_conv2d_norm(x[0], conv->weight, conv->bias, &conv->geometry, &opts);
    if (opts.training) count_batch(norm, y);
    return LS_OUTPUTS(y);
}

/* Can the convolution gather the statistics that the norm goes by? */
static bool gathers(const ls_module *conv, const ls_module *norm)
{
    const ls_conv_layer *c = ls_as_conv2d(conv);
    const ls_norm_layer *n = ls_as_batch_norm(norm);
    if (!c || !n || n->comm || are_apart(conv, norm) || ls_failed(conv->object.run)) return false;
    return (norm->training || !n->running_mean) && ls_device_has(c->weight->storage->device, LS_TRAIT_MOMENTS);
}

static ls_outputs gathering_forward(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)n, (void)user;
    const ls_conv_layer *conv = ls_as_conv2d(self);
    ls_tensor *poison = &self->object.run->poison, *moments[2] = {poison, poison};
    ls_tensor *y = ls_conv2d_moments(x[0], conv->weight, conv->bias, &conv->geometry, moments);
    return LS_OUTPUTS(y, moments[0], moments[1]);
}

static ls_outputs gathered_forward(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    const ls_norm_layer *norm = ls_as_batch_norm(self);
    ls_batch_norm_opts opts = norm_opts(norm, n > 1 ? x[1] : NULL);
    ls_tensor *y = ls_batch_norm_by(x[0], &opts, user);
    if (norm->running_mean) count_batch(norm, y);
    return LS_OUTPUTS(y);
}

static ls_tensor *gathered(ls_module *conv, ls_module *norm, ls_tensor *x, ls_tensor *residual)
{
    ls_outputs from = ls_forward_as(conv, gathering_forward, &x, 1, NULL);
    conv->output_count = from.item[0]->life == LS_LIFE_LIVE; /* statistics are none of its outputs */
    ls_tensor *y =
        ls_forward_as(norm, gathered_forward, (ls_tensor *[]){from.item[0], residual}, residual ? 2 : 1, from.item + 1)
            .item[0];
    for (int i = 0; i < 3; i++) {
        ls_carried intermediate = {.tensor = from.item[i], .is_unseen = true};
        ls_carry_on(&intermediate, conv, norm, y);
    }
    return y;
}

ls_tensor *ls_forward_conv_norm(ls_module *conv, ls_module *norm, ls_tensor *x, ls_tensor *residual)
{
    bool one = ls_conv_norm_is_one(conv, norm, x, residual);
    if (!one && gathers(conv, norm)) return gathered(conv, norm, x, residual);
    if (!one) {
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
