/* user_comm.c - collectives on raw memory as programs call them: every kind, now and in the background, in groups,
 * and what is said about wrong ones. The arithmetic of all types is tested in tests/comm. */
#include <lockstep.h>

#include "base/config.h"
#include "base/memory.h"
#include "run/team.h"

enum { N = 40000 }; /* so many that pieces and slices come about */

/* What rank r brings at place i. */
static float brought(int r, int64_t i)
{
    return (float)((r + 1) * 1000 + i % 777);
}

static float sum_at(int size, int64_t i)
{
    float sum = 0;
    for (int r = 0; r < size; r++) sum += brought(r, i);
    return sum;
}

static void bring(ls_comm *comm, float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] = brought(ls_comm_rank(comm), i);
}

#define SAME(x, i, want) CHECK_MSG((x)[i] == (want), "%s[%lld] is %g, not %g", #x, (long long)(i), (x)[i], want)

/* ---- every kind ---- */

static void reduce_all_ways(ls_comm *comm, float *x, float *y)
{
    int rank = ls_comm_rank(comm), size = ls_comm_size(comm);
    bring(comm, x, N);
    CHECK(ls_collective(comm, LS_COMM_ALL_REDUCE, .in = x, .out = x, .count = N, .dtype = LS_F32));
    for (int64_t i = 0; i < N; i++) SAME(x, i, sum_at(size, i));
    bring(comm, x, N);
    CHECK(ls_collective(comm, LS_COMM_ALL_REDUCE, .in = x, .out = y, .count = N, .dtype = LS_F32, .op = LS_REDUCE_MAX));
    SAME(y, 5, brought(size - 1, 5));
    CHECK(ls_collective(comm, LS_COMM_REDUCE, .in = x, .out = rank == 0 ? y : NULL, .count = N, .dtype = LS_F32));
    if (rank == 0) SAME(y, 99, sum_at(size, 99));
    int64_t part = N / size;
    CHECK(ls_collective(comm, LS_COMM_REDUCE_SCATTER, .in = x, .out = y, .count = part, .dtype = LS_F32));
    SAME(y, 7, sum_at(size, rank * part + 7));
}

static void exchange_all_ways(ls_comm *comm, float *x, float *y)
{
    int rank = ls_comm_rank(comm), size = ls_comm_size(comm);
    int64_t part = N / size, counts[TEAM_MAX], total = 0;
    bring(comm, x, N);
    CHECK(ls_collective(comm, LS_COMM_ALL_GATHER, .in = x, .out = y, .count = part, .dtype = LS_F32));
    for (int r = 0; r < size; r++) SAME(y, r * part + 3, brought(r, 3));
    for (int r = 0; r < size; r++) total += counts[r] = 10 * r + 1;
    CHECK(ls_collective(comm, LS_COMM_ALL_GATHER, .in = x, .out = y, .count = counts[rank], .counts = counts,
                        .dtype = LS_F32));
    SAME(y, total - 1, brought(size - 1, counts[size - 1] - 1));
    CHECK(ls_collective(comm, LS_COMM_GATHER, .in = x, .out = y, .count = counts[rank], .counts = counts,
                        .dtype = LS_F32, .peer = size - 1));
    CHECK(ls_collective(comm, LS_COMM_SCATTER, .in = y, .out = x, .count = counts[rank], .counts = counts,
                        .dtype = LS_F32, .peer = size - 1));
    SAME(x, counts[rank] - 1, brought(rank, counts[rank] - 1));
    CHECK(ls_collective(comm, LS_COMM_ALL_TO_ALL, .in = x, .out = y, .count = part, .dtype = LS_F32));
    SAME(y, (size - 1) * part, brought(size - 1, rank * part));
    CHECK(ls_collective(comm, LS_COMM_BROADCAST, .out = x, .count = N, .dtype = LS_F32, .peer = size - 1));
    SAME(x, 11, brought(size - 1, 11));
    if (size > 1 && rank == 0)
        CHECK(ls_collective(comm, LS_COMM_SEND, .in = x, .count = N, .dtype = LS_F32, .peer = 1));
    if (rank == 1) CHECK(ls_collective(comm, LS_COMM_RECEIVE, .out = y, .count = N, .dtype = LS_F32, .peer = 0));
    if (rank == 1) SAME(y, 500, x[500]);
    CHECK(ls_collective(comm, LS_COMM_BARRIER));
}

static void call_everything(ls_run *run)
{
    ls_comm *comm = ls_comm_of(run);
    CHECK_MSG(comm, "%s", ls_error_message(run));
    CHECK(ls_comm_of(run) == comm && ls_comm_rank(comm) == ls_rank(run) && ls_comm_size(comm) == ls_world_size(run));
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y), *shared = ls_comm_share(comm, N * sizeof *x);
    CHECK(shared && shared[0] == 0 && shared[N - 1] == 0 && (uintptr_t)shared % 4096 == 0);
    reduce_all_ways(comm, x, y);
    reduce_all_ways(comm, shared, y);
    exchange_all_ways(comm, x, y);
    exchange_all_ways(comm, x, shared);
    free(x), free(y);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void every_kind_on_any_number_of_processes(void)
{
    for (int size = 1; size <= 4; size++) team_run(size, call_everything);
    team_fork(2, call_everything);
}

/* ---- in the background ---- */

static void start_many(ls_run *run)
{
    enum { MANY = 20 };
    ls_comm *comm = ls_comm_of(run);
    float *x[MANY];
    ls_request *r[MANY];
    for (int k = 0; k < MANY; k++) {
        x[k] = k % 2 ? malloc(N * sizeof **x) : ls_comm_share(comm, N * sizeof **x);
        bring(comm, x[k], N);
        r[k] = ls_collective_start(comm, LS_COMM_ALL_REDUCE, .in = x[k], .out = x[k], .count = N, .dtype = LS_F32);
        CHECK(r[k] != NULL);
    }
    double now = ls_rank(run); /* calls of the same communicator and of the run come in between */
    CHECK(ls_collective(comm, LS_COMM_ALL_REDUCE, .in = &now, .out = &now, .count = 1, .dtype = LS_F64));
    CHECK_NEAR(now, ls_world_size(run) * (ls_world_size(run) - 1) / 2.0, 0);
    for (int k = 0; k < MANY; k++) CHECK(ls_request_done(r[k])); /* they were started before it */
    CHECK_NEAR(ls_item(ls_sum(ls_gather(run, ls_ones(run, LS_F32, 1)))), ls_world_size(run), 0);
    for (int k = MANY - 1; k >= 0; k--) {
        CHECK(ls_request_wait(r[k]));
        SAME(x[k], 77, sum_at(ls_world_size(run), 77));
        if (k % 2) free(x[k]);
    }
    ls_request *last = ls_collective_start(comm, LS_COMM_BARRIER);
    while (!ls_request_done(last)) sched_yield();
    CHECK(ls_request_wait(last));
    ls_collective_start(comm, LS_COMM_BARRIER); /* nobody waits for it but the end of the run */
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void with_workers(const char *count)
{
    setenv("LOCKSTEP_COMM_WORKERS", count, 1);
    ls_config_reload();
    for (int size = 1; size <= 3; size++) team_run(size, start_many);
    unsetenv("LOCKSTEP_COMM_WORKERS");
    ls_config_reload();
}

static void calls_go_on_in_the_background(void)
{
    with_workers("1");
    with_workers("0");
    with_workers("3");
}

/* Every worker of every local rank has its place in the list. */
static void workers_are_placed_by_local_rank(void)
{
    setenv("LOCKSTEP_COMM_WORKERS", "2", 1);
    setenv("LOCKSTEP_COMM_AFFINITY", "3,4,5,6,7", 1);
    ls_config_reload();
    ls_run *run = ls_init(NULL, NULL);
    ls_comm_workers w;
    run->session->local_rank = 1;
    CHECK(ls_session_workers(run, "test", &w) && w.count == 2 && w.cpu[0] == 5 && w.cpu[1] == 6);
    run->session->local_rank = 2;
    CHECK(ls_session_workers(run, "test", &w) && w.cpu[0] == 7 && w.cpu[1] == -1);
    ls_finish(run);
    unsetenv("LOCKSTEP_COMM_WORKERS");
    unsetenv("LOCKSTEP_COMM_AFFINITY");
    ls_config_reload();
}

/* ---- groups ---- */

static void divide(ls_run *run)
{
    ls_comm *all = ls_comm_of(run);
    int rank = ls_comm_rank(all);
    ls_comm *half = ls_comm_split(all, rank % 2, -rank), *few = ls_comm_split(all, rank < 3 ? 0 : -1, 0);
    CHECK(ls_comm_size(half) == 2 && ls_comm_rank(half) == (rank < 2 ? 1 : 0)); /* keys turn the order round */
    CHECK((few != NULL) == (rank < 3) && ls_comm_size(few) == (rank < 3 ? 3 : 1));
    int64_t sum = 0, mine = 1 << rank;
    CHECK(ls_collective(half, LS_COMM_ALL_REDUCE, .in = &mine, .out = &sum, .count = 1, .dtype = LS_I64));
    CHECK(sum == (rank % 2 ? 2 + 8 : 1 + 4));
    if (few) CHECK(ls_collective(few, LS_COMM_ALL_REDUCE, .in = &mine, .out = &sum, .count = 1, .dtype = LS_I64));
    if (few) CHECK(sum == 7);
    ls_request *r = ls_collective_start(half, LS_COMM_BARRIER);
    CHECK(ls_request_wait(r));
    ls_comm_free(half);
    ls_comm_free(all); /* stays: it is the run's */
    CHECK(ls_collective(all, LS_COMM_BARRIER));
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void groups_of_processes(void)
{
    team_run(4, divide);
}

/* ---- wrong ones ---- */

static void differ(ls_run *run)
{
    ls_comm *comm = ls_comm_of(run);
    float x[4] = {0};
    if (ls_rank(run) == 0) ls_collective(comm, LS_COMM_ALL_REDUCE, .in = x, .out = x, .count = 4, .dtype = LS_F32);
    else ls_collective(comm, LS_COMM_ALL_REDUCE, .in = x, .out = x, .count = 3, .dtype = LS_F32);
    CHECK(ls_error(run) == LS_ERR_PEER);
    CHECK_MSG(strstr(ls_error_message(run), "all-reduce sum of 4 f32 (user_comm.c:") &&
                  strstr(ls_error_message(run), "all-reduce sum of 3 f32 (user_comm.c:"),
              "%s", ls_error_message(run));
    CHECK(!ls_collective_start(comm, LS_COMM_BARRIER) && !ls_request_wait(NULL));
}

static void forget_something(ls_run *run)
{
    ls_comm *comm = ls_comm_of(run);
    float x[4] = {0};
    if (ls_rank(run) == 1) ls_collective(comm, LS_COMM_ALL_REDUCE, .in = x, .out = x, .count = 4);
    else ls_collective(comm, LS_COMM_ALL_REDUCE, .in = x, .out = x, .count = 4, .dtype = LS_F32);
    CHECK(ls_error(run) == (ls_rank(run) == 1 ? LS_ERR_DTYPE : LS_ERR_PEER));
    CHECK_MSG(strstr(ls_error_message(run), "all-reduce needs a .dtype"), "%s", ls_error_message(run));
}

static void refuse(ls_run *run, const char *words)
{
    CHECK_MSG(strstr(ls_error_message(run), words), "%s", ls_error_message(run));
    ls_clear_error(run);
}

static void ask_for_the_impossible(ls_run *run)
{
    ls_comm *comm = ls_comm_of(run);
    int64_t one = 1;
    ls_collective(comm, LS_COMM_BROADCAST, .count = 1, .dtype = LS_I64);
    refuse(run, "broadcast of 1 elements needs .out");
    ls_collective(comm, LS_COMM_SEND, .count = 1, .dtype = LS_I64);
    refuse(run, "send of 1 elements needs .in");
    ls_collective(comm, LS_COMM_SEND, .in = &one, .count = 1, .dtype = LS_I64, .peer = 3);
    refuse(run, "send: rank 0 of 1 cannot use rank 3 as its peer");
    ls_collective(comm, LS_COMM_ALL_REDUCE, .in = &one, .out = &one, .count = 1, .dtype = LS_I64, .op = LS_REDUCE_MEAN);
    refuse(run, "the mean of i64 needs a floating type");
    ls_collective(comm, LS_COMM_ALL_TO_ALL, .in = &one, .out = &one, .counts = &one, .dtype = LS_I64, .count = 1);
    refuse(run, "needs .counts and .out_counts together");
    CHECK(!ls_comm_split(NULL, 0, 0) && !ls_comm_share(NULL, 1) && !ls_collective(NULL, LS_COMM_BARRIER));
    setenv("LOCKSTEP_COMM_WORKERS", "65", 1);
    ls_config_reload();
    CHECK(!ls_comm_split(comm, 0, 0));
    refuse(run, "LOCKSTEP_COMM_WORKERS is 65; it must be at most 64");
    unsetenv("LOCKSTEP_COMM_WORKERS");
    ls_config_reload();
}

static void wrong_calls_are_told_with_their_place(void)
{
    team_run(2, differ);
    team_run(3, forget_something);
    team_run(1, ask_for_the_impossible);
}

/* ---- no memory ---- */

static void a_request_that_finds_no_memory_fails(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_comm *comm = ls_comm_of(run);
    ls_sys_fail_at(1);
    CHECK(!ls_collective_start(comm, LS_COMM_BARRIER));
    CHECK(ls_error(run) == LS_ERR_MEMORY);
    ls_clear_error(run);
    ls_sys_fail_at(1);
    CHECK(!ls_comm_share(comm, 4096) && ls_error(run) == LS_ERR_MEMORY);
    ls_clear_error(run);
    ls_sys_fail_at(1);
    CHECK(!ls_comm_split(comm, 0, 0) && ls_error(run) == LS_ERR_MEMORY);
    ls_sys_fail_at(0);
    ls_clear_error(run);
    CHECK(ls_finish(run) == 0);
}

/* ---- the search for a batch size ends calls in the middle ---- */

static void try_size(ls_run *run, int64_t size, void *user)
{
    ls_comm *comm = ls_comm_of(run);
    (void)user;
    if (ls_rank(run) == 1 && size > 8) ls_set_error(run, LS_ERR_MEMORY, "too large");
    int32_t x = 1;
    ls_collective(comm, LS_COMM_ALL_REDUCE, .in = &x, .out = &x, .count = 1, .dtype = LS_I32);
    if (!ls_error(run)) CHECK(x == ls_world_size(run));
}

static void search(ls_run *run)
{
    ls_comm *comm = ls_comm_of(run);
    CHECK(ls_find_batch_size(run, 10, try_size, NULL) == 8);
    CHECK(ls_collective(comm, LS_COMM_BARRIER));
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void a_recall_leaves_communicators_in_order(void)
{
    team_run(2, search);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN_FORK(every_kind_on_any_number_of_processes);
    CHECK_RUN(calls_go_on_in_the_background);
    CHECK_RUN(workers_are_placed_by_local_rank);
    CHECK_RUN(groups_of_processes);
    CHECK_RUN(wrong_calls_are_told_with_their_place);
    CHECK_RUN(a_request_that_finds_no_memory_fails);
    CHECK_RUN(a_recall_leaves_communicators_in_order);
    return check_done();
}
