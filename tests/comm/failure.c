/* failure.c - ranks that disagree, die, stop, leave or fail: all others learn of it soon, with names. */
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/hash.h"
#include "comm/crew.h"
#include "comm/shm/meet.h"

enum { MS = 1000000 };

static ls_status sum(ls_comm *comm, int64_t count, const char *site, ls_message *why)
{
    static float data[4096];
    return ls_comm_all_reduce(comm, data, count, LS_F32, LS_REDUCE_SUM, site, why);
}

static void check_words(const crew *c, int rank, const char *words)
{
    CHECK_MSG(c->result[rank].status == LS_ERR_PEER, "rank %d: %s", rank, ls_status_name(c->result[rank].status));
    CHECK_MSG(strstr(c->result[rank].why.text, words), "rank %d: \"%s\" has no \"%s\"", rank, c->result[rank].why.text,
              words);
}

/* ---- disagreeing ---- */

static void call_different_things(ls_comm *comm, crew_result *result)
{
    result->status = sum(comm, 8, "same", &result->why);
    if (comm->rank == 1) result->status = ls_comm_broadcast(comm, (char[16]){0}, 16, 0, "there", &result->why);
    else result->status = sum(comm, 100, "here", &result->why);
}

static void different_calls_name_both(void)
{
    crew c;
    int64_t began = ls_comm_clock();
    crew_start(&c, 3, call_different_things);
    crew_end(&c);
    for (int r = 0; r < 3; r++) {
        check_words(&c, r, "rank 0 calls all-reduce sum of 100 f32 (here, call 3)");
        check_words(&c, r, "rank 1 calls broadcast of 16 bytes from rank 0 (there, call 3)");
    }
    CHECK(ls_comm_clock() - began < (int64_t)60 * 1000 * MS); /* not by the timeout of ten minutes */
    crew_forget(&c);
}

static void call_different_sizes(ls_comm *comm, crew_result *result)
{
    float in[8] = {0}, out[16];
    const int64_t counts[] = {3, 4};
    ls_comm_call call = {.kind = LS_COMM_ALL_GATHER, .dtype = LS_F32, .count = 3, .in = in, .out = out};
    call.counts = counts;
    result->status = ls_comm_run(comm, &call, &result->why);
}

static void unexpected_sizes_are_noticed(void)
{
    crew c;
    crew_start(&c, 2, call_different_sizes);
    crew_end(&c);
    for (int r = 0; r < 2; r++)
        check_words(&c, r, "expects 16 bytes from rank 1 in all-gather of 3 f32 (call 2), which has 12");
    crew_forget(&c);
}

static void message_of_another_size(ls_comm *comm, crew_result *result)
{
    float data[8] = {0};
    ls_comm_call call = {.kind = LS_COMM_SEND, .dtype = LS_F32, .count = 8, .in = data, .out = data, .peer = 1};
    if (comm->rank == 1) call.kind = LS_COMM_RECEIVE, call.count = 7, call.peer = 0;
    result->status = ls_comm_run(comm, &call, &result->why);
    if (comm->rank == 0) result->status = ls_comm_barrier(comm, "after", &result->why);
}

static void messages_are_compared_too(void)
{
    crew c;
    crew_start(&c, 2, message_of_another_size);
    crew_end(&c);
    for (int r = 0; r < 2; r++)
        check_words(&c, r, "rank 0 calls send of 8 f32 to rank 1 (call 1), rank 1 calls receive of 7");
    crew_forget(&c);
}

static void senseless_calls(ls_comm *comm, crew_result *result)
{
    int32_t data[4] = {0};
    ls_comm_call call = {.kind = LS_COMM_BROADCAST, .dtype = LS_I32, .count = 4, .in = data, .out = data, .peer = 2};
    CHECK(ls_comm_run(comm, &call, &result->why) == LS_ERR_VALUE);
    call = (ls_comm_call){.kind = LS_COMM_SEND, .dtype = LS_I32, .count = 4, .in = data, .peer = comm->rank};
    CHECK(ls_comm_run(comm, &call, &result->why) == LS_ERR_VALUE);
    call = (ls_comm_call){.kind = LS_COMM_ALL_GATHER, .dtype = LS_I32, .count = 1, .in = data, .out = data};
    call.counts = (int64_t[]){1, -1};
    CHECK(ls_comm_run(comm, &call, &result->why) == LS_ERR_VALUE);
    CHECK_MSG(strstr(result->why.text, "all-gather: a part has -1 elements"), "%s", result->why.text);
    CHECK(ls_comm_all_reduce(comm, data, -1, LS_I32, LS_REDUCE_SUM, "", &result->why) == LS_ERR_VALUE);
    CHECK(ls_comm_all_reduce(comm, data, 4, LS_I32, LS_REDUCE_MEAN, "", &result->why) == LS_ERR_DTYPE);
    CHECK(ls_comm_barrier(comm, "still works", &result->why) == LS_OK);
}

static void invalid_calls_are_refused_before_any_rank_waits(void)
{
    crew_run(2, senseless_calls);
}

/* ---- dying ---- */

static void be_killed(ls_comm *comm, crew_result *result)
{
    result->status = sum(comm, 8, "before", &result->why);
    result->when = ls_comm_clock(); /* time of death */
    if (comm->rank == 1) kill(getpid(), SIGKILL);
    result->status = sum(comm, 4096, "after", &result->why);
}

static void a_killed_rank_is_named_at_once(void)
{
    crew c;
    crew_start(&c, 4, be_killed);
    crew_end(&c);
    for (int r = 0; r < 4; r++) {
        if (r == 1) continue;
        check_words(&c, r, "rank 1 (process ");
        check_words(&c, r, ") died; its last call: all-reduce sum of 8 f32 (before, call 2), done");
        /* not by the timeout of ten minutes */
        CHECK_MSG(c.result[r].when - c.result[1].when < (int64_t)60 * 1000 * MS, "after %lld ms",
                  (long long)(c.result[r].when - c.result[1].when) / MS);
    }
    /* The launcher can still read the last calls of the dead rank. */
    char text[4096];
    ls_segment_describe(c.file[0], 2, text, sizeof text);
    CHECK_MSG(strstr(text, "rank 1: all-reduce sum of 8 f32 (before, call 2), done"), "%s", text);
    /* Also of the rank that saw it first; the others may not have begun. */
    CHECK_MSG(strstr(text, ": all-reduce sum of 4096 f32 (after, call 3), failed"), "%s", text);
    crew_forget(&c);
}

static void leave_early(ls_comm *comm, crew_result *result)
{
    if (comm->rank == 0) result->status = ls_comm_barrier(comm, "forgotten", &result->why);
}

static void a_rank_that_finished_is_not_waited_for(void)
{
    crew c;
    crew_start(&c, 2, leave_early);
    crew_end(&c);
    CHECK(c.result[1].status == LS_OK);
    check_words(&c, 0, "rank 1 has finished, but rank 0 waits for it in barrier (forgotten, call 2)");
    crew_forget(&c);
}

/* ---- staying away ---- */

static void a_rank_that_never_comes_is_named(void)
{
    ls_message why = {{0}};
    setenv("LOCKSTEP_COMM_TIMEOUT", "1", 1);
    ls_config_reload();
    ls_segment *segment = ls_segment_open(ls_segment_make(2, &why), 2, &why);
    CHECK(!ls_shm_join(segment, 0, &why));
    CHECK_MSG(strstr(why.text, "for rank 1 in barrier (ls_init, call 1)"), "%s", why.text);
    ls_segment_release(segment);
    unsetenv("LOCKSTEP_COMM_TIMEOUT");
    ls_config_reload();
}

/* Rank 0 listens but is stopped: other ranks do not wait longer than their limit. */
static void waiting_for_a_stopped_rank_0_times_out(void)
{
    ls_message why = {{0}};
    char job[64];
    snprintf(job, sizeof job, "stopped %d", (int)getpid());
    pid_t host = fork();
    if (!host) ls_meet(job, 0, 2, 60, NULL, &why), _exit(0);
    usleep(100000);
    kill(host, SIGSTOP);
    pid_t visitor = fork();
    if (!visitor) {
        alarm(60);
        bool failed = ls_meet(job, 1, 2, 1, NULL, &why) < 0 && strstr(why.text, "rank 1 of 2 waited for rank 0");
        _exit(failed ? 0 : 1);
    }
    int status = -1;
    waitpid(visitor, &status, 0);
    CHECK_MSG(status == 0, "ended with %x", status);
    kill(host, SIGKILL);
    waitpid(host, &status, 0);
}

/* Another user can guess the socket name and listen there first. */
static void a_name_taken_by_another_user_is_skipped(void)
{
    if (getuid() != 0) {
        check_skip("needs to be root, to become another user");
        return;
    }
    ls_message why = {{0}};
    char job[64];
    int status = -1, ready[2];
    snprintf(job, sizeof job, "squatted %d", (int)getpid());
    ls_hash hash;
    ls_hash_begin(&hash);
    ls_hash_add(&hash, job, strlen(job));
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "lockstep-0-%016llx-0",
                          (unsigned long long)ls_hash_end(&hash));
    CHECK(pipe(ready) == 0);
    pid_t squatter = fork();
    if (!squatter) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        char good = setuid(65534) == 0 &&
                    bind(fd, (struct sockaddr *)&name,
                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0 &&
                    listen(fd, 8) == 0;
        if (write(ready[1], &good, 1) == 1) pause();
        _exit(0);
    }
    char good = 0;
    CHECK(read(ready[0], &good, 1) == 1 && good);
    pid_t visitor = fork();
    if (!visitor) _exit(ls_meet(job, 1, 2, 60, NULL, &why) >= 0 ? 0 : 1);
    int file = ls_meet(job, 0, 2, 60, NULL, &why);
    CHECK_MSG(file >= 0, "%s", why.text);
    waitpid(visitor, &status, 0);
    CHECK(status == 0);
    kill(squatter, SIGKILL);
    waitpid(squatter, &status, 0);
    close(file);
    close(ready[0]);
    close(ready[1]);
}

/* ---- cancelling ---- */

static void a_stale_cancel_is_ignored(void)
{
    ls_message why = {{0}};
    ls_segment *segment = ls_segment_open(ls_segment_make(2, &why), 2, &why);
    CHECK(ls_segment_cancelled(segment) == -1);
    ls_segment_cancel(segment, 3, 0);
    CHECK(ls_segment_cancelled(segment) == 3);
    atomic_store(&segment->header->resets, 1);
    CHECK(ls_segment_cancelled(segment) == -1);
    ls_segment_cancel(segment, 2, 1);
    ls_segment_cancel(segment, 4, 0); /* sent before the reset */
    CHECK(ls_segment_cancelled(segment) == 2);
    ls_segment_release(segment);
}

/* ---- stopping ---- */

static void stop_until_continued(ls_comm *comm, crew_result *result)
{
    if (comm->rank == 1) kill(getpid(), SIGSTOP);
    result->status = ls_comm_barrier(comm, "with the stopped", &result->why);
    if (comm->rank == 1)
        result->status = ls_comm_barrier(comm, "later", &result->why); /* rank 0 had reached the first */
}

static void waiting_for_a_stopped_rank_times_out(void)
{
    crew c;
    setenv("LOCKSTEP_COMM_TIMEOUT", "5", 1); /* also limits joining */
    ls_config_reload();
    crew_start(&c, 2, stop_until_continued);
    waitpid(c.pid[0], &c.result[0].wait, 0);
    check_words(&c, 0, "for rank 1 in barrier (with the stopped, call 2)");
    check_words(&c, 0, ", which is stopped): barrier (ls_init, call 1), done");
    kill(c.pid[1], SIGCONT);
    waitpid(c.pid[1], &c.result[1].wait, 0);
    crew_check_waited(&c, 1, 5);
    crew_forget(&c);
    unsetenv("LOCKSTEP_COMM_TIMEOUT");
    ls_config_reload();
}

/* ---- failing ---- */

static void fail_alone(ls_comm *comm, crew_result *result)
{
    if (comm->rank == 2) comm->table->abort(comm, "conv2d: channels 3 and 4 differ");
    else result->status = sum(comm, 4096, "wait", &result->why);
    if (comm->rank == 2) result->status = ls_comm_barrier(comm, "too late", &result->why);
}

static void the_first_failure_reaches_all(void)
{
    crew c;
    crew_start(&c, 3, fail_alone);
    crew_end(&c);
    for (int r = 0; r < 3; r++) check_words(&c, r, "rank 2 failed: conv2d: channels 3 and 4 differ");
    crew_forget(&c);
}

/* ---- joining ---- */

static void ranks_and_sizes_must_match(void)
{
    ls_message why = {{0}};
    int file = ls_segment_make(2, &why);
    CHECK(file >= 0);
    CHECK(!ls_segment_open(dup(file), 3, &why));
    CHECK_TEXT(why.text, "the shared memory of this job is for 2 processes of this version, but this job has 3");
    ls_segment *segment = ls_segment_open(file, 2, &why);
    CHECK(segment);
    atomic_store(&segment->header->member[1].state, LS_MEMBER_HERE);
    CHECK(!ls_shm_join(segment, 1, &why));
    CHECK_TEXT(why.text, "rank 1 of this job is taken by process 0");
    ls_segment_release(segment);
    FILE *other = tmpfile();
    CHECK(!ls_segment_open(dup(fileno(other)), 2, &why));
    CHECK(strstr(why.text, "is not memory shared by the processes of a job"));
    fclose(other);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(different_calls_name_both);
    CHECK_RUN(unexpected_sizes_are_noticed);
    CHECK_RUN(messages_are_compared_too);
    CHECK_RUN(invalid_calls_are_refused_before_any_rank_waits);
    CHECK_RUN(a_killed_rank_is_named_at_once);
    CHECK_RUN(a_rank_that_finished_is_not_waited_for);
    CHECK_RUN(a_rank_that_never_comes_is_named);
    CHECK_RUN(waiting_for_a_stopped_rank_0_times_out);
    CHECK_RUN(a_name_taken_by_another_user_is_skipped);
    CHECK_RUN(a_stale_cancel_is_ignored);
    CHECK_RUN(waiting_for_a_stopped_rank_times_out);
    CHECK_RUN(the_first_failure_reaches_all);
    CHECK_RUN(ranks_and_sizes_must_match);
    return check_done();
}
