/* trainer_flags.h - what qa and glue share: the flags that run_qa.py and run_glue.py have from Transformers' Trainer.
 * Those of training have the same meaning here. IDLE_FLAGS have none; existing command lines contain them, so they are
 * accepted, and a line says what happens instead. */
#ifndef EXAMPLES_TRAINER_FLAGS_H
#define EXAMPLES_TRAINER_FLAGS_H

#include <lockstep.h>

#include <limits.h>
#include <math.h>
#include <string.h>

#define IDLE_FLAGS(FLAG)                                                                                               \
    FLAG(bool, overwrite_output_dir, "files of the same names are always replaced")                                    \
    FLAG(bool, overwrite_cache, "nothing is cached; texts are tokenized at each start")                                \
    FLAG(bool, pad_to_max_length, "a batch is padded to its longest text")                                             \
    FLAG(bool, disable_tqdm, "the progress bar is shown on terminals alone")                                           \
    FLAG(bool, use_ipex, "Lockstep's own kernels are used instead")                                                    \
    FLAG(const char *, ddp_backend, "Lockstep's own collectives are used instead")                                     \
    FLAG(const char *, xpu_backend, "Lockstep's own collectives are used instead")                                     \
    FLAG(const char *, local_rank, "the launcher's environment gives the rank")                                        \
    FLAG(const char *, report_to, "no service is reported to")                                                         \
    FLAG(const char *, preprocessing_num_workers, "all threads tokenize; --num_threads sets their number")             \
    FLAG(const char *, dataloader_num_workers, "texts are tokenized before training, so workers have nothing to do")   \
    FLAG(const char *, cache_dir, "HF_HOME names the cache")                                                           \
    FLAG(const char *, eval_steps, "evaluation never interrupts an epoch")

typedef struct trainer_flags {
    int64_t train_batch, eval_batch, max_steps, warmup_steps;
    double lr, epochs, warmup_ratio, weight_decay, max_grad_norm;
    const char *scheduler;
#define FIELD(type, name, instead) type name;
    IDLE_FLAGS(FIELD)
#undef FIELD
} trainer_flags;

#define TRAINER_DEFAULTS .epochs = 3, .max_steps = -1, .max_grad_norm = 1, .scheduler = "linear"

/* Rows of a program's table; they fill `trainer_flags *to`. */
#define TRAINER_FLAGS                                                                                                  \
    LS_FLAG("per_device_train_batch_size", &to->train_batch, "size of a batch of one process"),                        \
        LS_FLAG("per_device_eval_batch_size", &to->eval_batch, "the same for evaluation"),                             \
        LS_FLAG("learning_rate", &to->lr, "highest learning rate"),                                                    \
        LS_FLAG("num_train_epochs", &to->epochs, "passes over the training data"),                                     \
        LS_FLAG("max_steps", &to->max_steps, "number of steps, instead of num_train_epochs; -1: not given"),           \
        LS_CHOICE("lr_scheduler_type", &to->scheduler, "linear|cosine|constant", "how the rate falls"),                \
        LS_FLAG("warmup_ratio", &to->warmup_ratio, "fraction of all steps in which the rate rises"),                   \
        LS_FLAG("warmup_steps", &to->warmup_steps, "steps in which the rate rises, instead of warmup_ratio"),          \
        LS_FLAG("weight_decay", &to->weight_decay, "weight decay, except for biases and norms"),                       \
        LS_FLAG("max_grad_norm", &to->max_grad_norm, "clip gradients to this norm; 0: do not clip"),                   \
        IDLE_FLAGS(IDLE_ROW_)
#define IDLE_ROW_(type, name, instead) LS_FLAG(#name, &to->name, "no effect: " instead),

/* Say what is used in place of flags without effect. False, and an error, if a value makes no sense. */
static bool trainer_flags_fit(ls_run *run, const trainer_flags *t)
{
#define SAY(type, name, instead)                                                                                       \
    if (t->name) ls_print(run, "--" #name " has no effect: " instead "\n");
    IDLE_FLAGS(SAY)
#undef SAY
    if (t->max_steps == 0 || t->max_steps < -1)
        ls_set_error(run, LS_ERR_VALUE, "--max_steps is %lld; it must be above 0", (long long)t->max_steps);
    else if (t->epochs <= 0) ls_set_error(run, LS_ERR_VALUE, "--num_train_epochs is %g; it must be above 0", t->epochs);
    else if (!(t->max_grad_norm >= 0))
        ls_set_error(run, LS_ERR_VALUE, "--max_grad_norm is %g; it must be 0 (do not clip) or more", t->max_grad_norm);
    else if (t->warmup_steps < 0)
        ls_set_error(run, LS_ERR_VALUE, "--warmup_steps is %lld; it must be at least 0", (long long)t->warmup_steps);
    else if (t->warmup_ratio < 0 || t->warmup_ratio > 1)
        ls_set_error(run, LS_ERR_VALUE, "--warmup_ratio is %g; it must be between 0 and 1", t->warmup_ratio);
    else if (!strcmp(t->scheduler, "constant") && (t->warmup_steps || t->warmup_ratio > 0))
        ls_set_error(run, LS_ERR_VALUE, "--lr_scheduler_type constant has no warm-up; leave out --warmup_%s",
                     t->warmup_steps ? "steps" : "ratio");
    return !ls_error(run);
}

/* The number of optimiser steps, and of epochs that they take. */
static int64_t trainer_steps(const trainer_flags *t, const ls_loader *loader, int *epochs)
{
    int64_t in_epoch = ls_steps_per_epoch(loader);
    int64_t steps = t->max_steps > 0 ? t->max_steps : (int64_t)ceil(t->epochs * (double)in_epoch);
    *epochs = in_epoch > 0 ? (int)fmin(ceil((double)steps / (double)in_epoch), INT_MAX) : 0;
    return steps;
}

static double constant_factor(int64_t step, void *user)
{
    (void)step, (void)user;
    return 1;
}

static ls_schedule *trainer_schedule(ls_run *run, const trainer_flags *t, ls_optim *optim, int64_t steps)
{
    int64_t warmup = t->warmup_steps ? t->warmup_steps : (int64_t)ceil(t->warmup_ratio * (double)steps);
    if (warmup > steps && !ls_error(run))
        ls_set_error(run, LS_ERR_VALUE, "--warmup_steps is %lld, but the training has %lld steps", (long long)warmup,
                     (long long)steps);
    if (!strcmp(t->scheduler, "constant")) return ls_lambda_schedule_new(optim, constant_factor, NULL);
    if (!strcmp(t->scheduler, "cosine")) return ls_warmup_cosine_schedule_new(optim, warmup, steps);
    return ls_warmup_linear_schedule_new(optim, warmup, steps);
}

#endif
