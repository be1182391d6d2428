/* program.c - what surrounds the steps of a training program: how long until the first one, what checkpoints cost. */
#include "bench.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The network of `make demo`, with a batch made here. */
enum { BATCH = 32, SIZE = 64, CLASSES = 6, STEPS = 40, SAVE_EVERY = 10 };

typedef struct demo {
    ls_run *run;
    ls_module *net;
    ls_optim *adam;
    ls_tensor *image, *label;
    int save_every; /* steps; 0: never */
    char folder[64];
} demo;

static void demo_make(demo *d)
{
    d->net = ls_resnet_new(d->run, "resnet10t", .width = 32, .classes = CLASSES);
    d->adam = ls_adam_new(d->run, d->net, .lr = 1e-3);
    d->image = ls_keep(ls_channels_last(ls_rand(d->run, LS_F32, BATCH, 3, SIZE, SIZE)));
    d->label = ls_keep(ls_cast(ls_arange(d->run, LS_F32, BATCH, 0, 0.15), LS_I64));
}

static void demo_step(demo *d)
{
    ls_mark mark = ls_scope_begin(d->run);
    ls_backward(d->run, ls_cross_entropy(ls_forward(d->net, ls_imagenet_normalize(d->image)), d->label));
    ls_step(d->adam);
    ls_zero_grad(d->adam);
    ls_scope_end(d->run, mark, NULL);
}

int bench_first_step(void)
{
    demo d = {.run = ls_init(NULL, NULL)};
    demo_make(&d);
    demo_step(&d);
    return ls_finish(d.run);
}

/* ---- from the start of a process to the end of its first step ---- */

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

/* ---- steps with and without checkpoints that are written meanwhile ---- */

static void *saving_setup(ls_run *run, const bench_item *item)
{
    (void)run;
    demo *d = calloc(1, sizeof *d);
    snprintf(d->folder, sizeof d->folder, "/tmp/lockstep_bench_XXXXXX");
    if (!mkdtemp(d->folder)) return NULL;
    d->run = ls_init(NULL, NULL, .async_save = true, .total_limit = 1, .project_dir = d->folder);
    d->save_every = item->variant;
    demo_make(d);
    ls_prepare(d->run, d->net, d->adam);
    return d;
}

static void saving_call(void *state)
{
    demo *d = state;
    for (int step = 1; step <= STEPS; step++) {
        demo_step(d);
        if (d->save_every && step % d->save_every == 0) ls_save_state(d->run, NULL);
    }
}

static void saving_release(void *state)
{
    demo *d = state;
    ls_finish(d->run);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", d->folder);
    if (system(command) != 0) fprintf(stderr, "%s is left behind\n", d->folder);
    free(d);
}

void bench_add_programs(int threads)
{
    bench_item *start = bench_add(BENCH_MS, BENCH_PEAK_NONE, threads, 1, "program/f32/demo net, start to first step");
    start->setup = start_setup;
    start->call = start_call;
    for (int saving = 0; saving < 2; saving++) {
        bench_item *item = bench_add(BENCH_MS, BENCH_PEAK_NONE, threads, 1, "program/f32/demo net, %d steps%s", STEPS,
                                     saving ? ", 4 checkpoints" : "");
        item->variant = saving ? SAVE_EVERY : 0;
        item->setup = saving_setup;
        item->call = saving_call;
        item->release = saving_release;
    }
}
