/* optim.h - optimisers, learning rate schedules, clipping: PyTorch's arithmetic and defaults.
 *
 *     ls_optim *adam = ls_adam_new(run, model, .lr = 3e-4);
 *     ls_schedule *cycle = ls_one_cycle_schedule_new(adam, .max_lr = 3e-3, .epochs = 5, .steps_per_epoch = 100);
 *     ...
 *     ls_backward(run, loss);
 *     ls_clip_grad_norm(adam, 1.0);
 *     ls_step(adam);
 *     ls_schedule_step(cycle);
 *     ls_zero_grad(adam);
 *
 * Optimisers and schedules belong to the run and are freed with it. A constructor that fails records the error and
 * returns NULL; every function here accepts NULL and does nothing. */
#ifndef LOCKSTEP_OPTIM_H
#define LOCKSTEP_OPTIM_H

#include <lockstep/state.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_module ls_module; /* nn.h */
typedef struct ls_optim ls_optim;
typedef struct ls_schedule ls_schedule;

/* ---- Optimisers ----
 *
 * Made for all parameters of a module, ls_sgd_new(run, model, .lr = 0.1), or for a list, of one module or of several:
 * ls_sgd_new(run, NULL, .parameters = list). A step does not change parameters that are frozen or got no gradient, nor
 * their state. */

typedef struct ls_sgd_opts {
    double lr LS_DEFAULT(1e-3);
    double momentum LS_DEFAULT(0), dampening LS_DEFAULT(0), weight_decay LS_DEFAULT(0);
    bool nesterov LS_DEFAULT(false), maximize LS_DEFAULT(false);
    /* Keep an f32 copy of half-precision parameters, update it, and round from it. */
    bool master_weights LS_DEFAULT(false);
    /* Leave each tensor where it is; otherwise f32 parameters move into one block of memory at the first step, and
     * views of them (ls_detach, ls_reshape ...) with them. A parameter that is a part of another tensor stays, but
     * where several processes train it moves alone, with a warning. */
    bool scattered LS_DEFAULT(false);
    const ls_state *parameters LS_DEFAULT(NULL); /* these instead of all of the module */
    ls_options_end _ LS_DEFAULT({});
} ls_sgd_opts;
#define ls_sgd_opts_defaults .lr = 1e-3
#define ls_sgd_new(run, ...) LS_CALL_2(ls_sgd_new, ls_sgd_opts, run, __VA_ARGS__, )
LS_API ls_optim *ls_sgd_new_sized(ls_run *run, ls_module *module, const ls_sgd_opts *opts, size_t opts_size);

/* Adds weight decay to the gradient. */
typedef struct ls_adam_opts {
    double lr LS_DEFAULT(1e-3);
    double beta1 LS_DEFAULT(0.9), beta2 LS_DEFAULT(0.999);
    double epsilon LS_DEFAULT(1e-8);
    double weight_decay LS_DEFAULT(0);
    bool maximize LS_DEFAULT(false), master_weights LS_DEFAULT(false), scattered LS_DEFAULT(false);
    const ls_state *parameters LS_DEFAULT(NULL);
    ls_options_end _ LS_DEFAULT({});
} ls_adam_opts;
#define ls_adam_opts_defaults .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8
#define ls_adam_new(run, ...) LS_CALL_2(ls_adam_new, ls_adam_opts, run, __VA_ARGS__, )
LS_API ls_optim *ls_adam_new_sized(ls_run *run, ls_module *module, const ls_adam_opts *opts, size_t opts_size);

/* Shrinks the parameter itself. */
typedef struct ls_adamw_opts {
    double lr LS_DEFAULT(1e-3);
    double beta1 LS_DEFAULT(0.9), beta2 LS_DEFAULT(0.999);
    double epsilon LS_DEFAULT(1e-8);
    double weight_decay LS_DEFAULT(0.01);
    bool maximize LS_DEFAULT(false), master_weights LS_DEFAULT(false), scattered LS_DEFAULT(false);
    const ls_state *parameters LS_DEFAULT(NULL);
    ls_options_end _ LS_DEFAULT({});
} ls_adamw_opts;
#define ls_adamw_opts_defaults .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.01
#define ls_adamw_new(run, ...) LS_CALL_2(ls_adamw_new, ls_adamw_opts, run, __VA_ARGS__, )
LS_API ls_optim *ls_adamw_new_sized(ls_run *run, ls_module *module, const ls_adamw_opts *opts, size_t opts_size);

/* Divides by the root of a running mean of squared gradients. */
typedef struct ls_rmsprop_opts {
    double lr LS_DEFAULT(1e-2);
    double alpha LS_DEFAULT(0.99); /* of the running mean; beta2 in groups */
    double epsilon LS_DEFAULT(1e-8);
    double weight_decay LS_DEFAULT(0), momentum LS_DEFAULT(0);
    bool maximize LS_DEFAULT(false), master_weights LS_DEFAULT(false), scattered LS_DEFAULT(false);
    const ls_state *parameters LS_DEFAULT(NULL);
    bool centered LS_DEFAULT(false); /* divides by the root of their variance: the mean's square is subtracted */
    ls_options_end _ LS_DEFAULT({});
} ls_rmsprop_opts;
#define ls_rmsprop_opts_defaults .lr = 1e-2, .alpha = 0.99, .epsilon = 1e-8
#define ls_rmsprop_new(run, ...) LS_CALL_2(ls_rmsprop_new, ls_rmsprop_opts, run, __VA_ARGS__, )
LS_API ls_optim *ls_rmsprop_new_sized(ls_run *run, ls_module *module, const ls_rmsprop_opts *opts, size_t opts_size);

/* Divides by the sum of all squared gradients so far. */
typedef struct ls_adagrad_opts {
    double lr LS_DEFAULT(1e-2);
    double lr_decay LS_DEFAULT(0); /* step t, from 0, is made at lr / (1 + t * lr_decay) */
    double epsilon LS_DEFAULT(1e-10);
    double weight_decay LS_DEFAULT(0);
    bool maximize LS_DEFAULT(false), master_weights LS_DEFAULT(false), scattered LS_DEFAULT(false);
    const ls_state *parameters LS_DEFAULT(NULL);
    ls_options_end _ LS_DEFAULT({});
} ls_adagrad_opts;
#define ls_adagrad_opts_defaults .lr = 1e-2, .epsilon = 1e-10
#define ls_adagrad_new(run, ...) LS_CALL_2(ls_adagrad_new, ls_adagrad_opts, run, __VA_ARGS__, )
LS_API ls_optim *ls_adagrad_new_sized(ls_run *run, ls_module *module, const ls_adagrad_opts *opts, size_t opts_size);

/* Free it now; free its schedules first. */
LS_API void ls_optim_free(ls_optim *optim);

/* Update the parameters from their gradients. False if no step was taken: after a failure, while gradients accumulate
 * over batches (run.h), or if a loss scaler is active and a gradient was not finite. */
LS_API bool ls_step(ls_optim *optim);
/* Each process trains these parameters separately, on purpose: ls_step() does not warn that their module, or the
 * loader they are trained with, was not passed to ls_prepare(). */
LS_API void ls_optim_train_apart(ls_optim *optim);
LS_API bool ls_optim_step_was_skipped(const ls_optim *optim);
LS_API int64_t ls_optim_steps_taken(const ls_optim *optim);
/* Clear the gradients of all its parameters, unless they are still accumulating: their group of batches is incomplete
 * and no step has used them. Under ls_set_sync_gradients(false) that requires an ls_step() in between. */
LS_API void ls_zero_grad(ls_optim *optim);

/* ---- Parameter groups ---- */

/* What may differ between groups. LS_AUTO_REAL: as in the optimiser's options. */
typedef struct ls_optim_group_opts {
    double lr LS_DEFAULT(LS_AUTO_REAL), weight_decay LS_DEFAULT(LS_AUTO_REAL);
    double momentum LS_DEFAULT(LS_AUTO_REAL), dampening LS_DEFAULT(LS_AUTO_REAL); /* SGD; RMSprop: momentum */
    double beta1 LS_DEFAULT(LS_AUTO_REAL), beta2 LS_DEFAULT(LS_AUTO_REAL);        /* Adam, AdamW; RMSprop: beta2 */
    double epsilon LS_DEFAULT(LS_AUTO_REAL);                                      /* all but SGD */
    ls_options_end _ LS_DEFAULT({});
} ls_optim_group_opts;
#define ls_optim_group_opts_defaults                                                                                   \
    .lr = LS_AUTO_REAL, .weight_decay = LS_AUTO_REAL, .momentum = LS_AUTO_REAL, .dampening = LS_AUTO_REAL,             \
    .beta1 = LS_AUTO_REAL, .beta2 = LS_AUTO_REAL, .epsilon = LS_AUTO_REAL

/* A new group of these parameters, which leave their previous group; those new to the optimiser are added to it.
 *     ls_optim_add_group(adam, ls_state_matching(ls_parameters(model), "*.bias|*norm*"), .weight_decay = 0);
 * Group 0 holds the parameters of no other group. Returns the group's number. */
#define ls_optim_add_group(optim, ...) LS_CALL_2(ls_optim_add_group, ls_optim_group_opts, optim, __VA_ARGS__, )
LS_API int ls_optim_add_group_sized(ls_optim *optim, const ls_state *parameters, const ls_optim_group_opts *opts,
                                    size_t opts_size);
LS_API int64_t ls_optim_group_count(const ls_optim *optim);
/* The numbers a group uses now; set some of them with ls_optim_set_group(adam, 1, .lr = 1e-4), the others keep their
 * values. */
typedef struct ls_group_numbers {
    double lr, weight_decay, momentum, dampening, beta1, beta2, epsilon;
} ls_group_numbers;
LS_API ls_group_numbers ls_optim_group(const ls_optim *optim, int group);
#define ls_optim_set_group(optim, ...) LS_CALL_2(ls_optim_set_group, ls_optim_group_opts, optim, __VA_ARGS__, )
LS_API void ls_optim_set_group_sized(ls_optim *optim, int group, const ls_optim_group_opts *opts, size_t opts_size);
LS_API double ls_optim_lr(const ls_optim *optim);        /* of group 0 */
LS_API void ls_optim_set_lr(ls_optim *optim, double lr); /* of all groups */

/* ---- Clipping ---- */

typedef struct ls_clip_grad_norm_opts {
    double norm_type LS_DEFAULT(2); /* the power p of the norm; INFINITY: the largest element */
    ls_options_end _ LS_DEFAULT({});
} ls_clip_grad_norm_opts;
#define ls_clip_grad_norm_opts_defaults .norm_type = 2
/* Scale all gradients so that their norm is at most max_norm. Returns the norm before, a tensor of one element: reading
 * it waits for the device. Unscales first if a loss scaler is active.
 * While gradients accumulate it does nothing and returns 0. With INFINITY nothing is scaled, with 0 all gradients
 * become 0; a negative limit is an error. If the norm is not finite, non-finite gradients become NaN, the others 0. */
#define ls_clip_grad_norm(optim, ...) LS_CALL_2(ls_clip_grad_norm, ls_clip_grad_norm_opts, optim, __VA_ARGS__, )
LS_API ls_tensor *ls_clip_grad_norm_sized(ls_optim *optim, double max_norm, const ls_clip_grad_norm_opts *opts,
                                          size_t opts_size);
/* Limit every element to [-limit, limit]; a negative limit is an error. */
LS_API void ls_clip_grad_value(ls_optim *optim, double limit);
/* The same for the gradients of a list of parameters, without regard to accumulation or scaling. */
#define ls_state_clip_grad_norm(parameters, ...)                                                                       \
    LS_CALL_2(ls_state_clip_grad_norm, ls_clip_grad_norm_opts, parameters, __VA_ARGS__, )
LS_API ls_tensor *ls_state_clip_grad_norm_sized(const ls_state *parameters, double max_norm,
                                                const ls_clip_grad_norm_opts *opts, size_t opts_size);
LS_API void ls_state_clip_grad_value(const ls_state *parameters, double limit);

/* ---- State, for checkpoints ---- */

/* The optimiser's state, by parameter: "fc1.weight.exp_avg", "fc1.weight.exp_avg_sq", "fc1.weight.momentum_buffer",
 * "fc1.weight.square_avg", "fc1.weight.sum", "fc1.weight.master", and "fc1.weight.step" (i64, the current count). State
 * that does not exist yet is not listed. The optimiser owns the list; the next call updates it. With .shard_optimizer
 * all processes must call it, and moments are listed in the main process only. */
LS_API ls_state *ls_optim_state_dict(ls_optim *optim);
/* Copy it back. A parameter the optimiser does not have is an error. */
LS_API void ls_optim_load_state_dict(ls_optim *optim, const ls_state *state);

/* ---- Loss scaling ----
 *
 * Active with .mixed_precision = LS_F16: ls_backward() multiplies the loss by the scale, ls_step() divides the
 * gradients by it, and skips the step and halves the scale if one of them is not finite. After 2000 steps without a
 * skip the scale doubles. It starts at 65536 and changes only between groups of batches: several optimisers share one
 * scale, each skips for its own gradients, and their steps after one batch count as one. */
typedef struct ls_loss_scaler_state {
    double scale;       /* of the next ls_backward(); 1 without a scaler */
    int64_t good_steps; /* since the scale changed */
} ls_loss_scaler_state;
LS_API ls_loss_scaler_state ls_loss_scaler(const ls_run *run);
LS_API void ls_set_loss_scaler(ls_run *run, ls_loss_scaler_state state);
/* Other numbers than these, as PyTorch's GradScaler takes them; without effect if there is no loss scaler. */
typedef struct ls_loss_scaling_opts {
    double init_scale LS_DEFAULT(65536); /* the scale from now on */
    double growth_factor LS_DEFAULT(2), backoff_factor LS_DEFAULT(0.5);
    int64_t growth_interval LS_DEFAULT(2000); /* steps without a skip */
    ls_options_end _ LS_DEFAULT({});
} ls_loss_scaling_opts;
#define ls_loss_scaling_opts_defaults                                                                                  \
    .init_scale = 65536, .growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 2000
#define ls_set_loss_scaling(...) LS_CALL_1(ls_set_loss_scaling, ls_loss_scaling_opts, __VA_ARGS__, )
LS_API void ls_set_loss_scaling_sized(ls_run *run, const ls_loss_scaling_opts *opts, size_t opts_size);

/* ---- Schedules ----
 *
 * A schedule sets the learning rate of each group, as a function of its rate when the schedule was made: at once and
 * after each ls_schedule_step(). Steps count from 0. The call does nothing if the optimiser has taken no step since the
 * last one: it was skipped, gradients were accumulating, or ls_step() was not called. .schedule_policy of ls_init()
 * changes that. */

/* Up from max_lr / div_factor to max_lr and down to max_lr / div_factor / final_div_factor, momentum (or beta1) the
 * other way. max_lr must be given, and a length: total_steps, or epochs and steps_per_epoch.
 *
 * The optimiser's last step, number total_steps - 1, is made at the lowest rate. The ls_schedule_step() after it keeps
 * that rate; another one is an error. */
typedef struct ls_one_cycle_schedule_opts {
    double max_lr LS_DEFAULT(LS_AUTO_REAL);
    const double *max_lrs LS_DEFAULT(NULL); /* (optional) instead: one for each group */
    int64_t total_steps LS_DEFAULT(LS_AUTO), epochs LS_DEFAULT(LS_AUTO), steps_per_epoch LS_DEFAULT(LS_AUTO);
    double pct_start LS_DEFAULT(0.3);
    double div_factor LS_DEFAULT(25), final_div_factor LS_DEFAULT(1e4);
    double base_momentum LS_DEFAULT(0.85), max_momentum LS_DEFAULT(0.95);
    bool linear LS_DEFAULT(false); /* straight lines instead of half cosines */
    bool three_phase LS_DEFAULT(false), cycle_momentum LS_DEFAULT(true);
    ls_options_end _ LS_DEFAULT({});
} ls_one_cycle_schedule_opts;
#define ls_one_cycle_schedule_opts_defaults                                                                            \
    .max_lr = LS_AUTO_REAL, .total_steps = LS_AUTO, .epochs = LS_AUTO, .steps_per_epoch = LS_AUTO, .pct_start = 0.3,   \
    .div_factor = 25, .final_div_factor = 1e4, .base_momentum = 0.85, .max_momentum = 0.95, .cycle_momentum = true
#define ls_one_cycle_schedule_new(...) LS_CALL_1(ls_one_cycle_schedule_new, ls_one_cycle_schedule_opts, __VA_ARGS__, )
LS_API ls_schedule *ls_one_cycle_schedule_new_sized(ls_optim *optim, const ls_one_cycle_schedule_opts *opts,
                                                    size_t opts_size);

/* Half a cosine from the initial rate to eta_min in `period` steps. Beyond them the rate rises again, and ls_finish()
 * warns: for warm restarts, use several in ls_sequential_schedule_new(). */
LS_API ls_schedule *ls_cosine_schedule_new(ls_optim *optim, int64_t period, double eta_min);
/* Times gamma every `period` steps; times gamma every step. */
LS_API ls_schedule *ls_step_schedule_new(ls_optim *optim, int64_t period, double gamma);
LS_API ls_schedule *ls_exponential_schedule_new(ls_optim *optim, double gamma);
/* Linear from 0 to the initial rate in `warmup` <= `total` steps, then down to .min_lr at `total`, where it stays:
 * linear or half a cosine. */
typedef struct ls_warmup_schedule_opts {
    double min_lr LS_DEFAULT(0);
    ls_options_end _ LS_DEFAULT({});
} ls_warmup_schedule_opts;
#define ls_warmup_schedule_opts_defaults .min_lr = 0
#define ls_warmup_linear_schedule_new(optim, warmup, ...)                                                              \
    LS_CALL_3(ls_warmup_linear_schedule_new, ls_warmup_schedule_opts, optim, warmup, __VA_ARGS__, )
LS_API ls_schedule *ls_warmup_linear_schedule_new_sized(ls_optim *optim, int64_t warmup, int64_t total,
                                                        const ls_warmup_schedule_opts *opts, size_t opts_size);
#define ls_warmup_cosine_schedule_new(optim, warmup, ...)                                                              \
    LS_CALL_3(ls_warmup_cosine_schedule_new, ls_warmup_schedule_opts, optim, warmup, __VA_ARGS__, )
LS_API ls_schedule *ls_warmup_cosine_schedule_new_sized(ls_optim *optim, int64_t warmup, int64_t total,
                                                        const ls_warmup_schedule_opts *opts, size_t opts_size);
/* The initial rate times factor(step), which is finite and not negative. */
typedef double ls_factor_fn(int64_t step, void *user);
LS_API ls_schedule *ls_lambda_schedule_new(ls_optim *optim, ls_factor_fn *factor, void *user);
/* Several in sequence: schedule i+1 starts, at its step 0, at step milestones[i] (count-1 of them). None of
 * them may be a plateau schedule, which follows no steps. */
LS_API ls_schedule *ls_sequential_schedule_new(ls_optim *optim, ls_schedule *const *schedules, int64_t count,
                                               const int64_t *milestones);

/* Times .factor whenever a number, such as the loss of an evaluation, has not improved for more than .patience calls of
 * ls_schedule_step_with(): PyTorch's ReduceLROnPlateau. Its position counts the reductions. */
typedef struct ls_plateau_schedule_opts {
    double factor LS_DEFAULT(0.1);
    int64_t patience LS_DEFAULT(10), cooldown
        LS_DEFAULT(0);                 /* calls without progress; calls to wait after a reduction */
    double threshold LS_DEFAULT(1e-4); /* a smaller improvement, relative to the best, is none */
    bool absolute LS_DEFAULT(false);   /* the threshold is not relative */
    bool maximize LS_DEFAULT(false);   /* the number should grow, as an accuracy */
    double min_lr LS_DEFAULT(0);
    ls_options_end _ LS_DEFAULT({});
} ls_plateau_schedule_opts;
#define ls_plateau_schedule_opts_defaults .factor = 0.1, .patience = 10, .threshold = 1e-4
#define ls_plateau_schedule_new(...) LS_CALL_1(ls_plateau_schedule_new, ls_plateau_schedule_opts, __VA_ARGS__, )
LS_API ls_schedule *ls_plateau_schedule_new_sized(ls_optim *optim, const ls_plateau_schedule_opts *opts,
                                                  size_t opts_size);
/* All processes must give the same value. True if the rate was reduced. */
LS_API bool ls_schedule_step_with(ls_schedule *schedule, double value);

LS_API void ls_schedule_step(ls_schedule *schedule);
LS_API double ls_schedule_lr(const ls_schedule *schedule); /* the rate it set for group 0 */
/* The number of steps it has made: its whole state, unless it follows a value. Setting it sets the rates. */
LS_API int64_t ls_schedule_position(const ls_schedule *schedule);
LS_API void ls_schedule_set_position(ls_schedule *schedule, int64_t step);
LS_API void ls_schedule_free(ls_schedule *schedule);

/* ---- Early stopping ----
 *
 *     ls_early_stopping stop = {.patience = 5};
 *     ls_register_for_checkpointing(run, "stop", .data = &stop, .size = sizeof stop);
 *     ...
 *     if (ls_early_stopping_step(&stop, loss)) break;      after each evaluation, with the same loss on all processes
 *     if (stop.improved) ls_save_model(run, model, "best"); */
typedef struct ls_early_stopping {
    int64_t patience; /* how many values in a row may be no improvement */
    double min_delta; /* an improvement is larger than this */
    bool maximize;    /* the value should grow, as an accuracy */
    /* set by ls_early_stopping_step() */
    bool improved;        /* the last value is the best so far */
    int64_t seen, waited; /* values so far; values since the best */
    double best;
} ls_early_stopping;
/* True once more than .patience values in a row did not improve on the best. */
LS_API bool ls_early_stopping_step(ls_early_stopping *stop, double value);

#ifdef __cplusplus
}
#endif
#endif
