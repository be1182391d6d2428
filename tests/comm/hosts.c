/* hosts.c - every collective between ranks of several hosts, simulated on this one. */
#include "comm/calls.h"

static const char *const layouts[] = {"0011", "012", "01210", "0111", "0101", "001122"};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, SOME = 3 };

static void every_kind_type_and_size(void)
{
    for (int i = 0; i < SOME; i++) {
        crew_layout = layouts[i];
        crew_run((int)strlen(layouts[i]), all_kinds);
    }
}

static void several_pieces(void)
{
    for (int i = 0; i < SOME; i++) {
        crew_layout = layouts[i];
        crew_run((int)strlen(layouts[i]), large_ones);
    }
}

/* ---- bytes sent ---- */

enum { MUCH = 4 << 20 };

static void cast_much(ls_comm *comm, crew_result *result)
{
    char *data = calloc(MUCH, 1);
    if (comm->rank == 1) memset(data, 7, MUCH);
    CHECK_MSG(ls_comm_broadcast(comm, data, MUCH, 1, "much", &result->why) == LS_OK, "%s", result->why.text);
    CHECK(data[0] == 7 && data[MUCH / 2] == 7 && data[MUCH - 1] == 7);
    free(data);
}

static void sum_much(ls_comm *comm, crew_result *result)
{
    int32_t *data = calloc(MUCH, 1);
    ls_comm_call call = {.kind = LS_COMM_ALL_REDUCE, .dtype = LS_I32, .in = data, .out = data, .count = MUCH / 4};
    CHECK_MSG(ls_comm_run(comm, &call, &result->why) == LS_OK, "%s", result->why.text);
    free(data);
}

/* Whatever the number of hosts. */
static void no_rank_sends_more_than_twice_its_data(void)
{
    static const char *const many[] = {"01234567", "00112233", "01112345"};
    crew_fn *const bodies[] = {cast_much, sum_much};
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        for (int b = 0; b < 2; b++) {
            crew_layout = many[i];
            crew_run((int)strlen(many[i]), bodies[b]);
            for (int r = 0; r < (int)strlen(many[i]); r++) {
                uint64_t sent = atomic_load(&wires_rules->sent[r]);
                CHECK_MSG(sent < 2 * (uint64_t)MUCH + MUCH / 8, "%s: rank %d sent %.1f times", many[i], r,
                          (double)sent / MUCH);
            }
        }
}

static void calls_come_in_any_order_and_at_any_pace(void)
{
    for (int i = 0; i < LAYOUTS; i++) {
        crew_layout = layouts[i];
        crew_run((int)strlen(layouts[i]), interleave);
    }
}

/* As with many hosts. */
static void hosts_relay_what_they_know(void)
{
    crew_direct = 1;
    every_kind_type_and_size();
    calls_come_in_any_order_and_at_any_pace();
    crew_layout = "01234567";
    crew_run(8, interleave);
    crew_direct = 0;
}

static void threads_can_be_ranks(void)
{
    crew_layout = "0011";
    crew_run_threads(4, a_few_kinds);
    crew_layout = "010";
    crew_run_threads(3, a_few_kinds);
}

/* With --transport FILE that plug-in carries the messages. */
int main(int argc, char **argv)
{
    int given = argc > 2 && strcmp(argv[1], "--transport") == 0 ? 2 : 0;
    if (given) crew_load(argv[2]);
    if (argc > 1 + given) check_filter = argv[1 + given];
    if (!given) CHECK_RUN(threads_can_be_ranks);
    CHECK_RUN_FORK(every_kind_type_and_size);
    CHECK_RUN_FORK(several_pieces);
    if (!given) CHECK_RUN_FORK(no_rank_sends_more_than_twice_its_data);
    CHECK_RUN_FORK(calls_come_in_any_order_and_at_any_pace);
    CHECK_RUN_FORK(hosts_relay_what_they_know);
    return check_done();
}
