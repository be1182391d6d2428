/* examples.c - mnist, pets, glue and qa train with --device xla as they do on the CPU: every operator is compiled, and
 * after three steps nothing more is. */
#include <ctype.h>
#include <dirent.h>

#include "examples/glue_files.h"
#include "examples/mnist_files.h"
#include "examples/qa_files.h"
#include "folder.h"

#define FOLDER "xla_examples_test"
#define PROGRAMS FOLDER "/programs"

enum { FIRST_STEPS = 3, ALL_STEPS = 9, BATCH = 16 };

typedef struct example {
    const char *command;
    const char *steps;  /* format of the flag with the number of steps, or of epochs of FIRST_STEPS steps */
    int per_unit;       /* steps that the flag counts as one */
    const char *values; /* file of the values it records, in --output_dir; NULL: it prints them */
} example;

/* What the command says after so many steps. The device says what it has to compile again, and what it cannot. */
static char *train(const example *e, const char *device, int steps)
{
    char flag[64], command[1024];
    int code;
    snprintf(flag, sizeof flag, e->steps, steps / e->per_unit);
    snprintf(command, sizeof command,
             "LOCKSTEP_LOG=info LOCKSTEP_XLA_CACHE=" PROGRAMS " %s --device %s %s --output_dir " FOLDER "/%s",
             e->command, device, flag, device);
    char *said = said_by(command, FOLDER "/said", &code);
    CHECK_MSG(code == 0, "%s: %d: %s", command, code, said);
    CHECK_MSG(!strstr(said, "runs on the host") && !strstr(said, "compiled a step again"), "%s: %s", command, said);
    return said;
}

/* The values of all steps, without the times at which they were recorded. */
static char *values_of(const example *e, const char *device)
{
    char command[512];
    int code;
    if (e->values) snprintf(command, sizeof command, "cut -d, -f1,3- " FOLDER "/%s/%s", device, e->values);
    else snprintf(command, sizeof command, "grep -e loss -e F1 " FOLDER "/said | grep -v '^train'");
    return said_by(command, FOLDER "/values", &code);
}

/* The same text, with numbers that are the same except for rounding. */
static void same_values(const char *got, const char *want)
{
    const char *a = got, *b = want;
    int numbers = 0;
    while (*a && *a == *b) {
        if (!isdigit((unsigned char)*a)) {
            a++, b++;
            continue;
        }
        char *end[2];
        double number = strtod(a, &end[0]), other = strtod(b, &end[1]);
        CHECK_NEAR(number, other, 2e-4);
        a = end[0], b = end[1];
        numbers++;
    }
    CHECK_MSG(!*a && !*b && numbers > 2 * ALL_STEPS, "%d numbers of:\n%s\non the CPU:\n%s", numbers, got, want);
}

static int programs(void)
{
    int count = 0;
    DIR *folder = opendir(PROGRAMS);
    for (const struct dirent *e; folder && (e = readdir(folder));) count += e->d_name[0] != '.';
    if (folder) closedir(folder);
    return count;
}

static void compare(const example *e)
{
    folder_fresh(PROGRAMS);
    free(train(e, "xla", FIRST_STEPS));
    folder_remove(FOLDER "/xla");
    int compiled = programs();
    CHECK(compiled > 0);
    free(train(e, "xla", ALL_STEPS));
    CHECK_MSG(programs() == compiled, "%d programs were compiled after step %d", programs() - compiled, FIRST_STEPS);
    char *there = values_of(e, "xla");
    free(train(e, "cpu", ALL_STEPS));
    char *here = values_of(e, "cpu");
    same_values(there, here);
    free(there), free(here);
    folder_remove(FOLDER "/xla"), folder_remove(FOLDER "/cpu");
}

static void mnist_trains_as_on_the_cpu(void)
{
    mkdir(FOLDER "/digits", 0777);
    write_digits(FOLDER "/digits", "train", FIRST_STEPS * BATCH);
    write_digits(FOLDER "/digits", "t10k", 20);
    compare(&(example){.command = MNIST " --data_dir " FOLDER "/digits --batch_size 16 --with_tracking",
                       .steps = "--epochs %d",
                       .per_unit = FIRST_STEPS,
                       .values = "values.csv"});
}

/* Of 60 pictures, 48 are for training. */
static void pets_trains_as_on_the_cpu(void)
{
    int code;
    char *said = said_by(DRAW_PETS " " FOLDER "/images 10", FOLDER "/said", &code);
    if (code) check_skip("%s", said); /* no libjpeg */
    free(said);
    if (code) return;
    compare(&(example){.command = PETS " --data_dir " FOLDER "/images --batch_size 16 --model resnet10t --width 8 "
                                       "--no-freeze --image_size 32 --with_tracking",
                       .steps = "--epochs %d",
                       .per_unit = FIRST_STEPS,
                       .values = "runs/records/values.csv"});
}

/* Texts, and so batches, have several lengths. */
static void glue_trains_as_on_the_cpu(void)
{
    static const char *const labels[] = {"0", "1"};
    make_classifier(FOLDER "/classifier", 0);
    write_table(FOLDER "/train.tsv", "sentence\tlabel\n", "t\tl\n", labels, 2, 6 * BATCH, 0);
    write_table(FOLDER "/dev.tsv", "sentence\tlabel\n", "t\tl\n", labels, 2, 20, 0);
    compare(&(example){.command = GLUE " --data_dir " FOLDER " --task_name sst2 --model_name_or_path " FOLDER
                                       "/classifier --max_length 32 --learning_rate 2e-3 --with_tracking",
                       .steps = "--max_steps %d",
                       .per_unit = 1,
                       .values = "runs/records/values.csv"});
}

static void qa_trains_as_on_the_cpu(void)
{
    make_model(FOLDER "/answerer", 64);
    write_questions(FOLDER "/train.json", 6 * BATCH, 40, 1);
    write_questions(FOLDER "/dev.json", 20, 40, 2);
    compare(&(example){.command = QA " --do_train --do_eval --train_file " FOLDER
                                     "/train.json --validation_file " FOLDER "/dev.json --model_name_or_path " FOLDER
                                     "/answerer --max_seq_length 32 --doc_stride 8 --learning_rate 5e-3 "
                                     "--per_device_train_batch_size 16 --logging_steps 1",
                       .steps = "--max_steps %d",
                       .per_unit = 1});
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    folder_fresh(FOLDER);
    CHECK_RUN(mnist_trains_as_on_the_cpu);
    CHECK_RUN(pets_trains_as_on_the_cpu);
    CHECK_RUN(glue_trains_as_on_the_cpu);
    CHECK_RUN(qa_trains_as_on_the_cpu);
    folder_remove(FOLDER);
    return check_done();
}
