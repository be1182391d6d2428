/* report.c - what a run tells its owner without failing: schedules made for another number of steps. */
#include <lockstep.h>

#include <sys/wait.h>

#include "base/capture.h"
#include "check.h"
#include "tensor/context.h"

static char said[8192];

/* Run a body in a process of its own; what it prints is in `said`. Returns its exit code. */
static int tell(int (*body)(void))
{
    int status = run_captured(NULL, body, said, sizeof said);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int count_of(const char *text)
{
    int count = 0;
    for (const char *at = said; (at = strstr(at, text)); at++) count++;
    return count;
}

/* ---- schedules ---- */

static int batches_of_five(ls_loader **loader, ls_run *run)
{
    *loader = ls_loader_new(run, ls_tensor_dataset_new(run, ls_keep(ls_zeros(run, LS_F32, 10, 1))), .batch = 2);
    return (int)ls_len(*loader);
}

static void steps_of_an_epoch_know_who_counts_them(void)
{
    static const struct {
        int64_t accumulation;
        int world;
        ls_schedule_policy policy;
        int64_t steps;
    } cases[] = {
        {1, 1, LS_SCHEDULE_PER_STEP, 5}, {2, 1, LS_SCHEDULE_PER_STEP, 3},    {5, 1, LS_SCHEDULE_PER_STEP, 1},
        {9, 1, LS_SCHEDULE_PER_STEP, 1}, {2, 1, LS_SCHEDULE_PER_CALL, 5},    {1, 2, LS_SCHEDULE_PER_STEP, 3},
        {2, 2, LS_SCHEDULE_PER_STEP, 2}, {2, 2, LS_SCHEDULE_PER_PROCESS, 4}, {2, 2, LS_SCHEDULE_PER_CALL, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_run *run = ls_init(NULL, NULL, .gradient_accumulation_steps = cases[i].accumulation,
                              .schedule_policy = cases[i].policy);
        run->share.world = cases[i].world;
        ls_loader *loader;
        CHECK(batches_of_five(&loader, run) == (cases[i].world == 1 ? 5 : 3));
        CHECK_MSG(ls_steps_per_epoch(loader) == cases[i].steps, "case %zu: %lld", i,
                  (long long)ls_steps_per_epoch(loader));
        CHECK(ls_finish(run) == 0);
    }
    CHECK(ls_steps_per_epoch(NULL) == 0);
}

/* Three epochs of five batches, two to a step. */
static int train_by(int64_t (*length)(const ls_loader *), ls_schedule *(*make)(ls_optim *, int64_t))
{
    ls_run *run = ls_init(NULL, NULL, .gradient_accumulation_steps = 2);
    ls_loader *loader;
    batches_of_five(&loader, run);
    ls_module *net = ls_linear_new(run, 1, 1);
    ls_optim *sgd = ls_sgd_new(run, net);
    ls_schedule *schedule = make(sgd, 3 * length(loader));
    ls_prepare(run, net, sgd, schedule, loader);
    for (int epoch; ls_epoch(run, 3, &epoch);)
        for (ls_batch b; ls_next(loader, &b);) {
            ls_backward(run, ls_mean(ls_forward(net, b.image)));
            ls_step(sgd);
            ls_schedule_step(schedule);
            ls_zero_grad(sgd);
        }
    return ls_finish(run);
}

static ls_schedule *linear(ls_optim *optim, int64_t steps)
{
    return ls_warmup_linear_new(optim, 1, steps);
}

static ls_schedule *cosine(ls_optim *optim, int64_t steps)
{
    return ls_cosine_new(optim, steps, 0);
}

static ls_schedule *cycle(ls_optim *optim, int64_t steps)
{
    return ls_one_cycle_new(optim, .max_lr = 1, .total_steps = steps);
}

static ls_schedule *sequence(ls_optim *optim, int64_t steps)
{
    ls_schedule *parts[] = {ls_exponential_new(optim, 1), ls_cosine_new(optim, steps - 2, 0)};
    return ls_sequential_schedule_new(optim, 2, parts, (int64_t[]){2});
}

static ls_schedule *endless(ls_optim *optim, int64_t steps)
{
    (void)steps;
    return ls_exponential_new(optim, 0.9);
}

static ls_schedule *waves(ls_optim *optim, int64_t steps)
{
    return ls_cosine_new(optim, steps / 3, 0);
}

static int64_t two_an_epoch(const ls_loader *loader)
{
    (void)loader;
    return 2;
}

static int linear_by_steps(void)
{
    return train_by(ls_steps_per_epoch, linear);
}
static int cycle_by_steps(void)
{
    return train_by(ls_steps_per_epoch, cycle);
}
static int sequence_by_steps(void)
{
    return train_by(ls_steps_per_epoch, sequence);
}
static int waves_by_steps(void)
{
    return train_by(ls_steps_per_epoch, waves);
}
static int endless_by_steps(void)
{
    return train_by(ls_steps_per_epoch, endless);
}
static int cosine_by_batches(void)
{
    return train_by(ls_len, cosine);
}
static int cycle_by_batches(void)
{
    return train_by(ls_len, cycle);
}
static int sequence_by_batches(void)
{
    return train_by(ls_len, sequence);
}
static int linear_too_short(void)
{
    return train_by(two_an_epoch, linear);
}
static int cycle_too_short(void)
{
    return train_by(two_an_epoch, cycle);
}

static void a_schedule_of_the_right_length_says_nothing(void)
{
    int (*const bodies[])(void) = {linear_by_steps, cycle_by_steps, sequence_by_steps, waves_by_steps,
                                   endless_by_steps};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        CHECK(tell(bodies[i]) == 0);
        CHECK_MSG(!*said, "body %zu said %s", i, said);
    }
}

static void a_schedule_that_did_not_end_with_training_is_named(void)
{
    int (*const early[])(void) = {cosine_by_batches, cycle_by_batches, sequence_by_batches};
    for (size_t i = 0; i < sizeof early / sizeof *early; i++) {
        CHECK(tell(early[i]) == 0);
        CHECK_MSG(count_of("a learning rate schedule made for 15 steps ended at step 9") == 1, "%zu: %s", i, said);
        CHECK(count_of("\n") == 1 && count_of("ls_steps_per_epoch(loader)") == 1);
    }
    CHECK(tell(linear_too_short) == 0);
    CHECK(count_of("a learning rate schedule made for 6 steps went on to step 9") == 1 && count_of("\n") == 1);
    CHECK(tell(cycle_too_short) == 1);
    CHECK(count_of("step 7 of a schedule made for 6") == 1 && count_of("\n") == 1);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(steps_of_an_epoch_know_who_counts_them);
    CHECK_RUN(a_schedule_of_the_right_length_says_nothing);
    CHECK_RUN(a_schedule_that_did_not_end_with_training_is_named);
    return check_done();
}
