/* xla_step.c - what device xla adds to a step that was compiled before: recording it, finding its program, and starting
 * that.
 *
 *   xla_step [DEVICE]        a step of 1,000 additions forward and backward
 *   xla_step DEVICE start    the milliseconds from the start of the process to the end of its first step: the second
 *                            time the program comes from LOCKSTEP_XLA_CACHE */
#include <lockstep.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { CHAIN = 1000, REPEAT = 200 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct times {
    double record, all; /* seconds, of the best step */
} times;

/* A step, and the time until it is recorded. On the CPU it has been executed then. */
static double step(ls_run *run, ls_tensor *x, ls_tensor *dy)
{
    double begin = now();
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *y = x;
    for (int i = 0; i < CHAIN; i++) y = ls_add(y, dy);
    ls_backward(run, ls_sum(y));
    double recorded = now() - begin;
    ls_tensor *kept = ls_keep(ls_detach(ls_grad(x)));
    ls_clear_grad(x);
    ls_scope_end(run, mark, NULL);
    ls_item(ls_sum(kept));
    ls_drop(kept);
    return recorded;
}

static times measure(ls_run *run)
{
    times best = {1e9, 1e9};
    ls_tensor *x = ls_set_requires_grad(ls_ones(run, LS_F32, 16), true), *dy = ls_ones(run, LS_F32, 16);
    for (int i = 0; i < REPEAT; i++) {
        double begin = now(), record = step(run, x, dy), all = now() - begin;
        if (record < best.record) best.record = record;
        if (all < best.all) best.all = all;
    }
    return best;
}

int main(int argc, char **argv)
{
    double began = now();
    const char *device = argc > 1 ? argv[1] : "xla";
    ls_run *run = ls_init(NULL, NULL, .device = device);
    if (argc > 2 && strcmp(argv[2], "start") == 0) {
        step(run, ls_set_requires_grad(ls_ones(run, LS_F32, 16), true), ls_ones(run, LS_F32, 16));
        printf("%s: first step after %.0f ms\n", device, 1e3 * (now() - began));
        return ls_finish(run);
    }
    times t = measure(run);
    printf("%s: %.0f ns an operator, %.0f us a step, %.0f us of them after the recording\n", device,
           1e9 * t.record / (2 * CHAIN), 1e6 * t.all, 1e6 * (t.all - t.record));
    return ls_finish(run);
}
