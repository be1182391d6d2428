/* program.c - a training program from process start to the end of its first step; and the photos that examples/pets
 * holds out, so that others can train on the same. */
#include "bench.h"

#include <dirent.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "data/random.h"

/* The network of `make demo`, with a generated batch. */
enum { BATCH = 32, SIZE = 64, CLASSES = 6 };

int bench_first_step(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_resnet_new(run, "resnet10t", .width = 32, .classes = CLASSES);
    ls_optim *adam = ls_adam_new(run, net, .lr = 1e-3);
    ls_prepare(run, net, adam);
    ls_tensor *image = ls_channels_last(ls_rand(run, LS_F32, BATCH, 3, SIZE, SIZE));
    ls_tensor *label = ls_cast(ls_arange(run, LS_F32, BATCH, 0, 0.15), LS_I64);
    ls_backward(run, ls_cross_entropy(ls_forward(net, ls_imagenet_normalize(image)), label));
    ls_step(adam);
    return ls_finish(run);
}

static void *start_setup(ls_run *run, const bench_item *item)
{
    (void)item;
    return run;
}

static void start_call(void *state)
{
    (void)state;
    extern char **environ;
    char *arguments[] = {"lockstep_bench", "--first-step", NULL};
    pid_t child;
    if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) == 0) waitpid(child, NULL, 0);
}

void bench_add_programs(int threads)
{
    bench_item *start = bench_add(BENCH_MS, BENCH_PEAK_NONE, threads, 1, "program/f32/demo net, start to first step");
    start->setup = start_setup;
    start->call = start_call;
}

static int is_photo(const struct dirent *entry)
{
    return strstr(entry->d_name, ".jpg") != NULL;
}

int bench_held_out(const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_photo, alphasort);
    int64_t *order = count > 0 ? calloc((size_t)count, sizeof *order) : NULL;
    if (!order) return fprintf(stderr, "%s: no photos\n", folder), 1;
    for (int i = 0; i < count; i++) order[i] = i;
    ls_random_shuffle(ls_random_key(42, 0, LS_RANDOM_SPLIT), count,
                      order); /* as ls_random_split() does with pets' seed */
    for (int i = (int)(0.8 * count); i < count; i++) puts(entries[order[i]]->d_name);
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
    free(order);
    return 0;
}
