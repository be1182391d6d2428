/* rules.c - SGD, Adam, AdamW, RMSprop and Adagrad: PyTorch's defaults, and their device calls. */
#include <math.h>

#include "optim/optim.h"

/* ---- SGD ---- */

static int sgd_moment_count(const ls_optim_group_opts *settings)
{
    return settings->momentum != 0;
}

static void sgd_fill_call(const ls_optim *optim, const ls_optim_group_opts *settings, const ls_optim_span *span,
                          ls_call *call)
{
    call->op = LS_OP_sgd_step;
    call->attrs.sgd.lr = settings->lr;
    call->attrs.sgd.momentum = settings->momentum;
    call->attrs.sgd.dampening = settings->dampening;
    call->attrs.sgd.weight_decay = settings->weight_decay;
    call->attrs.sgd.nesterov = optim->nesterov;
    call->attrs.sgd.maximize = optim->maximize;
    call->attrs.sgd.first = span->first && settings->dampening != 0; /* else zeros decay: it is a step like others */
}

static const ls_rule sgd = {
    .name = "SGD",
    .moment_names = {"momentum_buffer"},
    .most_moments = 1,
    .options = "momentum dampening",
    .moment_count = sgd_moment_count,
    .fill_call = sgd_fill_call,
};

ls_optim *ls_sgd_new_sized(ls_run *run, ls_module *module, const ls_sgd_opts *given, size_t opts_size)
{
    ls_sgd_opts opts = LS_OPTS_READ(ls_sgd_opts, given, opts_size);
    if (opts.nesterov && (opts.momentum <= 0 || opts.dampening != 0)) {
        ls_fail(&run->errors, LS_ERR_VALUE, "SGD: Nesterov needs momentum and no dampening, not %g and %g",
                opts.momentum, opts.dampening);
        return NULL;
    }
    return ls_optim_new(run, &sgd, opts.parameters ? opts.parameters : ls_object_parameters(module),
                        &(ls_optim){.defaults = {.lr = opts.lr,
                                                 .weight_decay = opts.weight_decay,
                                                 .momentum = opts.momentum,
                                                 .dampening = opts.dampening},
                                    .nesterov = opts.nesterov,
                                    .maximize = opts.maximize,
                                    .master_weights = opts.master_weights,
                                    .scattered = opts.scattered});
}

/* ---- Adam and AdamW ---- */

static int adam_moment_count(const ls_optim_group_opts *settings)
{
    (void)settings;
    return 2;
}

static void adam_fill_call(const ls_optim *optim, const ls_optim_group_opts *settings, const ls_optim_span *span,
                           ls_call *call)
{
    call->op = LS_OP_adam_step;
    call->attrs.adam.lr = settings->lr;
    call->attrs.adam.beta1 = settings->beta1;
    call->attrs.adam.beta2 = settings->beta2;
    call->attrs.adam.epsilon = settings->epsilon;
    call->attrs.adam.weight_decay = settings->weight_decay;
    call->attrs.adam.bias1 = 1 - pow(settings->beta1, (double)span->step);
    call->attrs.adam.bias2 = 1 - pow(settings->beta2, (double)span->step);
    call->attrs.adam.decoupled = optim->decoupled;
    call->attrs.adam.maximize = optim->maximize;
}

static const ls_rule adam = {
    .name = "Adam",
    .moment_names = {"exp_avg", "exp_avg_sq"},
    .most_moments = 2,
    .options = "beta1 beta2 epsilon",
    .moment_count = adam_moment_count,
    .fill_call = adam_fill_call,
};

static const ls_rule adamw = {
    .name = "AdamW",
    .moment_names = {"exp_avg", "exp_avg_sq"},
    .most_moments = 2,
    .options = "beta1 beta2 epsilon",
    .moment_count = adam_moment_count,
    .fill_call = adam_fill_call,
};

static ls_optim *adam_new(ls_run *run, const ls_rule *rule, ls_module *module, ls_adam_opts opts)
{
    return ls_optim_new(run, rule, opts.parameters ? opts.parameters : ls_object_parameters(module),
                        &(ls_optim){.defaults = {.lr = opts.lr,
                                                 .weight_decay = opts.weight_decay,
                                                 .beta1 = opts.beta1,
                                                 .beta2 = opts.beta2,
                                                 .epsilon = opts.epsilon},
                                    .decoupled = rule == &adamw,
                                    .maximize = opts.maximize,
                                    .master_weights = opts.master_weights,
                                    .scattered = opts.scattered});
}

ls_optim *ls_adam_new_sized(ls_run *run, ls_module *module, const ls_adam_opts *opts, size_t opts_size)
{
    return adam_new(run, &adam, module, LS_OPTS_READ(ls_adam_opts, opts, opts_size));
}

ls_optim *ls_adamw_new_sized(ls_run *run, ls_module *module, const ls_adamw_opts *opts, size_t opts_size)
{
    ls_adamw_opts o = LS_OPTS_READ(ls_adamw_opts, opts, opts_size);
    return adam_new(run, &adamw, module,
                    (ls_adam_opts){.lr = o.lr,
                                   .beta1 = o.beta1,
                                   .beta2 = o.beta2,
                                   .epsilon = o.epsilon,
                                   .weight_decay = o.weight_decay,
                                   .maximize = o.maximize,
                                   .master_weights = o.master_weights,
                                   .scattered = o.scattered,
                                   .parameters = o.parameters});
}

/* ---- RMSprop ---- */

static int rmsprop_moment_count(const ls_optim_group_opts *settings)
{
    return settings->momentum != 0 ? 2 : 1;
}

static void rmsprop_fill_call(const ls_optim *optim, const ls_optim_group_opts *settings, const ls_optim_span *span,
                              ls_call *call)
{
    (void)span;
    call->op = LS_OP_rmsprop_step;
    call->attrs.rmsprop.lr = settings->lr;
    call->attrs.rmsprop.alpha = settings->beta2;
    call->attrs.rmsprop.epsilon = settings->epsilon;
    call->attrs.rmsprop.weight_decay = settings->weight_decay;
    call->attrs.rmsprop.momentum = settings->momentum;
    call->attrs.rmsprop.maximize = optim->maximize;
}

static int centered_moment_count(const ls_optim_group_opts *settings)
{
    return 1 + rmsprop_moment_count(settings);
}

static void centered_fill_call(const ls_optim *optim, const ls_optim_group_opts *settings, const ls_optim_span *span,
                               ls_call *call)
{
    rmsprop_fill_call(optim, settings, span, call);
    call->op = LS_OP_centered_rmsprop_step;
}

static const ls_rule centered_rmsprop = {
    .name = "centered RMSprop",
    .moment_names = {"square_avg", "grad_avg", "momentum_buffer"},
    .most_moments = 3,
    .options = "momentum beta2 epsilon",
    .moment_count = centered_moment_count,
    .fill_call = centered_fill_call,
};

static const ls_rule rmsprop = {
    .name = "RMSprop",
    .moment_names = {"square_avg", "momentum_buffer"},
    .most_moments = 2,
    .options = "momentum beta2 epsilon",
    .moment_count = rmsprop_moment_count,
    .fill_call = rmsprop_fill_call,
};

ls_optim *ls_rmsprop_new_sized(ls_run *run, ls_module *module, const ls_rmsprop_opts *given, size_t opts_size)
{
    ls_rmsprop_opts opts = LS_OPTS_READ(ls_rmsprop_opts, given, opts_size);
    const ls_rule *rule = opts.centered ? &centered_rmsprop : &rmsprop;
    return ls_optim_new(run, rule, opts.parameters ? opts.parameters : ls_object_parameters(module),
                        &(ls_optim){.defaults = {.lr = opts.lr,
                                                 .weight_decay = opts.weight_decay,
                                                 .momentum = opts.momentum,
                                                 .beta2 = opts.alpha,
                                                 .epsilon = opts.epsilon},
                                    .maximize = opts.maximize,
                                    .master_weights = opts.master_weights,
                                    .scattered = opts.scattered});
}

/* ---- Adagrad ---- */

static int adagrad_moment_count(const ls_optim_group_opts *settings)
{
    (void)settings;
    return 1;
}

static void adagrad_fill_call(const ls_optim *optim, const ls_optim_group_opts *settings, const ls_optim_span *span,
                              ls_call *call)
{
    call->op = LS_OP_adagrad_step;
    call->attrs.adagrad.lr = settings->lr / (1 + (double)(span->step - 1) * optim->lr_decay);
    call->attrs.adagrad.epsilon = settings->epsilon;
    call->attrs.adagrad.weight_decay = settings->weight_decay;
    call->attrs.adagrad.maximize = optim->maximize;
}

static const ls_rule adagrad = {
    .name = "Adagrad",
    .moment_names = {"sum"},
    .most_moments = 1,
    .options = "epsilon",
    .moment_count = adagrad_moment_count,
    .fill_call = adagrad_fill_call,
};

ls_optim *ls_adagrad_new_sized(ls_run *run, ls_module *module, const ls_adagrad_opts *given, size_t opts_size)
{
    ls_adagrad_opts opts = LS_OPTS_READ(ls_adagrad_opts, given, opts_size);
    if (!(opts.lr_decay >= 0 && opts.lr_decay < INFINITY)) {
        ls_fail(&run->errors, LS_ERR_VALUE, "Adagrad: .lr_decay = %g; it must be finite and not negative",
                opts.lr_decay);
        return NULL;
    }
    return ls_optim_new(
        run, &adagrad, opts.parameters ? opts.parameters : ls_object_parameters(module),
        &(ls_optim){.defaults = {.lr = opts.lr, .weight_decay = opts.weight_decay, .epsilon = opts.epsilon},
                    .lr_decay = opts.lr_decay,
                    .maximize = opts.maximize,
                    .master_weights = opts.master_weights,
                    .scattered = opts.scattered});
}
