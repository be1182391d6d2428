/* hosts.c - every collective between ranks of several hosts, which are all here. */
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

static void calls_come_in_any_order_and_at_any_pace(void)
{
    for (int i = 0; i < LAYOUTS; i++) {
        crew_layout = layouts[i];
        crew_run((int)strlen(layouts[i]), interleave);
    }
}

static void threads_play_processes(void)
{
    crew_layout = "0011";
    crew_run_threads(4, a_few_kinds);
    crew_layout = "010";
    crew_run_threads(3, a_few_kinds);
}

/* With --transport FILE messages travel by that plug-in. */
int main(int argc, char **argv)
{
    int given = argc > 2 && strcmp(argv[1], "--transport") == 0 ? 2 : 0;
    if (given) crew_load(argv[2]);
    if (argc > 1 + given) check_filter = argv[1 + given];
    if (!given) CHECK_RUN(threads_play_processes);
    CHECK_RUN_FORK(every_kind_type_and_size);
    CHECK_RUN_FORK(several_pieces);
    CHECK_RUN_FORK(calls_come_in_any_order_and_at_any_pace);
    return check_done();
}
