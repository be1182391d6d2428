/* mnist.c - the example of that name, run on digits made here: it learns, records and draws. */
#include <stdint.h>

#include "check.h"
#include "folder.h"

#define FOLDER "mnist_test"

enum { SIDE = 28, TRAIN = 512, TEST = 200 };

/* idx files: a magic number that tells type and dimensions, the sizes, the bytes. */
static void write_u32(FILE *file, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8) fputc((int)(value >> shift & 0xff), file);
}

/* "Digit" d is a bright block in one of ten places, on noise. */
static void write_digits(const char *which, uint32_t count)
{
    char path[256];
    snprintf(path, sizeof path, FOLDER "/data/%s-images-idx3-ubyte", which);
    FILE *images = fopen(path, "wb");
    snprintf(path, sizeof path, FOLDER "/data/%s-labels-idx1-ubyte", which);
    FILE *labels = fopen(path, "wb");
    write_u32(images, 0x803);
    write_u32(labels, 0x801);
    for (int i = 0; i < 3; i++) write_u32(images, i ? SIDE : count);
    write_u32(labels, count);
    uint32_t random = count;
    for (uint32_t i = 0; i < count; i++) {
        int digit = (int)(i * 7 % 10), left = digit % 5 * 5 + 1, top = digit / 5 * 12 + 3;
        fputc(digit, labels);
        for (int y = 0; y < SIDE; y++) {
            for (int x = 0; x < SIDE; x++) {
                random = random * 1664525u + 1013904223u;
                bool bright = x >= left && x < left + 5 && y >= top && y < top + 9;
                fputc((int)(random >> 26) + (bright ? 150 : 0), images);
            }
        }
    }
    fclose(images);
    fclose(labels);
}

static void make_data(void)
{
    folder_fresh(FOLDER);
    mkdir(FOLDER "/data", 0777);
    write_digits("train", TRAIN);
    write_digits("t10k", TEST);
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
