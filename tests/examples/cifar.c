/* cifar.c - the example of that name, on pictures it makes and on files in CIFAR-10's format. */
#include <sys/wait.h>

#include "check.h"
#include "folder.h"

#define FOLDER "cifar_test"

static void it_learns_and_keeps_the_best(void)
{
    folder_fresh(FOLDER);
    int status =
        system(CIFAR " --blocks 1 --epochs 4 --made_pictures 1200 --batch_size 32 --ema_decay 0.8 --output_dir " FOLDER
                     "/out > " FOLDER "/printed 2> " FOLDER "/said");
    char *printed = file_text(FOLDER "/printed", NULL), *said = file_text(FOLDER "/said", NULL);
    CHECK_MSG(status == 0, "exit status %d: %s", status, said);
    const char *last = strstr(printed, "epoch 3: ");
    CHECK_MSG(last && atof(last + 9) >= 60, "%s", printed);
    CHECK(access(FOLDER "/out/best/model.safetensors", R_OK) == 0 && access(FOLDER "/out/augmented.png", R_OK) == 0);
    free(printed);
    free(said);
}

static void files_are_read_and_missing_ones_named(void)
{
    folder_fresh(FOLDER);
    mkdir(FOLDER "/data", 0777);
    static unsigned char records[40 * 3073];
    for (int i = 0; i < 40; i++) records[i * 3073] = (unsigned char)(i % 10);
    for (int i = 1; i <= 5; i++) {
        char path[256];
        snprintf(path, sizeof path, FOLDER "/data/data_batch_%d.bin", i);
        FILE *file = fopen(path, "wb");
        CHECK(fwrite(records, sizeof records, 1, file) == 1);
        fclose(file);
    }
    int status = system(CIFAR " --data_dir " FOLDER "/data --output_dir " FOLDER "/out 2> " FOLDER "/said");
    char *said = file_text(FOLDER "/said", NULL);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    CHECK_MSG(strstr(said, FOLDER "/data/test_batch.bin cannot be read"), "%s", said);
    free(said);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(it_learns_and_keeps_the_best);
    CHECK_RUN(files_are_read_and_missing_ones_named);
    return check_done();
}
