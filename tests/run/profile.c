/* profile.c - a profile counts what happened, names modules, and leaves nothing behind. */
#include <lockstep/comm.h>
#include <lockstep/data.h>
#include <lockstep/nn.h>
#include <lockstep/ops.h>
#include <lockstep/profile.h>

#include <math.h>
#include <sys/wait.h>

#include "base/json.h"
#include "base/spans.h"
#include "check.h"
#include "folder.h"
#include "run/team.h"

#define FOLDER "profile_test"
#define CHECK_HAS(text, part) CHECK_MSG(strstr(text, part), "\"%s\" lacks \"%s\"", text, part)

/* What is written to standard error between the two; free() it. */
static int real_stderr;
static void capture_begin(void)
{
    fflush(stderr);
    real_stderr = dup(2);
    FILE *file = fopen(FOLDER "/said", "w");
    dup2(fileno(file), 2);
    fclose(file);
}
static char *capture_end(void)
{
    fflush(stderr);
    dup2(real_stderr, 2);
    close(real_stderr);
    return file_text(FOLDER "/said", NULL);
}

static ls_json *trace_of(const char *folder)
{
    char path[200];
    size_t size = 0;
    ls_message why = {{0}};
    snprintf(path, sizeof path, "%s/trace.json", folder);
    char *text = file_text(path, &size);
    ls_json *root = text ? ls_json_read(text, size, &why) : NULL;
    CHECK_MSG(root, "%s: %s", path, why.text);
    free(text);
    return root;
}

/* Events of a process with this name, and in `module` unless that is NULL. */
static int events_named(const ls_json *trace, int rank, const char *name, const char *module)
{
    int found = 0;
    for (const ls_json *e = ls_json_first(ls_json_get(trace, "traceEvents")); e; e = e->next) {
        CHECK_MSG(ls_json_get(e, "pid") && ls_json_get(e, "tid"), "an event has no process or thread");
        const char *place = ls_json_text(ls_json_get(ls_json_get(e, "args"), "module"));
        bool here = !module || (place && strcmp(place, module) == 0);
        found += here && ls_json_integer(ls_json_get(e, "pid"), -1) == rank &&
                 strcmp(ls_json_text(ls_json_get(e, "name")), name) == 0;
    }
    return found;
}

/* A time that a reader, who multiplies by 1000 and cuts off the rest, gets exactly. */
static bool is_nanoseconds(double microseconds)
{
    double exact = round(microseconds * 1e3);
    return nextafter(microseconds, INFINITY) - microseconds < 1e-4 && floor(microseconds * 1e3) == exact;
}

static void every_operator_is_counted_and_named(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    ls_module *model = ls_sequential_new(run, ls_linear_new(run, 8, 4), ls_linear_new(run, 4, 1));
    ls_tensor *x = ls_ones(run, LS_F32, 2, 8);
    ls_forward(model, x); /* before the profile */
    capture_begin();
    ls_profile(run, .folder = FOLDER "/a")
    {
        for (int i = 0; i < 5; i++) ls_backward(run, ls_sum(ls_forward(model, x)));
        ls_add(x, x);
    }
    char *said = capture_end();
    ls_add(x, x); /* after it */
    CHECK(ls_finish(run) == 0);
    ls_json *trace = trace_of(FOLDER "/a");
    CHECK(events_named(trace, 0, "linear", NULL) == 10);
    CHECK(events_named(trace, 0, "linear", "Sequential.1") == 5);
    CHECK(events_named(trace, 0, "linear_grad", "Sequential.1") == 5); /* backward knows the module too */
    CHECK(events_named(trace, 0, "add", NULL) == 1);
    const ls_json *last = NULL;
    for (const ls_json *e = ls_json_first(ls_json_get(trace, "traceEvents")); e; e = e->next) {
        if (strcmp(ls_json_text(ls_json_get(e, "ph")), "X") != 0) continue;
        double began = ls_json_number(ls_json_get(e, "ts"), 0), time = ls_json_number(ls_json_get(e, "dur"), -1);
        CHECK(time > 0 && (!last || began > ls_json_number(ls_json_get(last, "ts"), 0)));
        CHECK(is_nanoseconds(began) && is_nanoseconds(time));
        last = e;
    }
    ls_json_free(trace);
    char *tables = file_text(FOLDER "/a/profile.txt", NULL);
    CHECK_HAS(tables, "rank 0 of 1 on ");
    CHECK_HAS(tables, "\nlinear                                    10 ");
    CHECK_HAS(tables, "\nSequential.1                              1");
    CHECK_HAS(said, "\nlinear                                    10 ");
    CHECK_HAS(said, FOLDER "/a/trace.json");
    free(tables);
    free(said);
}

static void an_average_of_parameters_is_told_from_an_optimiser(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    ls_ema *ema = ls_ema_new(ls_linear_new(run, 2, 2));
    ls_profile(run, .folder = FOLDER "/ema") ls_ema_update(ema);
    ls_json *trace = trace_of(FOLDER "/ema");
    CHECK(events_named(trace, 0, "sgd_step", "ema") == 2);
    ls_json_free(trace);
    ls_finish(run);
}

static void afterwards_nothing_is_measured(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    void *before = (void *)(uintptr_t)run->device->table.run;
    capture_begin();
    ls_profile(run, .folder = FOLDER "/b") CHECK((void *)(uintptr_t)run->device->table.run != before);
    free(capture_end());
    CHECK((void *)(uintptr_t)run->device->table.run == before);
    CHECK(ls_spans_clock() == 0);
    CHECK(ls_finish(run) == 0);
}

static bool slow_sample(int64_t index, ls_sample *sample, void *user)
{
    (void)user;
    usleep(2000);
    *(float *)ls_sample_field(sample, 0) = (float)index;
    return true;
}

static void waiting_for_data_is_its_own_row(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    ls_dataset *set = ls_dataset_new(run, .count = 20, .get = slow_sample, .fields = {{.name = "x", .dtype = LS_F32}});
    ls_loader *loader = ls_loader_new(run, set, .batch = 4, .workers = 0);
    capture_begin();
    ls_profile(run, .folder = FOLDER "/c") for (ls_batch b; ls_next(loader, &b);)
    {
    }
    free(capture_end());
    CHECK(ls_finish(run) == 0);
    ls_json *trace = trace_of(FOLDER "/c");
    double waited = 0;
    for (const ls_json *e = ls_json_first(ls_json_get(trace, "traceEvents")); e; e = e->next)
        if (strcmp(ls_json_text(ls_json_get(e, "name")), "wait: batch") == 0)
            waited += ls_json_number(ls_json_get(e, "dur"), 0);
    CHECK_MSG(waited >= 20 * 2000, "%g us", waited);
    ls_json_free(trace);
}

static void add_up_together(ls_run *run)
{
    CHECK(freopen("/dev/null", "w", stderr));
    ls_profile(run, .folder = FOLDER "/d")
    {
        ls_tensor *x = ls_ones(run, LS_F32, 1000);
        for (int i = 0; i < 3; i++) ls_reduce(run, x, LS_REDUCE_SUM);
    }
}

/* What a larger job that crashed has left there is not of this one. */
static void all_processes_are_in_one_timeline(void)
{
    folder_fresh(FOLDER "/d");
    file_append(FOLDER "/d/rank_3_of_4.events", "{\"name\":\"crashed\",\"pid\":3},\n");
    file_append(FOLDER "/d/rank_3_of_4.tables", "rank 3 of 4");
    team_fork(2, add_up_together);
    ls_json *trace = trace_of(FOLDER "/d");
    for (int rank = 0; rank < 2; rank++) {
        CHECK(events_named(trace, rank, "all-reduce", NULL) >= 3);
        CHECK(events_named(trace, rank, "process_name", NULL) == 1);
    }
    ls_json_free(trace);
    char *tables = file_text(FOLDER "/d/profile.txt", NULL);
    CHECK_HAS(tables, "rank 0 of 2");
    CHECK_HAS(tables, "rank 1 of 2");
    CHECK_HAS(tables, "waiting for other processes");
    CHECK(!strstr(tables, "rank 3 of 4"));
    free(tables);
    CHECK(access(FOLDER "/d/rank_0_of_2.events", F_OK) != 0 && access(FOLDER "/d/rank_3_of_4.events", F_OK) != 0);
    CHECK(access(FOLDER "/d/rank_3_of_4.tables", F_OK) != 0);
}

static int64_t calls_named(const ls_span_lane *lane, const char *name)
{
    int64_t calls = 0;
    for (int32_t i = 0; i < lane->total_count; i++)
        if (strcmp(lane->totals[i].name, name) == 0) calls += lane->totals[i].count;
    return calls;
}

static void add_up_in_a_group(ls_run *run)
{
    ls_tensor *x = ls_ones(run, LS_F32, 1000);
    ls_all_reduce(ls_comm_of(run), x, LS_REDUCE_SUM); /* opens the group */
    if (ls_is_main(run)) CHECK(ls_spans_begin() == LS_OK);
    for (int i = 0; i < 3; i++) ls_all_reduce(ls_comm_of(run), x, LS_REDUCE_SUM);
    ls_spans *spans = ls_is_main(run) ? ls_spans_end() : NULL;
    if (!spans) return;
    CHECK(calls_named(&spans->program, "all-reduce") == 3 && calls_named(&spans->program, "all-gather") == 0);
    ls_spans_free(spans);
}

/* How processes agree on a call is part of it. */
static void a_collective_of_devices_counts_once(void)
{
    team_device = GROUPED_DEVICE;
    team_run(2, add_up_in_a_group);
    team_device = NULL;
}

static void an_asynchronous_device_is_said_to_be_one(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = ASYNC_DEVICE);
    capture_begin();
    ls_profile(run, .folder = FOLDER "/e") ls_item(ls_sum(ls_ones(run, LS_F32, 10)));
    char *said = capture_end();
    CHECK_HAS(said, "submitting them");
    CHECK_HAS(said, "waiting for it");
    free(said);
    CHECK_MSG(ls_finish(run) == 0, "device");
    ls_json *trace = trace_of(FOLDER "/e");
    CHECK(events_named(trace, 0, "wait: device", NULL) >= 1);
    ls_json_free(trace);
}

static void totals_are_complete_when_the_timeline_is_full(void)
{
    CHECK(ls_spans_begin() == LS_OK);
    CHECK(ls_spans_begin() == LS_ERR_STATE);
    for (int i = 0; i < LS_SPANS_MOST + 10; i++)
        ls_spans_add(LS_SPAN_OPERATOR, i % 2 ? "odd" : "even", NULL, ls_spans_clock());
    ls_spans *spans = ls_spans_end();
    CHECK(spans->program.count == LS_SPANS_MOST && spans->program.dropped == 10);
    CHECK(spans->program.total_count == 2 && spans->program.totals[1].count == LS_SPANS_MOST / 2 + 5);
    ls_spans_free(spans);
    CHECK(!ls_spans_end());
}

static void take_runs(int first, int last)
{
    setenv("LOCKSTEP_PROFILE", FOLDER "/runs", 1);
    CHECK(freopen("/dev/null", "w", stderr));
    for (int i = first; i <= last; i++) {
        ls_run *run = ls_init(NULL, NULL, .device = "cpu");
        ls_tensor *x = ls_ones(run, LS_F32, 4);
        ls_profile(run, .folder = FOLDER "/block") for (int j = 0; j < i; j++) ls_add(x, x); /* part of the whole */
        if (ls_finish(run) != 0) _exit(1);
    }
    _exit(0);
}

static void every_run_of_a_process_keeps_its_profile(void)
{
    static const char *const folders[] = {FOLDER "/runs", FOLDER "/runs/run_2", FOLDER "/runs/run_3"};
    for (int i = 0; i < 2; i++) { /* two programs: one with two runs, one with a third */
        int status = -1;
        pid_t process = fork();
        if (process == 0) take_runs(i ? 3 : 1, i ? 3 : 2);
        CHECK(waitpid(process, &status, 0) == process && status == 0);
    }
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    for (int i = 0; i < 3; i++) CHECK(ls_profile_join(run, folders[i]));
    CHECK(ls_finish(run) == 0);
    CHECK(access(FOLDER "/block", F_OK) != 0);
    for (int i = 0; i < 3; i++) {
        ls_json *trace = trace_of(folders[i]);
        CHECK(events_named(trace, 0, "add", NULL) == i + 1);
        ls_json_free(trace);
    }
}

static void leave_part(const char *part)
{
    char path[100];
    snprintf(path, sizeof path, FOLDER "/parts/%s.events", part);
    file_append(path, "");
    snprintf(path, sizeof path, FOLDER "/parts/%s.tables", part);
    file_append(path, part);
}

static void ranks_without_a_profile_are_named(void)
{
    folder_fresh(FOLDER "/parts");
    leave_part("rank_10_of_12"), leave_part("rank_0_of_12"), leave_part("rank_2_of_12");
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    capture_begin();
    CHECK(ls_profile_join(run, FOLDER "/parts"));
    char *said = capture_end(), *tables = file_text(FOLDER "/parts/profile.txt", NULL);
    CHECK_HAS(said, "lacks the profiles of rank 1, 3, 4, 5, 6, 7, 8, 9, 11 of 12");
    CHECK_TEXT(tables, "rank_0_of_12rank_2_of_12rank_10_of_12");
    free(said), free(tables);
    leave_part("rank_999_of_1000");
    capture_begin();
    CHECK(ls_profile_join(run, FOLDER "/parts"));
    said = capture_end();
    CHECK_HAS(said, "lacks the profiles of rank 0, 1, 2, 3,");
    CHECK_HAS(said, ", ... of 1000");
    free(said);
    CHECK(ls_finish(run) == 0);
}

/* What a process has left is lost neither if it was killed before it had written all, nor if joining fails. */
static void a_part_is_whole_and_kept_until_it_is_joined(void)
{
    folder_fresh(FOLDER "/whole");
    mkdir(FOLDER "/whole/rank_0_of_1.tables", 0777); /* so that they cannot be written */
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    ls_profile(run, .folder = FOLDER "/whole") ls_ones(run, LS_F32, 4);
    CHECK(ls_error(run) == LS_ERR_IO && access(FOLDER "/whole/rank_0_of_1.events", F_OK) != 0);
    ls_clear_error(run);
    folder_fresh(FOLDER "/parts");
    leave_part("rank_0_of_1");
    mkdir(FOLDER "/parts/trace.json", 0777);
    CHECK(!ls_profile_join(run, FOLDER "/parts"));
    CHECK_HAS(ls_error_message(run), "trace.json");
    ls_clear_error(run);
    rmdir(FOLDER "/parts/trace.json");
    CHECK(ls_profile_join(run, FOLDER "/parts"));
    CHECK(access(FOLDER "/parts/rank_0_of_1.events", F_OK) != 0 &&
          access(FOLDER "/parts/rank_0_of_1.tables", F_OK) != 0);
    CHECK(ls_finish(run) == 0);
}

static void mistakes_are_named(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    CHECK(!ls_profile_join(run, NULL));
    CHECK_HAS(ls_error_message(run), "the folder is NULL");
    ls_clear_error(run);
    CHECK(!ls_profile_join(run, "no_such_folder"));
    CHECK_HAS(ls_error_message(run), "no_such_folder");
    ls_clear_error(run);
    folder_fresh(FOLDER "/f");
    CHECK(!ls_profile_join(run, FOLDER "/f"));
    CHECK_HAS(ls_error_message(run), "no process has left a profile");
    CHECK(ls_error(run) == LS_ERR_STATE);
    ls_clear_error(run);
    ls_profile_begin(run, .folder = FOLDER "/g");
    ls_profile_begin(run, .folder = FOLDER "/h");
    CHECK_HAS(ls_error_message(run), "profiled already");
    ls_clear_error(run);
    capture_begin();
    ls_profile_end(run);
    free(capture_end());
    ls_profile_end(run); /* does nothing */
    ls_profile_begin(run, .folder = "");
    CHECK_HAS(ls_error_message(run), "no name");
    ls_clear_error(run);
    CHECK(ls_finish(run) == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    folder_fresh(FOLDER);
    CHECK_RUN_FORK(every_run_of_a_process_keeps_its_profile); /* first: settings are read once */
    CHECK_RUN_FORK(all_processes_are_in_one_timeline);
    CHECK_RUN(every_operator_is_counted_and_named);
    CHECK_RUN(an_average_of_parameters_is_told_from_an_optimiser);
    CHECK_RUN(afterwards_nothing_is_measured);
    CHECK_RUN(waiting_for_data_is_its_own_row);
    CHECK_RUN(a_collective_of_devices_counts_once);
    CHECK_RUN(an_asynchronous_device_is_said_to_be_one);
    CHECK_RUN(totals_are_complete_when_the_timeline_is_full);
    CHECK_RUN(ranks_without_a_profile_are_named);
    CHECK_RUN(a_part_is_whole_and_kept_until_it_is_joined);
    CHECK_RUN(mistakes_are_named);
    folder_remove(FOLDER);
    return check_done();
}
