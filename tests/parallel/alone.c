/* alone.c - a collective that some processes make while the others go on to a backward pass ends all of them, with the
 * names of both calls. Processes that are slow, or have calls under way in the background, are left alone. */
#include <lockstep.h>

#include "base/capture.h"
#include "run/team.h"

enum {
    FEATURES = 3,
    SLOW = 700000, /* microseconds: long enough for a wait to be looked at */
    AWAY = 9,      /* s: longer than the limit of those who wait */
};

typedef enum habit {
    SAVES_STATE,
    SAVES_MODEL,
    GATHERS,
    REDUCES,
    WAITS,
    SKIPS_A_BATCH,
    IS_SLOW,
    STAYS_AWAY,
    CALLS_ON_ITS_OWN,
    HAS_CALLS_UNDER_WAY,
} habit;

static habit chosen;
static int processes;

static void backward(ls_run *run, ls_module *model)
{
    ls_tensor *x = ls_full(run, LS_F32, 1, 2, FEATURES);
    ls_backward(run, ls_sum(ls_square(ls_forward(model, x))));
}

static void on_some_processes(ls_run *run, ls_module *model)
{
    ls_tensor *x = ls_full(run, LS_F32, 1, 2);
    switch (chosen) {
    case SAVES_STATE: ls_save_state(run, "alone_test"); break;
    case SAVES_MODEL: ls_save_model(run, model, "alone_test"); break;
    case GATHERS: ls_gather(run, x); break;
    case REDUCES: ls_reduce(run, x, LS_REDUCE_SUM); break;
    case WAITS: ls_wait_for_everyone(run); break;
    case IS_SLOW: usleep(SLOW); break;
    case STAYS_AWAY: sleep(AWAY); break;
    case CALLS_ON_ITS_OWN: ls_collective(ls_comm_of(run), LS_COMM_BARRIER); break;
    default: break;
    }
}

/* The same calls on every process. One of them starts what the others wait for, and is late besides. */
static void with_calls_under_way(ls_run *run, ls_module *model, bool starts)
{
    ls_comm *all = ls_comm_of(run);
    float mine = 1, sum = 0;
    if (starts) {
        ls_request *request =
            ls_collective_start(all, LS_COMM_ALL_REDUCE, .in = &mine, .out = &sum, .count = 1, .dtype = LS_F32);
        usleep(SLOW);
        backward(run, model);
        CHECK(ls_request_wait(request));
    } else {
        usleep(SLOW);
        CHECK(ls_collective(all, LS_COMM_ALL_REDUCE, .in = &mine, .out = &sum, .count = 1, .dtype = LS_F32));
        usleep(SLOW);
        backward(run, model);
    }
    CHECK(sum == (float)ls_world_size(run));
    ls_request *request =
        ls_collective_start(all, LS_COMM_ALL_REDUCE, .in = &mine, .out = &sum, .count = 1, .dtype = LS_F32);
    if (starts) usleep(SLOW);
    ls_wait_for_everyone(run);
    CHECK(ls_request_wait(request));
}

static void train(ls_run *run)
{
    ls_module *model = ls_linear_new(run, FEATURES, 4);
    ls_optim *sgd = ls_sgd_new(run, model, .lr = 0.01);
    ls_prepare(run, model, sgd);
    ls_comm_of(run); /* made by all of them */
    bool some = ls_rank(run) % 2 == 0;
    for (int i = 0; i < 3 && ls_error(run) == LS_OK; i++) {
        if (chosen == HAS_CALLS_UNDER_WAY && i == 1) with_calls_under_way(run, model, some);
        else if (chosen != SKIPS_A_BATCH || i != 1 || !some) backward(run, model);
        if (chosen != SKIPS_A_BATCH || i != 1 || !some) ls_step(sgd);
        ls_zero_grad(sgd);
        if (i == 1 && some) on_some_processes(run, model);
        if (chosen == SKIPS_A_BATCH || chosen == IS_SLOW) ls_gather(run, ls_full(run, LS_F32, 1, 2));
    }
}

static int train_all(void)
{
    check_failures_here = 0;
    team_fork(processes, train);
    return check_failures_here;
}

static char *limit = "LOCKSTEP_COMM_TIMEOUT=60"; /* s */

/* What all of them write. Each process that fails says why. */
static void expect(habit h, int size, const char *words, int times)
{
    char text[16384];
    chosen = h;
    processes = size;
    int status = run_captured(limit, train_all, text, sizeof text), found = 0;
    for (const char *at = text; words && (at = strstr(at, words)); at++) found++;
    CHECK_MSG(status == 0 && found == times, "%d of %d: %d \"%s\"", (int)h, size, found, text);
    CHECK_MSG(times > 0 || !strstr(text, "error:"), "%d of %d: \"%s\"", (int)h, size, text);
}

static void what_one_process_calls_alone_is_named_with_what_the_others_do(void)
{
    expect(SAVES_STATE, 2, "processes disagree: rank 0 calls ", 2);
    expect(SAVES_STATE, 2, "(ls_save_state, call ", 2);
    expect(SAVES_MODEL, 2, "(ls_save_model, call ", 2);
    expect(GATHERS, 2, "(ls_gather, call ", 2);
    expect(REDUCES, 2, "(ls_reduce, call ", 2);
    expect(WAITS, 2, "rank 0 calls barrier (ls_wait_for_everyone, call ", 2);
    expect(WAITS, 2, ", rank 1 calls all-reduce ", 2);
}

static void so_is_what_it_calls_after_leaving_out_a_batch(void)
{
    expect(SKIPS_A_BATCH, 2, "processes disagree: rank 0 calls ", 2);
}

/* Ranks 0 and 2 wait for 1 and 3, which wait for 2 and 0. */
static void four_processes_that_wait_in_a_circle_all_learn_it(void)
{
    expect(WAITS, 4, "processes disagree: rank ", 4);
    expect(SAVES_STATE, 3, "(ls_save_state, call ", 3);
}

static void a_slow_process_is_waited_for(void)
{
    expect(IS_SLOW, 2, NULL, 0);
}

static void calls_in_the_background_are_waited_for(void)
{
    expect(HAS_CALLS_UNDER_WAY, 2, NULL, 0);
    expect(HAS_CALLS_UNDER_WAY, 4, NULL, 0);
}

/* After half of the limit here: by one of the two processes that wait, since they wait in the same call. */
static void a_long_wait_is_told_once_per_call(void)
{
    limit = "LOCKSTEP_COMM_TIMEOUT=6"; /* no other call takes half of it, also where the machine is busy */
    expect(STAYS_AWAY, 4, "warning: rank ", 1);
    expect(STAYS_AWAY, 2, "s for rank 0 in all-reduce max of 40 bytes (gradients in use, call ", 3);
    expect(STAYS_AWAY, 2, "; gives up after 6 s (LOCKSTEP_COMM_TIMEOUT)", 1);
    /* A call of a communicator that is the program's: both sides wait, each in its own call. */
    expect(CALLS_ON_ITS_OWN, 2, "warning: rank ", 2);
    limit = "LOCKSTEP_COMM_TIMEOUT=60";
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(what_one_process_calls_alone_is_named_with_what_the_others_do);
    CHECK_RUN(so_is_what_it_calls_after_leaving_out_a_batch);
    CHECK_RUN(four_processes_that_wait_in_a_circle_all_learn_it);
    CHECK_RUN(a_slow_process_is_waited_for);
    CHECK_RUN(calls_in_the_background_are_waited_for);
    CHECK_RUN(a_long_wait_is_told_once_per_call);
    return check_done();
}
