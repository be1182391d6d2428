/* two_jobs.c - two jobs of two processes each that were told the same address, by hand: they never train together. */
#include "check.h"

#include <lockstep.h>

#include "by_hand.h"

/* Shared by all processes. */
typedef struct board {
    char words[4][1024];
} board;

/* Train for as long as it takes until something happens, but not for ever. */
static int train(board *b, int number, uint64_t seed, const char *address, int port)
{
    be_rank(number % 2, address, port);
    ls_run *run = ls_init(NULL, NULL, .seed = seed);
    ls_module *model = ls_linear_new(run, 4, 2);
    ls_optim *sgd = ls_sgd_new(run, model, .lr = 0.1);
    ls_prepare(run, model, sgd);
    for (int i = 0; i < 1000 && !ls_error(run); i++) {
        ls_mark mark = ls_scope_begin(run);
        ls_backward(run, ls_mean(ls_square(ls_forward(model, ls_randn(run, LS_F32, 2, 4)))));
        ls_step(sgd);
        ls_zero_grad(sgd);
        ls_scope_end(run, mark, NULL);
        usleep(20000);
    }
    snprintf(b->words[number], sizeof b->words[number], "%s", ls_error_message(run));
    return ls_finish(run);
}

typedef struct outcome {
    pid_t pids[4];
    int codes[4];
    board *words;
} outcome;

enum { ALONE = -1 }; /* a pause until those before it have ended */

/* Processes 0 and 1 are one job, 2 and 3 the other; they start in this order, after as many milliseconds each. */
static outcome run_jobs(const int order[4], const int pauses[4], const uint64_t seeds[2], const char *address)
{
    board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    outcome o = {.words = b};
    int port = find_port();
    fflush(NULL);
    for (int i = 0; i < 4; i++) {
        siginfo_t end;
        for (int j = 0; j < i && pauses[i] == ALONE; j++)
            waitid(P_PID, (id_t)o.pids[order[j]], &end, WEXITED | WNOWAIT);
        if (pauses[i] > 0) usleep((useconds_t)pauses[i] * 1000);
        o.pids[order[i]] = fork();
        if (o.pids[order[i]] == 0) {
            fclose(stderr);
            _exit(train(b, order[i], seeds[order[i] / 2], address, port));
        }
    }
    for (int i = 0; i < 4; i++) {
        int status = -1;
        waitpid(o.pids[i], &status, 0);
        o.codes[i] = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    for (int i = 0; i < 4; i++)
        CHECK_MSG(o.codes[i] == 1 && b->words[i][0], "order %d%d%d%d, process %d: %d %s", order[0], order[1], order[2],
                  order[3], i, o.codes[i], b->words[i]);
    return o;
}

/* Nothing but the process that comes too late tells two jobs of one program apart. */
static void run_equal_jobs(const int order[4], const char *address)
{
    outcome o = run_jobs(order, (int[4]){0, 50, 50, 50}, (uint64_t[2]){1, 1}, address);
    bool told = false;
    for (int i = 0; i < 4; i++) {
        char pid[16];
        const char *at = strstr(o.words->words[i], "claimed twice, by process");
        if (!at) continue;
        bool first = snprintf(pid, sizeof pid, "%d", (int)o.pids[1]) && strstr(at, pid);
        told |= first && snprintf(pid, sizeof pid, "%d", (int)o.pids[3]) && strstr(at, pid);
    }
    CHECK_MSG(told, "who claimed rank 1 twice? \"%s\" \"%s\" \"%s\" \"%s\"", o.words->words[0], o.words->words[1],
              o.words->words[2], o.words->words[3]);
    munmap(o.words, sizeof *o.words);
}

static const int orders[][4] = {{0, 3, 2, 1}, {3, 0, 1, 2}, {0, 1, 2, 3}};

static void jobs_with_one_port_do_not_mix(void)
{
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) run_equal_jobs(orders[i], "127.0.0.1");
}

/* Nothing says that they are on one host: they meet at the port itself. */
static void neither_do_those_that_may_be_on_several_hosts(void)
{
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) run_equal_jobs(orders[i], "127.0.0.2");
}

/* Rank 0 of one and rank 1 of the other come first, and are two: nobody is too many for them. */
static void jobs_whose_seeds_differ_are_told_so(void)
{
    static const char *const addresses[] = {"127.0.0.1", "127.0.0.2"};
    for (int i = 0; i < 2; i++) {
        outcome o = run_jobs((int[4]){0, 3, 2, 1}, (int[4]){0, 0, ALONE, 0}, (uint64_t[2]){1, 2}, addresses[i]);
        bool told = false;
        for (int p = 0; p < 4; p++)
            told |= strstr(o.words->words[p], "seed is 1 in process 0, but 2 in process 1") != NULL &&
                    strstr(o.words->words[p], "do two jobs share one MASTER_PORT?") != NULL;
        CHECK_MSG(told, "\"%s\" \"%s\"", o.words->words[0], o.words->words[3]);
        munmap(o.words, sizeof *o.words);
    }
}

/* Its processes come to rank 0 again and again, some before it is done with the run before. */
static int run_often(int rank, const char *address, int port)
{
    int code = 0;
    be_rank(rank, address, port);
    for (int i = 0; i < 5 && !code; i++) {
        ls_run *run = ls_init(NULL, NULL);
        code = ls_world_size(run) != 2;
        ls_wait_for_everyone(run);
        if (rank == 0) usleep(20000);
        code |= ls_finish(run);
    }
    return code;
}

static void a_job_may_have_several_runs(void)
{
    static const char *const addresses[] = {"127.0.0.1", "127.0.0.2"};
    for (int i = 0; i < 2; i++) {
        int port = find_port(), status = -1;
        fflush(NULL);
        pid_t other = fork();
        if (other == 0) _exit(run_often(1, addresses[i], port));
        pid_t first = fork();
        if (first == 0) _exit(run_often(0, addresses[i], port));
        waitpid(first, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        waitpid(other, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN_FORK(jobs_with_one_port_do_not_mix);
    CHECK_RUN_FORK(neither_do_those_that_may_be_on_several_hosts);
    CHECK_RUN_FORK(jobs_whose_seeds_differ_are_told_so);
    CHECK_RUN_FORK(a_job_may_have_several_runs);
    return check_done();
}
