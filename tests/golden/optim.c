/* optim.c - 50 steps of each optimiser with each schedule, against PyTorch. */
#include "golden/read.h"

enum { STEPS = 50, SIZE = 5, FIRST = 3 }; /* the vector is cut into parameters of 3 and 2 elements */

/* ---- the optimisers of make.py; `scattered` must make no difference ---- */

static ls_optim *sgd(ls_run *run, ls_module *m, bool scattered)
{
    return ls_sgd_new(run, m, .lr = 0.1, .scattered = scattered);
}

static ls_optim *sgd_momentum(ls_run *run, ls_module *m, bool scattered)
{
    return ls_sgd_new(run, m, .lr = 0.1, .momentum = 0.9, .scattered = scattered);
}

static ls_optim *sgd_dampening(ls_run *run, ls_module *m, bool scattered)
{
    return ls_sgd_new(run, m, .lr = 0.1, .momentum = 0.8, .dampening = 0.3, .weight_decay = 0.01,
                      .scattered = scattered);
}

static ls_optim *sgd_nesterov(ls_run *run, ls_module *m, bool scattered)
{
    return ls_sgd_new(run, m, .lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01,
                      .scattered = scattered);
}

static ls_optim *sgd_maximize(ls_run *run, ls_module *m, bool scattered)
{
    return ls_sgd_new(run, m, .lr = 0.1, .momentum = 0.9, .maximize = true, .scattered = scattered);
}

static ls_optim *adam(ls_run *run, ls_module *m, bool scattered)
{
    return ls_adam_new(run, m, .lr = 0.02, .scattered = scattered);
}

static ls_optim *adam_decay(ls_run *run, ls_module *m, bool scattered)
{
    return ls_adam_new(run, m, .lr = 0.02, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-6, .weight_decay = 0.1,
                       .scattered = scattered);
}

static ls_optim *adamw(ls_run *run, ls_module *m, bool scattered)
{
    return ls_adamw_new(run, m, .lr = 0.02, .scattered = scattered);
}

static ls_optim *adamw_decay(ls_run *run, ls_module *m, bool scattered)
{
    return ls_adamw_new(run, m, .lr = 0.02, .weight_decay = 0.3, .maximize = true, .scattered = scattered);
}

static ls_optim *rmsprop(ls_run *run, ls_module *m, bool scattered)
{
    return ls_rmsprop_new(run, m, .lr = 0.02, .scattered = scattered);
}

static ls_optim *rmsprop_momentum(ls_run *run, ls_module *m, bool scattered)
{
    return ls_rmsprop_new(run, m, .lr = 0.02, .alpha = 0.9, .momentum = 0.8, .weight_decay = 0.1,
                          .scattered = scattered);
}

static ls_optim *rmsprop_centered(ls_run *run, ls_module *m, bool scattered)
{
    return ls_rmsprop_new(run, m, .lr = 0.02, .centered = true, .scattered = scattered);
}

static ls_optim *rmsprop_centered_momentum(ls_run *run, ls_module *m, bool scattered)
{
    return ls_rmsprop_new(run, m, .lr = 0.02, .alpha = 0.9, .momentum = 0.8, .weight_decay = 0.1, .centered = true,
                          .scattered = scattered);
}

static ls_optim *adagrad(ls_run *run, ls_module *m, bool scattered)
{
    return ls_adagrad_new(run, m, .lr = 0.1, .scattered = scattered);
}

static ls_optim *adagrad_decay(ls_run *run, ls_module *m, bool scattered)
{
    return ls_adagrad_new(run, m, .lr = 0.1, .lr_decay = 0.05, .weight_decay = 0.1, .maximize = true,
                          .scattered = scattered);
}

#define NAMED(f)                                                                                                       \
    {                                                                                                                  \
#f, f                                                                                                          \
    }
static const struct {
    const char *name;
    ls_optim *(*make)(ls_run *run, ls_module *m, bool scattered);
} optimisers[] = {NAMED(sgd),
                  NAMED(sgd_momentum),
                  NAMED(sgd_dampening),
                  NAMED(sgd_nesterov),
                  NAMED(sgd_maximize),
                  NAMED(adam),
                  NAMED(adam_decay),
                  NAMED(adamw),
                  NAMED(adamw_decay),
                  NAMED(rmsprop),
                  NAMED(rmsprop_momentum),
                  NAMED(rmsprop_centered),
                  NAMED(rmsprop_centered_momentum),
                  NAMED(adagrad),
                  NAMED(adagrad_decay)};

/* ---- the schedules of make.py ---- */

static ls_schedule *constant(ls_optim *o)
{
    (void)o;
    return NULL;
}

static ls_schedule *one_cycle(ls_optim *o)
{
    return ls_one_cycle_schedule_new(o, .max_lr = 0.3, .total_steps = 60);
}

static ls_schedule *one_cycle_linear(ls_optim *o)
{
    return ls_one_cycle_schedule_new(o, .max_lr = 0.3, .epochs = 6, .steps_per_epoch = 10, .linear = true,
                                     .three_phase = true, .pct_start = 0.4, .div_factor = 10, .final_div_factor = 100,
                                     .base_momentum = 0.7, .max_momentum = 0.9);
}

static ls_schedule *one_cycle_plain(ls_optim *o)
{
    return ls_one_cycle_schedule_new(o, .max_lr = 0.3, .total_steps = 60, .cycle_momentum = false);
}

static ls_schedule *cosine(ls_optim *o)
{
    return ls_cosine_schedule_new(o, 20, 0.001);
}

static ls_schedule *step(ls_optim *o)
{
    return ls_step_schedule_new(o, 7, 0.5);
}

static ls_schedule *exponential(ls_optim *o)
{
    return ls_exponential_schedule_new(o, 0.93);
}

static double falling(int64_t at, void *user)
{
    (void)user;
    return 1 / (1 + 0.1 * (double)at);
}

static ls_schedule *lambda(ls_optim *o)
{
    return ls_lambda_schedule_new(o, falling, NULL);
}

static ls_schedule *warmup_linear(ls_optim *o)
{
    return ls_warmup_linear_schedule_new(o, 10, 45);
}

static ls_schedule *warmup_cosine(ls_optim *o)
{
    return ls_warmup_cosine_schedule_new(o, 10, 60);
}

static ls_schedule *sequential(ls_optim *o)
{
    ls_schedule *parts[] = {ls_warmup_linear_schedule_new(o, 10, 45), ls_cosine_schedule_new(o, 30, 0),
                            ls_exponential_schedule_new(o, 0.8)};
    return ls_sequential_schedule_new(o, parts, 3, (const int64_t[]){8, 30});
}

static const struct {
    const char *name;
    ls_schedule *(*make)(ls_optim *optim);
} schedules[] = {NAMED(constant),      NAMED(one_cycle),     NAMED(one_cycle_linear), NAMED(one_cycle_plain),
                 NAMED(cosine),        NAMED(step),          NAMED(exponential),      NAMED(lambda),
                 NAMED(warmup_linear), NAMED(warmup_cosine), NAMED(sequential)};

/* ---- the comparison ---- */

/* The loss whose gradient is the given vector. */
static ls_tensor *loss_with_gradient(ls_run *run, ls_tensor *a, ls_tensor *b, const float *gradient)
{
    ls_tensor *ga = ls_from(run, LS_F32, LS_SHAPE(FIRST), gradient);
    ls_tensor *gb = ls_from(run, LS_F32, LS_SHAPE(SIZE - FIRST), gradient + FIRST);
    return ls_add(ls_sum(ls_mul(a, ga)), ls_sum(ls_mul(b, gb)));
}

static void follow_path(const golden *g, size_t o, size_t s, bool scattered)
{
    const char *optim_name = optimisers[o].name, *schedule_name = schedules[s].name;
    const golden_entry *path = golden_find(g, "%s/%s/path", optim_name, schedule_name);
    if (!path) return; /* PyTorch does not have this pair */
    const golden_entry *rates = golden_find(g, "%s/%s/rates", optim_name, schedule_name);
    const float *start = golden_find(g, "start")->data, *gradients = golden_find(g, "gradients")->data;
    ls_run *run = golden_run(LS_F32);
    ls_module *m = ls_module_new(run, "vector", NULL, NULL);
    ls_tensor *a = ls_register_parameter(m, "a", ls_from(run, LS_F32, LS_SHAPE(FIRST), start));
    ls_tensor *b = ls_register_parameter(m, "b", ls_from(run, LS_F32, LS_SHAPE(SIZE - FIRST), start + FIRST));
    ls_optim *optim = optimisers[o].make(run, m, scattered);
    ls_schedule *schedule = schedules[s].make(optim);
    for (int i = 0; i < STEPS && !ls_error(run); i++) {
        ls_mark mark = ls_scope_begin(run);
        if (rates) {
            const double *want = (const double *)rates->data + 2 * i;
            ls_group_numbers now = ls_optim_group(optim, 0);
            CHECK_NEAR(now.lr / want[0], want[0] == 0 ? NAN : 1, 1e-12);
            CHECK_NEAR(strcmp(optim_name, "adam") == 0 ? now.beta1 : now.momentum, want[1], 1e-12);
        }
        ls_backward(run, loss_with_gradient(run, a, b, gradients + SIZE * i));
        CHECK(ls_step(optim));
        ls_schedule_step(schedule);
        ls_zero_grad(optim);
        float now[SIZE];
        ls_read(a, now, FIRST * sizeof *now);
        ls_read(b, now + FIRST, (SIZE - FIRST) * sizeof *now);
        for (int k = 0; k < SIZE; k++) {
            double want = (double)((const float *)path->data)[SIZE * i + k];
            CHECK_MSG(fabs((double)now[k] - want) <= 2e-6 * fmax(1, fabs(want)),
                      "%s/%s step %d [%d]: %.9g, expected %.9g", optim_name, schedule_name, i, k, (double)now[k], want);
        }
        ls_scope_end(run, mark, NULL);
    }
    CHECK_MSG(ls_error(run) == LS_OK, "%s/%s: %s", optim_name, schedule_name, ls_error_message(run));
    ls_clear_error(run);
    ls_finish(run);
}

static void follow_all(bool scattered)
{
    golden g = golden_open(GOLDEN_DIR "/optim.safetensors");
    for (size_t o = 0; o < sizeof optimisers / sizeof *optimisers; o++)
        for (size_t s = 0; s < sizeof schedules / sizeof *schedules; s++) follow_path(&g, o, s, scattered);
    golden_close(&g);
}

static void paths_match(void)
{
    follow_all(false);
}

static void scattered_paths_match(void)
{
    follow_all(true);
}

int main(int argc, char **argv)
{
    golden_arguments(argc, argv);
    CHECK_RUN(paths_match);
    CHECK_RUN(scattered_paths_match);
    return check_done();
}
