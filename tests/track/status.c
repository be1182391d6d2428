/* status.c - signs of life of a run: they are there while it runs, say what each process does, and how it ended. */
#include <lockstep/data.h>
#include <lockstep/nn.h>
#include <lockstep/ops.h>
#include <lockstep/track.h>

#include "base/json.h"
#include "check.h"
#include "folder.h"
#include "run/team.h"

#define FOLDER "status_test"

static ls_json *status_now(void)
{
    size_t size;
    char *text = file_text(FOLDER "/status.json", &size);
    CHECK(text);
    ls_json *root = text ? ls_json_read(text, size, &(ls_message){{0}}) : NULL;
    free(text);
    CHECK(root);
    return root;
}

static void check_state(const char *state)
{
    ls_json *status = status_now();
    CHECK_TEXT(ls_json_text(ls_json_get(status, "state")), state);
    for (const ls_json *rank = ls_json_first(ls_json_get(status, "ranks")); rank; rank = rank->next)
        CHECK_TEXT(ls_json_text(ls_json_get(rank, "state")), state);
    ls_json_free(status);
}

static void a_run_says_that_it_runs_and_how_it_ended(void)
{
    folder_fresh(FOLDER);
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    ls_tracker *tracker = ls_tracker_new(run, "csv", .project_dir = FOLDER, .name = ".");
    check_state("running");
    ls_tracker_free(tracker);
    check_state("finished");
    ls_tracker_new(run, "csv", .project_dir = FOLDER, .name = ".");
    check_state("running");
    ls_set_error(run, LS_ERR_VALUE, "the sky is falling");
    CHECK(ls_finish(run) == 1);
    ls_json *status = status_now();
    CHECK_TEXT(ls_json_text(ls_json_get(status, "state")), "failed");
    CHECK_TEXT(ls_json_text(ls_json_get(status, "error")), "the sky is falling");
    ls_json_free(status);
}

/* Wait until a member of the status is a number above a limit. */
static ls_json *status_when(const char *key, double above)
{
    ls_json *status = status_now();
    while (!(ls_json_number(ls_json_get(status, key), 0) > above)) {
        ls_json_free(status);
        usleep(50000);
        status = status_now();
    }
    return status;
}

static void steps_samples_memory_and_checkpoints_are_counted(void)
{
    enum { SAMPLES = 64, BATCH = 8 };
    folder_fresh(FOLDER);
    ls_run *run = ls_init(NULL, NULL, .device = "cpu", .project_dir = FOLDER);
    ls_tracker_new(run, "jsonl", .project_dir = FOLDER, .name = ".");
    ls_tensor *x = ls_keep(ls_randn(run, LS_F32, SAMPLES, 4));
    ls_dataset *data = ls_tensor_dataset_new(run, x);
    ls_loader *loader = ls_loader_new(run, data, .batch = BATCH);
    ls_module *model = ls_linear_new(run, 4, 1);
    int64_t step = 0;
    for (ls_batch b; ls_next(loader, &b); step++) {
        ls_backward(run, ls_mean(ls_forward(model, b.image)));
        ls_track(run, step, {"loss", 1});
    }
    ls_save_state(run, NULL);
    ls_json *status = status_when("samples_per_second", 0);
    CHECK(ls_json_integer(ls_json_get(status, "step"), 0) == step - 1);
    CHECK(ls_json_integer(ls_json_get(status, "device_memory_peak"), 0) >= SAMPLES * 4 * 4);
    const ls_json *rank = ls_json_first(ls_json_get(status, "ranks"));
    CHECK(ls_json_integer(ls_json_get(rank, "process"), 0) == getpid());
    CHECK(ls_json_integer(ls_json_get(rank, "memory"), 0) > 1 << 20);
    const ls_json *checkpoint = ls_json_first(ls_json_get(status, "checkpoints"));
    CHECK_TEXT(ls_json_text(ls_json_get(checkpoint, "name")), "checkpoint_0");
    ls_json_free(status);
    CHECK(ls_finish(run) == 0);
    ls_run *reader = ls_init(NULL, NULL, .device = "cpu");
    ls_curve memory = ls_history_find(ls_history_read(reader, FOLDER "/system.jsonl"), "memory MB");
    CHECK(memory.count >= 1 && memory.y[0] > 1);
    CHECK(ls_finish(reader) == 0);
}

/* Rank 1 comes late to a barrier in which rank 0 waits. */
static void wait_for_each_other(ls_run *run)
{
    ls_tracker_new(run, "jsonl", .project_dir = FOLDER, .name = ".");
    ls_wait_for_everyone(run);
    for (bool seen = ls_rank(run) == 0; !seen;) {
        ls_json *status = status_now();
        CHECK(ls_json_integer(ls_json_get(status, "world"), 0) == 2);
        const ls_json *waiting = ls_json_first(ls_json_get(status, "ranks")), *late = waiting->next;
        seen = ls_json_number(ls_json_get(waiting, "waits"), 0) > 0;
        if (seen) {
            CHECK(ls_json_integer(ls_json_get(late, "rank"), 0) == 1);
            CHECK(ls_json_number(ls_json_get(late, "waits"), 1) == 0);
            CHECK(strstr(ls_json_text(ls_json_get(waiting, "last")), "in it for"));
            CHECK(strstr(ls_json_text(ls_json_get(late, "last")), "done"));
        }
        ls_json_free(status);
        usleep(50000);
    }
    ls_wait_for_everyone(run);
}

static void a_rank_that_waits_in_a_collective_is_seen(void)
{
    folder_fresh(FOLDER);
    team_run(2, wait_for_each_other);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(a_run_says_that_it_runs_and_how_it_ended);
    CHECK_RUN(steps_samples_memory_and_checkpoints_are_counted);
    CHECK_RUN_FORK(a_rank_that_waits_in_a_collective_is_seen);
    folder_remove(FOLDER);
    return check_done();
}
