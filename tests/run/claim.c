/* claim.c - whose a folder is, and what may become of the files in it: one run writes there, and nothing else does. */
#include <lockstep.h>

#include <signal.h>
#include <sys/wait.h>

#include "base/capture.h"
#include "check.h"
#include "folder.h"

#define HOME "claim_test"
#define RECORDS HOME "/runs/records"

static const char *self;

/* Another process that has begun a run in the folder and waits; it ends when `end` is closed. */
typedef struct other {
    pid_t process;
    int end;
} other;

static other begin_other(void)
{
    int begun[2], end[2], epoch;
    char byte = 0;
    CHECK(pipe(begun) == 0 && pipe(end) == 0);
    pid_t process = fork();
    if (process == 0) {
        close(end[1]);
        ls_run *run = ls_init(NULL, NULL, .project_dir = HOME);
        bool ok = ls_epoch(run, 1, &epoch);
        if (write(begun[1], &ok, 1) != 1 || read(end[0], &byte, 1) < 0) _exit(1);
        _exit(ls_finish(run));
    }
    close(end[0]);
    close(begun[1]);
    CHECK(read(begun[0], &byte, 1) == 1 && byte == 1);
    close(begun[0]);
    return (other){process, end[1]};
}

static void expect_refused(ls_run *run, const other *o)
{
    char owner[64];
    snprintf(owner, sizeof owner, "process %d on ", (int)o->process);
    const char *text = ls_error_message(run);
    CHECK_MSG(ls_error(run) == LS_ERR_STATE && strstr(text, "is in use by a run that has not ended") &&
                  strstr(text, owner) && strstr(text, "since 20") && strstr(text, "test_run_claim"),
              "%s", text);
    ls_finish(run);
}

static int begin_second(void)
{
    int epoch;
    ls_run *run = ls_init(NULL, NULL, .project_dir = HOME);
    ls_epoch(run, 1, &epoch);
    return ls_finish(run);
}

/* ... and nothing is said about what is in its folder. */
static void a_refusal_comes_first(void)
{
    folder_fresh(HOME);
    ls_run *run = ls_init(NULL, NULL, .project_dir = HOME);
    CHECK(ls_save_state(run, NULL) && ls_finish(run) == 0);
    other o = begin_other();
    char text[4096];
    CHECK(run_captured(NULL, begin_second, text, sizeof text) != 0);
    CHECK_MSG(strstr(text, "is in use by a run that has not ended") && !strstr(text, "older training"), "%s", text);
    close(o.end);
    waitpid(o.process, NULL, 0);
}

static void another_run_is_named(void)
{
    folder_fresh(HOME);
    other o = begin_other();
    int epoch;
    ls_run *run = ls_init(NULL, NULL, .project_dir = HOME);
    CHECK(!ls_epoch(run, 1, &epoch));
    expect_refused(run, &o);
    run = ls_init(NULL, NULL, .project_dir = HOME);
    CHECK(!ls_save_state(run, NULL));
    expect_refused(run, &o);
    /* a process that is killed leaves the file, and no lock */
    kill(o.process, SIGKILL);
    waitpid(o.process, NULL, 0);
    close(o.end);
    CHECK(access(HOME "/.lockstep", F_OK) == 0);
    run = ls_init(NULL, NULL, .project_dir = HOME);
    CHECK(ls_epoch(run, 1, &epoch) && ls_save_state(run, NULL));
    CHECK(ls_finish(run) == 0 && access(HOME "/.lockstep", F_OK) != 0);
}

/* A run that is about to end is waited for. */
static void the_next_run_takes_over(void)
{
    folder_fresh(HOME);
    other o = begin_other();
    int waits[2];
    char byte = 0;
    CHECK(pipe(waits) == 0);
    pid_t next = fork();
    if (next == 0) {
        int epoch;
        close(o.end);
        if (write(waits[1], &byte, 1) != 1) _exit(1);
        ls_run *run = ls_init(NULL, NULL, .project_dir = HOME);
        bool ok = ls_epoch(run, 1, &epoch);
        _exit(ls_finish(run) || !ok);
    }
    CHECK(read(waits[0], &byte, 1) == 1); /* it is about to */
    close(o.end);
    close(waits[0]);
    close(waits[1]);
    int status = 1;
    waitpid(next, &status, 0);
    CHECK(status == 0);
    waitpid(o.process, &status, 0);
    CHECK(status == 0);
}

static void one_run_may_track_twice_in_a_folder(void)
{
    folder_fresh(HOME);
    ls_run *run = ls_init(NULL, NULL, .project_dir = HOME);
    CHECK(ls_tracker_new(run, "jsonl", .name = "records") && ls_tracker_new(run, "csv", .name = "records"));
    ls_run *second = ls_init(NULL, NULL, .project_dir = HOME);
    CHECK(!ls_tracker_new(second, "jsonl", .name = "records") && ls_error(second) == LS_ERR_STATE);
    ls_finish(second);
    CHECK(ls_finish(run) == 0);
}

static void a_planted_link_is_not_followed(void)
{
    folder_fresh(HOME);
    CHECK(mkdir(HOME "/runs", 0777) == 0 && mkdir(RECORDS, 0777) == 0);
    file_append(HOME "/precious", "mine\n");
    CHECK(symlink("../../precious", RECORDS "/values.jsonl") == 0);
    ls_run *run = ls_init(NULL, NULL, .project_dir = HOME);
    CHECK(!ls_tracker_new(run, "jsonl", .name = "records"));
    CHECK_MSG(strstr(ls_error_message(run), "values.jsonl is a symbolic link; remove it"), "%s", ls_error_message(run));
    ls_finish(run);
    char *text = file_text(HOME "/precious", NULL);
    CHECK_TEXT(text, "mine\n");
    free(text);
}

/* ---- closed descriptors ---- */

/* The program that is started without stdout and stderr; or closes them on its way. */
static int print_and_track(bool closes)
{
    ls_run *run = ls_init(NULL, NULL, .project_dir = HOME);
    if (closes) close(1), close(2);
    ls_tracker_new(run, "all", .name = "records");
    for (int i = 0; i < 3; i++) {
        printf("on stdout\n");
        fflush(stdout);
        fprintf(stderr, "on stderr\n");
        ls_track(run, i, {"loss", 0.5});
    }
    ls_save_state(run, NULL);
    return ls_finish(run);
}

static void what_is_printed_stays_out_of_files(void)
{
    static const char *const ways[] = {"started >&- 2>&-", "started <&- >&- 2>&-", "closes", "started 2>&-"};
    for (int i = 0; i < 4; i++) {
        char command[600];
        folder_fresh(HOME);
        snprintf(command, sizeof command, "'%s' --child %s%s", self, ways[i],
                 strchr(ways[i], '>') ? "" : " >/dev/null");
        CHECK(system(command) == 0);
        CHECK_MSG(system("grep -rq 'on std' " HOME) != 0, "%s", ways[i]);
        char *text = file_text(RECORDS "/values.jsonl", NULL);
        CHECK(text && strncmp(text, "{\"step\"", 7) == 0);
        free(text);
    }
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc > 2 && strcmp(argv[1], "--child") == 0) return print_and_track(strcmp(argv[2], "closes") == 0);
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN_FORK(another_run_is_named);
    CHECK_RUN_FORK(a_refusal_comes_first);
    CHECK_RUN_FORK(the_next_run_takes_over);
    CHECK_RUN(one_run_may_track_twice_in_a_folder);
    CHECK_RUN(a_planted_link_is_not_followed);
    CHECK_RUN(what_is_printed_stays_out_of_files);
    folder_remove(HOME);
    return check_done();
}
