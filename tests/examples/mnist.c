/* mnist.c - the example of that name, run on digits made here: it learns, records and draws. */
#include "examples/mnist_files.h"
#include "folder.h"

#define FOLDER "mnist_test"

enum { TRAIN = 512, TEST = 200 };

static void make_data(void)
{
    folder_fresh(FOLDER);
    mkdir(FOLDER "/data", 0777);
    write_digits(FOLDER "/data", "train", TRAIN);
    write_digits(FOLDER "/data", "t10k", TEST);
}

static void it_learns_records_and_draws(void)
{
    make_data();
    int status =
        system(MNIST " --data_dir " FOLDER "/data --epochs 2 --batch_size 32 --with_tracking --output_dir " FOLDER
                     "/out > " FOLDER "/printed 2> " FOLDER "/said");
    char *printed = file_text(FOLDER "/printed", NULL), *said = file_text(FOLDER "/said", NULL);
    CHECK_MSG(status == 0, "exit status %d: %s", status, said);
    double first = 0, second = 0;
    CHECK_MSG(sscanf(printed, "epoch 0: %lf %% epoch 1: %lf", &first, &second) == 2, "%s", printed);
    CHECK_MSG(second >= 90, "%s", printed);
    CHECK(strstr(said, "train: 16 steps in ") != NULL);
    char *rows = file_text(FOLDER "/out/values.csv", NULL), *picture = file_text(FOLDER "/out/curve.svg", NULL);
    CHECK(rows && strncmp(rows, "step,time,loss,lr,accuracy\n", 27) == 0);
    int lines = 0;
    for (const char *c = rows; c && *c; c++) lines += *c == '\n';
    CHECK_MSG(lines == 1 + 2 * 16 + 2, "%d lines", lines);
    CHECK(picture && strstr(picture, "</svg>"));
    free(printed);
    free(said);
    free(rows);
    free(picture);
}

/* The values that a run in this folder has recorded, from its checkpoint after step 12 of 16 on if it is to resume. */
static char *recorded(const char *flags, const char *folder)
{
    char command[1024], path[256];
    int code;
    snprintf(command, sizeof command,
             MNIST " --data_dir " FOLDER "/data --epochs 1 --batch_size 32 --checkpointing_steps 12 --with_tracking "
                   "--output_dir " FOLDER "/%s %s",
             folder, flags);
    char *said = said_by(command, FOLDER "/said", &code);
    CHECK_MSG(code == 0, "exit status %d: %s", code, said);
    free(said);
    snprintf(path, sizeof path, FOLDER "/%s/values.csv", folder);
    char *rows = file_text(path, NULL);
    return rows ? rows : calloc(1, 1);
}

static void inside_an_epoch_it_counts_on(void)
{
    make_data();
    char *whole = recorded("", "whole");
    char *rest = recorded("--resume_from_checkpoint " FOLDER "/whole/checkpoints/checkpoint_0", "rest");
    CHECK_MSG(strstr(whole, "accuracy\n1,") && strstr(whole, "\n16,"), "%s", whole);
    CHECK_MSG(strstr(rest, "accuracy\n13,") && strstr(rest, "\n16,"), "%s", rest);
    free(whole), free(rest);
    char *sparse = recorded("--gradient_accumulation_steps 8", "sparse");
    CHECK_MSG(strstr(sparse, "accuracy\n1,") && strstr(sparse, "\n2,") && !strstr(sparse, "\n3,"), "%s", sparse);
    CHECK(access(FOLDER "/sparse/checkpoints", F_OK) != 0);
    free(sparse);
}

static void missing_data_is_named(void)
{
    folder_fresh(FOLDER);
    int code;
    char *said = said_by(MNIST " --data_dir " FOLDER "/none", FOLDER "/said", &code);
    CHECK_MSG(code == 1 && strstr(said, FOLDER "/none/train-images-idx3-ubyte"), "%d: %s", code, said);
    free(said);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(it_learns_records_and_draws);
    CHECK_RUN(inside_an_epoch_it_counts_on);
    CHECK_RUN(missing_data_is_named);
    folder_remove(FOLDER);
    return check_done();
}
