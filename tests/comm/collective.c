/* collective.c - every collective for every type and odd sizes, checked against values that each rank computes for
 * all. */
#include <sys/stat.h>

#include "base/memory.h"
#include "comm/calls.h"

static void every_kind_type_and_size(void)
{
    for (int size = 2; size <= 4; size++) crew_run(size, all_kinds);
    crew_run(3, large_ones);
}

static void many_ranks_fetch_slices(void)
{
    crew_run(6, all_kinds);
}

static void threads_can_be_ranks(void)
{
    for (int size = 1; size <= 4; size++) crew_run_threads(size, a_few_kinds);
}

/* With one process results equal inputs. */
static void one_process_keeps_its_data(void)
{
    ls_comm *comm = ls_comm_self();
    for (int64_t count = 0; count < 5; count++) walk(comm, LS_F32, count, NULL);
}

static void calls_come_in_any_order_and_at_any_pace(void)
{
    crew_run(2, interleave);
    crew_run(4, interleave);
}

/* The second time rank 1 does not get its shared memory, as after a cancel: what is shared later is found. */
static void share_again(ls_comm *comm, crew_result *result)
{
    for (int i = 0; i < 3; i++) {
        bool fails = i == 1 && comm->rank == 1;
        ls_sys_fail_at(fails ? 1 : 0);
        char *shared = comm->table->share(comm, (size_t)(i + 1) << 18, &result->why);
        ls_sys_fail_at(0);
        CHECK_MSG(!shared == fails, "%s", result->why.text);
        if (i != 1) check_all_reduce(comm, LS_F32, LS_REDUCE_SUM, 60001, shared);
    }
}

static void memory_that_some_ranks_lack_does_no_harm(void)
{
    crew_run(3, share_again);
}

/* Communicators are opened and closed, with their shared memory. */
static void split_often(ls_comm *comm, crew_result *result)
{
    struct stat before, after;
    int file = ((ls_shm *)comm)->segment->file;
    for (int i = 0; i < 20; i++) {
        ls_comm *part = comm->table->split(comm, 0, 0, &result->why);
        CHECK_MSG(part, "%s", result->why.text);
        char *shared = part->table->share(part, 1 << 20, &result->why);
        check_all_reduce(part, LS_F32, LS_REDUCE_SUM, 200000, i % 2 ? shared : NULL);
        ls_comm_close(part);
        ok(comm, &(ls_comm_call){.kind = LS_COMM_BARRIER, .dtype = LS_U8});
        CHECK(fstat(file, i < 2 ? &before : &after) == 0);
        ok(comm, &(ls_comm_call){.kind = LS_COMM_BARRIER, .dtype = LS_U8});
    }
    CHECK_MSG(after.st_blocks <= before.st_blocks, "%lld, then %lld blocks", (long long)before.st_blocks,
              (long long)after.st_blocks);
}

static void closed_communicators_free_their_memory(void)
{
    crew_run(3, split_often);
    crew_run_threads(3, split_often);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(one_process_keeps_its_data);
    CHECK_RUN(threads_can_be_ranks);
    CHECK_RUN_FORK(every_kind_type_and_size);
    CHECK_RUN_FORK(many_ranks_fetch_slices);
    CHECK_RUN_FORK(calls_come_in_any_order_and_at_any_pace);
    CHECK_RUN_FORK(memory_that_some_ranks_lack_does_no_harm);
    CHECK_RUN_FORK(closed_communicators_free_their_memory);
    return check_done();
}
