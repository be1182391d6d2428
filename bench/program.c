/* program.c - a training program from the start of its process to the end of its first step. */
#include "bench.h"

#include <spawn.h>
#include <sys/wait.h>

/* The network of `make demo`, with a batch made here. */
enum { BATCH = 32, SIZE = 64, CLASSES = 6 };

int bench_first_step(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_resnet_new(run, "resnet10t", .width = 32, .classes = CLASSES);
    ls_optim *adam = ls_adam_new(run, net, .lr = 1e-3);
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
