/* hosts_failure.c - ranks of several hosts that disagree, die, stop, leave or fail: all others learn of it soon, with
 * names. */
#include <signal.h>

#include "base/capture.h"
#include "comm/crew.h"
#include "comm/queue.h"

enum { MS = 1000000 };

static ls_status sum(ls_comm *comm, int64_t count, const char *site, ls_message *why)
{
    static float data[1 << 20];
    return ls_comm_all_reduce(comm, data, count, LS_F32, LS_REDUCE_SUM, site, why);
}

static void check_words(const crew *c, int rank, const char *words)
{
    CHECK_MSG(c->result[rank].status == LS_ERR_PEER, "rank %d: %s", rank, ls_status_name(c->result[rank].status));
    CHECK_MSG(strstr(c->result[rank].why.text, words), "%s, rank %d: \"%s\" has no \"%s\"", crew_layout, rank,
              c->result[rank].why.text, words);
}

static int crew_size(void)
{
    return (int)strlen(crew_layout);
}

static const char *const layouts[] = {"0011", "012", "0111", "0101"};
/* In every second layout hosts relay. */
#define EACH_LAYOUT                                                                                                    \
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts && (crew_layout = layouts[i]);                             \
         i++, crew_direct = (int)i % 2)

/* ---- disagreeing ---- */

/* Rank 2, on another host than rank 0, makes a different call: of few bytes, or of many. */
static int64_t here_count;

static void call_different_things(ls_comm *comm, crew_result *result)
{
    char data[16] = {0}, out[16 * CREW_MOST];
    result->status = sum(comm, 8, "same", &result->why);
    if (comm->rank != 2) result->status = sum(comm, here_count, "here", &result->why);
    else if (here_count == 100) result->status = ls_comm_broadcast(comm, data, 16, 0, "there", &result->why);
    else
        result->status = ls_comm_run(comm,
                                     &(ls_comm_call){.kind = LS_COMM_GATHER,
                                                     .dtype = LS_U8,
                                                     .count = 16,
                                                     .in = data,
                                                     .out = out,
                                                     .peer = 1,
                                                     .site = "there"},
                                     &result->why);
    if (result->status == LS_OK) result->status = ls_comm_barrier(comm, "after", &result->why);
}

static void different_calls_name_both(void)
{
    EACH_LAYOUT
    {
        for (here_count = 100; here_count <= 100000; here_count *= 1000) {
            crew c;
            int64_t began = ls_comm_clock();
            crew_start(&c, crew_size(), call_different_things);
            crew_end(&c);
            for (int r = 0; r < c.size; r++) {
                check_words(&c, r, "processes disagree: rank ");
                check_words(&c, r, "f32 (here, call ");
                check_words(&c, r,
                            here_count == 100 ? "rank 2 calls broadcast of 16 bytes from rank 0 (there, call "
                                              : "rank 2 calls gather of 16 bytes to rank 1 (there, call ");
            }
            CHECK(ls_comm_clock() - began < (int64_t)60 * 1000 * MS); /* not by the timeout of ten minutes */
            crew_forget(&c);
        }
    }
}

/* Any pair of calls, also if hosts learn of each other through relays. */
static const ls_comm_call kinds[] = {{.kind = LS_COMM_BARRIER},
                                     {.kind = LS_COMM_ALL_REDUCE, .count = 8},
                                     {.kind = LS_COMM_ALL_REDUCE, .count = 100000},
                                     {.kind = LS_COMM_BROADCAST, .count = 100000, .peer = 3},
                                     {.kind = LS_COMM_GATHER, .count = 8, .peer = 3},
                                     {.kind = LS_COMM_SCATTER, .count = 8, .peer = 1},
                                     {.kind = LS_COMM_ALL_TO_ALL, .count = 8}};
enum { KINDS = sizeof kinds / sizeof *kinds };
static int most_call, rank_2_calls;

static void call_one_of_many(ls_comm *comm, crew_result *result)
{
    static float in[100000], out[100000];
    ls_comm_call call = kinds[comm->rank == 2 ? rank_2_calls : most_call];
    call.dtype = LS_F32;
    call.in = in;
    call.out = out;
    call.site = comm->rank == 2 ? "there" : "here";
    result->status = ls_comm_run(comm, &call, &result->why);
    if (result->status == LS_OK) result->status = ls_comm_barrier(comm, "after", &result->why);
}

static void expect_disagreement(void)
{
    crew c;
    int64_t began = ls_comm_clock();
    crew_start(&c, crew_size(), call_one_of_many);
    crew_end(&c);
    for (int r = 0; r < c.size; r++) {
        check_words(&c, r, "processes disagree: rank ");
        check_words(&c, r, "rank 2 calls ");
        check_words(&c, r, "(there, call ");
    }
    CHECK(ls_comm_clock() - began < (int64_t)60 * 1000 * MS); /* not by the timeout of ten minutes */
    crew_forget(&c);
}

static void any_two_different_calls_are_reported(void)
{
    crew_layout = "01234";
    for (crew_direct = 1; crew_direct >= 0; crew_direct--)
        for (most_call = 0; most_call < KINDS; most_call++)
            for (rank_2_calls = 0; rank_2_calls < KINDS; rank_2_calls++)
                if (most_call != rank_2_calls) expect_disagreement();
    crew_direct = 0;
}

/* Nothing reaches rank 1 for a while, also not the news that the others disagree. */
static void call_one_of_many_behind_a_jam(ls_comm *comm, crew_result *result)
{
    atomic_store(&wires_rules->cut[comm->rank][1], 1);
    call_one_of_many(comm, result);
}

static void a_late_reason_is_waited_for(void)
{
    crew c;
    crew_layout = "0123";
    most_call = 2;
    rank_2_calls = 4;
    crew_start(&c, crew_size(), call_one_of_many_behind_a_jam);
    for (int r = 0; r < crew_size(); r++)
        while (!atomic_load(&wires_rules->cut[r][1])) usleep(1000);
    usleep(250 * 1000);
    for (int r = 0; r < crew_size(); r++) atomic_store(&wires_rules->cut[r][1], 0);
    crew_end(&c);
    for (int r = 0; r < crew_size(); r++) check_words(&c, r, "rank 2 calls gather ");
    crew_forget(&c);
}

/* Rank 0 thinks that rank 2 has one more: of few bytes, or of many. */
static void call_different_sizes(ls_comm *comm, crew_result *result)
{
    static float in[1 << 20], out[1 << 20];
    int64_t n = here_count, counts[CREW_MOST] = {n, n, n, n};
    if (comm->rank == 0) counts[2]++;
    ls_comm_call call = {.kind = LS_COMM_ALL_GATHER, .dtype = LS_F32, .count = n, .in = in, .out = out};
    call.counts = counts;
    result->status = ls_comm_run(comm, &call, &result->why);
    if (result->status == LS_OK) result->status = ls_comm_barrier(comm, "after", &result->why);
}

static void unexpected_sizes_are_noticed(void)
{
    static const char *const words[] = {"rank 0 expects 28 bytes from rank 2 in all-gather of 3 f32 (call ",
                                        "rank 0 expects 800004 bytes from rank 2 in all-gather of 200000 f32 (call "};
    for (int many = 0; many < 2; many++) {
        crew c;
        crew_layout = "0011";
        here_count = many ? 200000 : 3;
        crew_start(&c, 4, call_different_sizes);
        crew_end(&c);
        for (int r = 0; r < 4; r++) check_words(&c, r, words[many]);
        crew_forget(&c);
    }
}

static void message_of_another_size(ls_comm *comm, crew_result *result)
{
    float data[8] = {0};
    ls_comm_call call = {.kind = LS_COMM_SEND, .dtype = LS_F32, .count = 8, .in = data, .out = data, .peer = 1};
    if (comm->rank == 1) call.kind = LS_COMM_RECEIVE, call.count = 7, call.peer = 0;
    if (comm->rank < 2) result->status = ls_comm_run(comm, &call, &result->why);
    if (comm->rank != 1) result->status = ls_comm_barrier(comm, "after", &result->why);
}

static void messages_are_compared_too(void)
{
    crew c;
    crew_layout = "010";
    crew_start(&c, 3, message_of_another_size);
    crew_end(&c);
    for (int r = 0; r < 3; r++)
        check_words(&c, r, "rank 0 calls send of 8 f32 to rank 1 (call 1), rank 1 calls receive of 7");
    crew_forget(&c);
}

static void too_many_ranks_are_refused(void)
{
    static int host[5000];
    ls_message why = {{0}};
    int file = ls_segment_make(1, &why);
    ls_segment *segment = ls_segment_open(file, 1, &why);
    ls_hosts_opts opts = {.transport = crew_transport, .size = 5000, .host = host, .segment = segment};
    for (int r = 0; r < opts.size; r++) host[r] = r;
    CHECK(!ls_hosts_join(&opts, &why));
    CHECK_MSG(strstr(why.text, "5000 processes; at most 4096 are supported"), "%s", why.text);
    ls_segment_release(segment);
}

static void a_missing_transport_is_named(void)
{
    ls_message why = {{0}};
    CHECK(!ls_transport_load("pigeon", &why));
    CHECK_MSG(strstr(why.text,
                     "not in this build; LOCKSTEP_PLUGIN_PATH names folders to look for liblockstep-comm-pigeon.so in"),
              "%s", why.text);
}

/* ---- dying ---- */

static void be_killed(ls_comm *comm, crew_result *result)
{
    result->status = sum(comm, 8, "before", &result->why);
    result->when = ls_comm_clock(); /* time of death */
    if (comm->rank == 1) kill(getpid(), SIGKILL);
    result->status = sum(comm, 1 << 20, "after", &result->why);
}

static void a_killed_rank_is_named_on_all_hosts(void)
{
    EACH_LAYOUT
    {
        crew c;
        crew_start(&c, crew_size(), be_killed);
        crew_end(&c);
        for (int r = 0; r < c.size; r++) {
            if (r == 1) continue;
            check_words(&c, r, "rank 1 ");
            /* On a busy machine the connection may be seen to close before a neighbour has noticed. */
            if (!strstr(c.result[r].why.text, "rank 1 on host "))
                check_words(&c, r, "died; its last call: all-reduce sum of 8 f32 (before, call ");
            /* not by the timeout of ten minutes */
            CHECK_MSG(c.result[r].when - c.result[1].when < (int64_t)60 * 1000 * MS, "after %lld ms",
                      (long long)(c.result[r].when - c.result[1].when) / MS);
        }
        /* The launcher can still read the last calls of the dead rank, under its rank in the job. */
        char text[4096];
        ls_segment_describe(c.file[1], 2, text, sizeof text);
        CHECK_MSG(strstr(text, "rank 1: all-reduce sum of 8 f32 (before, call "), "%s", text);
        crew_forget(&c);
    }
}

static void leave_early(ls_comm *comm, crew_result *result)
{
    if (comm->rank != 1) result->status = ls_comm_barrier(comm, "forgotten", &result->why);
}

static void a_rank_that_finished_is_not_waited_for(void)
{
    crew c;
    crew_layout = "01";
    crew_start(&c, 2, leave_early);
    crew_end(&c);
    CHECK(c.result[1].status == LS_OK);
    check_words(&c, 0, "rank 1 ");
    check_words(&c, 0, "in barrier (forgotten, call ");
    crew_forget(&c);
}

/* ---- stopping ---- */

static void stop_until_continued(ls_comm *comm, crew_result *result)
{
    if (comm->rank == 1) kill(getpid(), SIGSTOP);
    result->status = ls_comm_barrier(comm, "with the stopped", &result->why);
    if (comm->rank == 1 && !result->status) result->status = ls_comm_barrier(comm, "later", &result->why);
}

static int wait_for_a_stopped_rank(void)
{
    crew c;
    check_failures_here = 0;
    crew_layout = "01";
    ls_config_reload();
    crew_start(&c, 2, stop_until_continued);
    waitpid(c.pid[0], &c.result[0].wait, 0);
    crew_check_waited(&c, 0, 5);
    check_words(&c, 0, "for rank 1 on host 49 in barrier (with the stopped, call ");
    kill(c.pid[1], SIGCONT);
    waitpid(c.pid[1], &c.result[1].wait, 0);
    crew_check_waited(&c, 1, 5);
    crew_forget(&c);
    return check_failures_here;
}

static void waiting_for_a_stopped_rank_warns_and_times_out(void)
{
    char text[4096];
    int status = run_captured("LOCKSTEP_COMM_TIMEOUT=5", wait_for_a_stopped_rank, text, sizeof text); /* joining, too */
    const char *warning = strstr(text, "warning: rank 0 has waited ");
    CHECK_MSG(status == 0 && warning && strstr(warning, "s for rank 1 in barrier (with the stopped, call "), "%s",
              text);
    CHECK_MSG(!warning || !strstr(warning + 1, "warning:"), "more than once: %s", text);
}

/* ---- failing ---- */

/* Some wait in shared memory, some for messages, and some in the communicator of a queue. */
static ls_status sum_in_background(ls_comm *comm, ls_comm_request *request, ls_message *why)
{
    (void)request;
    return sum(comm, 4096, "in the background", why);
}

static void fail_alone(ls_comm *comm, crew_result *result)
{
    ls_comm *apart = comm->table->split(comm, 0, comm->rank, &result->why);
    CHECK_MSG(apart, "%s", result->why.text);
    ls_comm_queue *queue = ls_comm_queue_new(apart, &(ls_comm_workers){.count = 1, .cpu = {-1}}, &result->why);
    ls_comm_request request = {.work = sum_in_background};
    CHECK_MSG(queue, "%s", result->why.text);
    if (comm->rank == 1) {
        usleep(20000);
        comm->table->abort(comm, "conv2d: channels 3 and 4 differ");
    } else {
        ls_comm_start(queue, &request);
        result->status = ls_comm_wait(queue, &request, &result->why);
    }
    result->when = ls_comm_clock();
    if (comm->rank == 1) result->status = ls_comm_barrier(comm, "too late", &result->why);
    ls_comm_queue_free(queue);
}

static void the_first_failure_reaches_all(void)
{
    EACH_LAYOUT
    {
        crew c;
        crew_start(&c, crew_size(), fail_alone);
        crew_end(&c);
        for (int r = 0; r < c.size; r++) check_words(&c, r, "rank 1 failed: conv2d: channels 3 and 4 differ");
        crew_forget(&c);
    }
}

/* ---- cancelling ---- */

/* Rank 1 runs out of memory while the others are in the middle of something; then all reset. */
static void cancel(ls_comm *comm, crew_result *result)
{
    ls_comm *vote = comm->table->split(comm, 0, comm->rank, &result->why);
    CHECK_MSG(vote, "%s", result->why.text);
    if (vote) vote->ignores_cancel = true;
    CHECK_MSG(vote && ls_comm_barrier(vote, "ignores_cancel", &result->why) == LS_OK, "%s", result->why.text);
    for (int attempt = 0; attempt < 3 && vote; attempt++) {
        ls_status status = LS_ERR_MEMORY;
        if (comm->rank == 1) comm->table->cancel(comm);
        else status = sum(comm, attempt % 2 ? 1 << 20 : 100, "left", &result->why);
        CHECK_MSG(status == LS_ERR_MEMORY, "%s", result->why.text);
        CHECK_MSG(comm->rank == 1 || strstr(result->why.text, "rank 1 ran out of memory"), "%s", result->why.text);
        for (int step = 0; step < 2; step++) {
            result->status = ls_comm_barrier(vote, "back", &result->why);
            CHECK_MSG(result->status == LS_OK, "%s", result->why.text);
            if (step == 0) comm->table->reset(comm);
        }
        float data[3] = {(float)comm->rank, 1, 2};
        result->status = ls_comm_all_reduce(comm, data, 3, LS_F32, LS_REDUCE_SUM, "again", &result->why);
        CHECK_MSG(result->status == LS_OK, "%s", result->why.text);
        CHECK(data[0] == (float)(comm->size * (comm->size - 1) / 2) && data[2] == (float)(2 * comm->size));
        /* Nobody may be cancelled by the next attempt while still in this one. */
        CHECK(ls_comm_barrier(vote, "all done", &result->why) == LS_OK);
    }
    ls_comm_close(vote);
}

static void a_rank_out_of_memory_cancels_all(void)
{
    EACH_LAYOUT crew_run(crew_size(), cancel);
}

/* Rank 1 cancels rank 0 and closes its connections: rank 0 sees that first. */
static void leave_before_news(ls_comm *comm, crew_result *result)
{
    if (comm->rank == 1) {
        comm->table->cancel(comm);
        atomic_store(&wires_rules->gone[1], 1);
        usleep(200000);
    } else {
        result->status = sum(comm, 100, "left", &result->why);
    }
}

static void a_rank_that_is_gone_may_have_cancelled(void)
{
    crew c;
    crew_layout = "01";
    wires_delay = 20000;
    crew_start(&c, 2, leave_before_news);
    crew_end(&c);
    CHECK_MSG(c.result[0].status == LS_ERR_MEMORY, "%s", c.result[0].why.text);
    CHECK_MSG(strstr(c.result[0].why.text, "rank 1 ran out of memory"), "%s", c.result[0].why.text);
    crew_forget(&c);
    wires_delay = 0;
}

/* ---- delayed ---- */

static void sums_with_delay(ls_comm *comm, crew_result *result)
{
    for (int i = 0; i < 5; i++) {
        float x = (float)comm->rank;
        result->status = ls_comm_all_reduce(comm, &x, 1, LS_F32, LS_REDUCE_SUM, "", &result->why);
        CHECK_MSG(!result->status && x == 6, "%s", result->why.text);
        result->status = sum(comm, 300000, "", &result->why);
        CHECK_MSG(!result->status, "%s", result->why.text);
    }
}

static void messages_may_be_slow(void)
{
    crew_layout = "0011";
    wires_delay = 20000;
    crew_run(4, sums_with_delay);
    wires_delay = 0;
}

/* A connection that is cut reports nothing: the timeout does. */
static void wait_for_nothing(ls_comm *comm, crew_result *result)
{
    result->status = sum(comm, 8, "before", &result->why);
    if (comm->rank == 0) atomic_store(&wires_rules->cut[1][0], 1);
    result->status = ls_comm_barrier(comm, "cut", &result->why);
    if (!result->status) result->status = ls_comm_barrier(comm, "later", &result->why);
}

static void waiting_on_a_cut_connection_times_out(void)
{
    crew c;
    crew_layout = "01";
    setenv("LOCKSTEP_COMM_TIMEOUT", "5", 1); /* also limits joining */
    ls_config_reload();
    crew_start(&c, 2, wait_for_nothing);
    crew_end(&c);
    crew_check_waited(&c, 0, 5);
    for (int r = 0; r < 2; r++) CHECK(c.result[r].status == LS_ERR_PEER);
    crew_forget(&c);
    unsetenv("LOCKSTEP_COMM_TIMEOUT");
    ls_config_reload();
}

/* With --transport FILE that plug-in carries the messages. */
int main(int argc, char **argv)
{
    int given = argc > 2 && strcmp(argv[1], "--transport") == 0 ? 2 : 0;
    if (given) crew_load(argv[2]);
    if (argc > 1 + given) check_filter = argv[1 + given];
    CHECK_RUN(different_calls_name_both);
    CHECK_RUN(any_two_different_calls_are_reported);
    if (!given) CHECK_RUN(a_late_reason_is_waited_for);
    CHECK_RUN(unexpected_sizes_are_noticed);
    CHECK_RUN(messages_are_compared_too);
    CHECK_RUN(too_many_ranks_are_refused);
    CHECK_RUN(a_missing_transport_is_named);
    CHECK_RUN(a_killed_rank_is_named_on_all_hosts);
    CHECK_RUN(a_rank_that_finished_is_not_waited_for);
    CHECK_RUN(waiting_for_a_stopped_rank_warns_and_times_out);
    CHECK_RUN(the_first_failure_reaches_all);
    CHECK_RUN(a_rank_out_of_memory_cancels_all);
    if (!given) CHECK_RUN(a_rank_that_is_gone_may_have_cancelled);
    if (!given) CHECK_RUN(messages_may_be_slow);
    if (!given) CHECK_RUN(waiting_on_a_cut_connection_times_out);
    return check_done();
}
