/* cifar.c - the example of that name, on pictures it makes and on files in CIFAR-10's format. */
#include "check.h"
#include "folder.h"

#define FOLDER "cifar_test"

/* What it prints, and says on standard error. */
static char *cifar(const char *flags, int code)
{
    char command[1024];
    int got;
    snprintf(command, sizeof command, CIFAR " --blocks 1 --output_dir " FOLDER "/out %s", flags);
    char *said = said_by(command, FOLDER "/said", &got);
    CHECK_MSG(got == code, "%s: %d: %s", flags, got, said);
    return said;
}

/* The accuracy after an epoch, in percent; -1 if there was no such epoch. */
static double accuracy_after(const char *said, int epoch)
{
    char start[32];
    snprintf(start, sizeof start, "epoch %d: ", epoch);
    const char *line = strstr(said, start);
    return line ? atof(line + strlen(start)) : -1;
}

static void it_learns_and_keeps_the_best(void)
{
    folder_fresh(FOLDER);
    char *said = cifar("--epochs 4 --made_pictures 1200 --batch_size 32 --ema_decay 0.8", 0);
    CHECK_MSG(accuracy_after(said, 3) >= 60, "%s", said);
    CHECK(access(FOLDER "/out/best/model.safetensors", R_OK) == 0 && access(FOLDER "/out/augmented.png", R_OK) == 0);
    free(said);
}

static void it_continues_where_it_was_interrupted(void)
{
    folder_fresh(FOLDER);
#define SHORT "--epochs 2 --made_pictures 300 --batch_size 32 --checkpointing_steps epoch "
    char *whole = cifar(SHORT, 0);
    folder_remove(FOLDER "/out/checkpoints/checkpoint_1");
    char *rest = cifar(SHORT "--resume_from_checkpoint latest", 0);
    CHECK_MSG(accuracy_after(rest, 0) < 0 && accuracy_after(rest, 1) == accuracy_after(whole, 1), "%s%s", whole, rest);
    free(whole), free(rest);
    free(cifar("--checkpointing_steps often", 1));
#undef SHORT
}

static void accumulated_batches_save_once(void)
{
    folder_fresh(FOLDER);
    free(cifar("--epochs 1 --made_pictures 192 --batch_size 32 --gradient_accumulation_steps 3 --checkpointing_steps 1",
               0));
    CHECK(access(FOLDER "/out/checkpoints/checkpoint_1", F_OK) == 0);
    CHECK(access(FOLDER "/out/checkpoints/checkpoint_2", F_OK) != 0);
}

/* Eight colours are eight of the classes; the last two have stripes. */
static void write_pictures(const char *name, int count)
{
    enum { PLANE = 32 * 32 };
    char path[256];
    snprintf(path, sizeof path, FOLDER "/data/%s", name);
    FILE *file = fopen(path, "wb");
    for (int i = 0; i < count; i++) {
        unsigned char record[1 + 3 * PLANE] = {(unsigned char)(i % 10)};
        for (int k = 0; k < 3 * PLANE; k++) {
            int label = record[0], plane = k / PLANE, stripe = k / 32 % 4 < 2;
            bool bright = label < 8 ? label >> plane & 1 : stripe && plane == label % 2;
            record[1 + k] = (unsigned char)((bright ? 200 : 20) + (i * 7 + k * 13) % 32);
        }
        CHECK(fwrite(record, sizeof record, 1, file) == 1);
    }
    fclose(file);
}

static void files_are_read_and_bad_ones_named(void)
{
    folder_fresh(FOLDER);
    mkdir(FOLDER "/data", 0777);
    for (int i = 1; i <= 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        write_pictures(name, 40);
    }
#define READ "--data_dir " FOLDER "/data --batch_size 10 --epochs 4 --ema_decay 0.8"
    char *said = cifar(READ, 1);
    CHECK_MSG(strstr(said, FOLDER "/data/test_batch.bin cannot be read"), "%s", said);
    free(said);
    write_pictures("test_batch.bin", 50);
    said = cifar(READ, 0);
    CHECK_MSG(accuracy_after(said, 3) >= 60, "%s", said);
    free(said);
    CHECK(truncate(FOLDER "/data/data_batch_3.bin", 39 * 3073 + 100) == 0);
    said = cifar(READ, 1);
    CHECK_MSG(strstr(said, FOLDER "/data/data_batch_3.bin ends inside a picture"), "%s", said);
    free(said);
    write_pictures("test_batch.bin", 10001);
    CHECK(truncate(FOLDER "/data/data_batch_3.bin", 39 * 3073) == 0);
    said = cifar(READ, 1);
    CHECK_MSG(strstr(said, "test_batch.bin has more pictures"), "%s", said);
    free(said);
#undef READ
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(it_learns_and_keeps_the_best);
    CHECK_RUN(it_continues_where_it_was_interrupted);
    CHECK_RUN(accumulated_batches_save_once);
    CHECK_RUN(files_are_read_and_bad_ones_named);
    folder_remove(FOLDER);
    return check_done();
}
