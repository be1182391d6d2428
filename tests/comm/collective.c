/* collective.c - every collective of every type and of odd sizes, against numbers that each rank computes for all. */
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

static void threads_play_processes(void)
{
    for (int size = 1; size <= 4; size++) crew_run_threads(size, a_few_kinds);
}

/* Alone everything is as it was. */
static void alone(void)
{
    ls_comm *comm = ls_comm_self();
    for (int64_t count = 0; count < 5; count++) walk(comm, LS_F32, count, NULL);
}

static void calls_come_in_any_order_and_at_any_pace(void)
{
    crew_run(2, interleave);
    crew_run(4, interleave);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(alone);
    CHECK_RUN(threads_play_processes);
    CHECK_RUN_FORK(every_kind_type_and_size);
    CHECK_RUN_FORK(many_ranks_fetch_slices);
    CHECK_RUN_FORK(calls_come_in_any_order_and_at_any_pace);
    return check_done();
}
