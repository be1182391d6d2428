/* pets.c - the example of that name, from a folder of pictures to predictions, interrupted and misused. */
#include <signal.h>
#include <sys/wait.h>

#include "check.h"
#include "folder.h"

#define FOLDER "pets_test"
#define SMALL                                                                                                          \
    " --data_dir " FOLDER "/images --model resnet10t --width 32 --no-freeze --image_size 32 --batch_size 12 --lr 5e-3"
#define OUTPUT " > " FOLDER "/printed 2> " FOLDER "/said"

static char *printed, *said;

/* Run a command; what it wrote is in `printed` and `said` until the next one. Returns its exit code. */
static int run(const char *command)
{
    free(printed);
    free(said);
    int status = system(command);
    printed = file_text(FOLDER "/printed", NULL);
    said = file_text(FOLDER "/said", NULL);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void from_folder_to_prediction(void)
{
    int code = run(PETS SMALL " --epochs 2 --with_tracking --output_dir " FOLDER "/out" OUTPUT);
    CHECK_MSG(code == 0, "%s", said);
    CHECK_MSG(strstr(printed, "epoch 0: ") && strstr(printed, "epoch 1: "), "%s", printed);
    char *rows = file_text(FOLDER "/out/runs/records/values.csv", NULL);
    CHECK(rows && strstr(rows, "loss") && strstr(rows, "accuracy"));
    free(rows);
    CHECK(run(PETS " --output_dir " FOLDER "/out --predict " FOLDER "/images/beagle_3.jpg" OUTPUT) == 0);
    CHECK_MSG(strstr(printed, FOLDER "/images/beagle_3.jpg: ") == printed && strstr(printed, " %)\n"), "%s", printed);
    CHECK(run(LOCKSTEP_COMMAND " inspect " FOLDER "/out/model.safetensors" OUTPUT) == 0);
    CHECK_MSG(strstr(printed, "abyssinian_cat/beagle/"), "%s", printed);
}

/* Stopped after the first epoch's checkpoint and resumed, it ends with the numbers of a training that went through. */
static void resumes_where_it_stood(void)
{
    CHECK(run(PETS SMALL " --epochs 2 --output_dir " FOLDER "/whole" OUTPUT) == 0);
    char *whole = printed;
    printed = NULL;
    CHECK(run(PETS SMALL " --epochs 2 --checkpointing_steps 2 --output_dir " FOLDER "/parts" OUTPUT) == 0);
    CHECK_TEXT(printed, whole);
    CHECK(run(PETS SMALL " --epochs 2 --resume_from_checkpoint latest --output_dir " FOLDER "/parts" OUTPUT) == 0);
    CHECK_MSG(strncmp(printed, "epoch 1: ", 9) == 0 && strstr(whole, printed), "%s", printed);
    CHECK_MSG(!strstr(said, "warning"), "%s", said);
    free(whole);
}

/* As a pod that is preempted: told to end, it saves the step it has made, and says by its code that it may be started
 * again. */
static void saves_when_it_is_told_to_end(void)
{
#define LONG PETS SMALL " --epochs 12 --with_tracking --output_dir " FOLDER
    CHECK(run(LONG "/long" OUTPUT) == 0);
    /* The row of step 2: the program listens to signals from the first step on that asks whether it should stop. */
    int code =
        run(LONG "/told" OUTPUT " & while ! grep -qs ^2, " FOLDER "/told/runs/records/values.csv; do sleep 0.01; "
                 "done; kill -TERM $!; wait $!");
    CHECK_MSG(code == 128 + SIGTERM, "%d: %s", code, said);
    CHECK(run(LONG "/told --resume_from_checkpoint latest" OUTPUT) == 0);
    CHECK_MSG(!strstr(said, "warning"), "%s", said);
    CHECK(run("cmp " FOLDER "/long/model.safetensors " FOLDER "/told/model.safetensors" OUTPUT) == 0);
#undef LONG
}

/* Other options than before, or none of the checkpoints there: said, not guessed. */
static void what_changes_is_said(void)
{
    CHECK(run(PETS SMALL " --epochs 3 --resume_from_checkpoint latest --output_dir " FOLDER "/parts" OUTPUT) == 0);
    CHECK_MSG(strstr(said, "was saved with epochs: 2; this run continues with 3"), "%s", said);
    CHECK(run(PETS SMALL " --freeze --epochs 2 --resume_from_checkpoint latest --output_dir " FOLDER "/parts" OUTPUT) ==
          0);
    CHECK_MSG(strstr(said, "was saved with parameters frozen at the beginning: none, which is restored"), "%s", said);
    CHECK(run(PETS SMALL " --epochs 1 --checkpointing_steps 2 --output_dir " FOLDER "/parts" OUTPUT) == 0);
    CHECK_MSG(strstr(said,
                     "/parts/checkpoints holds an older training, up to checkpoint_4, from which this one does not "
                     "resume: its own checkpoints start with checkpoint_5, and only the latest 2 of all are kept"),
              "%s", said);
}

/* Two processes with half the batch each make as many steps as one; either goes on where the other stopped. */
static void processes_share_the_work(void)
{
#define HALF " --data_dir " FOLDER "/images --model resnet10t --width 32 --no-freeze --image_size 32 --batch_size 6"
    CHECK_MSG(run(LOCKSTEP_COMMAND " launch -n 2 " PETS HALF
                                   " --epochs 2 --checkpointing_steps epoch --output_dir " FOLDER "/two" OUTPUT) == 0,
              "%s", said);
    CHECK_MSG(strstr(printed, "epoch 0: ") && strstr(printed, "epoch 1: "), "%s", printed);
    CHECK_MSG(strstr(said, "train: 5 steps"), "%s", said);
    CHECK_MSG(run(PETS SMALL " --epochs 3 --resume_from_checkpoint latest --output_dir " FOLDER "/two" OUTPUT) == 0,
              "%s", said);
    CHECK_MSG(strncmp(printed, "epoch 2: ", 9) == 0, "%s", printed);
    CHECK_MSG(strstr(said, "train: 5 steps"), "%s", said);
#undef HALF
}

/* Three steps of two, two and one batch: what happens every step does not happen in between. */
static void steps_of_several_batches_are_saved_once(void)
{
    CHECK(run(PETS SMALL " --epochs 1 --gradient_accumulation_steps 2 --checkpointing_steps 1 --with_tracking"
                         " --output_dir " FOLDER "/several" OUTPUT) == 0);
    CHECK_MSG(strstr(said, "train: 5 steps"), "%s", said);
    CHECK(access(FOLDER "/several/checkpoints/checkpoint_2", F_OK) == 0);
    CHECK(access(FOLDER "/several/checkpoints/checkpoint_3", F_OK) != 0);
    char *lines = file_text(FOLDER "/several/runs/records/values.jsonl", NULL);
    int losses = 0;
    for (const char *at = lines; at && (at = strstr(at, "\"loss\"")); at++) losses++;
    CHECK(losses == 3);
    free(lines);
}

static void bad_files_are_named_or_left_out(void)
{
    file_append(FOLDER "/images/beagle_999.jpg", "GIF89a, and no more");
    CHECK(run(PETS SMALL " --epochs 1 --output_dir " FOLDER "/bad" OUTPUT) == 1);
    CHECK_MSG(strstr(said, "beagle_999.jpg") && strstr(said, "GIF"), "%s", said);
    CHECK_MSG(strstr(said, "pets: --skip_bad skips damaged files"), "%s", said);
    CHECK_MSG(run(PETS SMALL " --epochs 1 --skip_bad --output_dir " FOLDER "/bad" OUTPUT) == 0, "%s", said);
    remove(FOLDER "/images/beagle_999.jpg");
}

/* A photo that cannot be read does not keep the others from being looked at; labels may be sub-folders. */
static void every_photo_is_looked_at(void)
{
    CHECK(run("mkdir -p " FOLDER "/sub/beagle " FOLDER "/sub/goldfish; cp " FOLDER "/images/beagle_* " FOLDER
              "/sub/beagle; cp " FOLDER "/images/goldfish_* " FOLDER "/sub/goldfish" OUTPUT) == 0);
    CHECK_MSG(run(PETS SMALL " --data_dir " FOLDER "/sub --by_folder --epochs 1 --output_dir " FOLDER "/by" OUTPUT) ==
                  0,
              "%s", said);
    CHECK(run(PETS " --output_dir " FOLDER "/by --predict " FOLDER "/none.jpg " FOLDER
                   "/images/goldfish_1.jpg" OUTPUT) == 1);
    CHECK_MSG(strstr(said, "none.jpg") && strstr(printed, "goldfish_1.jpg: "), "%s%s", said, printed);
}

static void misuse_is_explained(void)
{
    CHECK(run(PETS SMALL " --batch_size 0" OUTPUT) == 1);
    CHECK(run(PETS SMALL " --image_size 4294967328" OUTPUT) == 1);
    CHECK_MSG(strstr(said, "--image_size"), "%s", said);
    CHECK(run(PETS SMALL " --checkpointing_steps sometimes" OUTPUT) == 1);
    CHECK_MSG(strstr(said, "\"epoch\""), "%s", said);
    CHECK(run(PETS " --batchsize 3" OUTPUT) == 1);
    CHECK_MSG(strstr(said, "did you mean --batch_size"), "%s", said);
    CHECK(run(PETS " --data_dir " FOLDER "/none" OUTPUT) == 1);
    CHECK_MSG(strstr(said, FOLDER "/none"), "%s", said);
    CHECK(run(PETS " --output_dir " FOLDER "/none --predict " FOLDER "/images/beagle_3.jpg" OUTPUT) == 1);
    CHECK_MSG(strstr(said, FOLDER "/none"), "%s", said);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    folder_fresh(FOLDER);
    if (run(DRAW_PETS " " FOLDER "/images 12" OUTPUT) != 0)
        snprintf(check_skip_all, sizeof check_skip_all, "%.*s", (int)strcspn(said, "\n"), said); /* no libjpeg */
    CHECK_RUN(from_folder_to_prediction);
    CHECK_RUN(resumes_where_it_stood);
    CHECK_RUN(saves_when_it_is_told_to_end);
    CHECK_RUN(what_changes_is_said);
    CHECK_RUN(processes_share_the_work);
    CHECK_RUN(steps_of_several_batches_are_saved_once);
    CHECK_RUN(bad_files_are_named_or_left_out);
    CHECK_RUN(every_photo_is_looked_at);
    CHECK_RUN(misuse_is_explained);
    free(printed);
    free(said);
    folder_remove(FOLDER);
    return check_done();
}
