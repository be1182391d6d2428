/* xla_step.c - what device xla adds to a step that was compiled before: recording it, finding its program, and starting
 * that.
 *
 *   xla_step [DEVICE]        a step of 1,000 additions forward and backward
 *   xla_step DEVICE start    the milliseconds from main() to the end of its first step: the second time the program
 *                            comes from LOCKSTEP_XLA_CACHE */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "chain.h"

enum { REPEAT = 200 };

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
static double step(const chain *c)
{
    double begin = now();
    ls_mark mark = ls_scope_begin(c->run);
    chain_step(c);
    double recorded = now() - begin;
    ls_tensor *kept = ls_keep(ls_detach(ls_grad(c->x)));
    ls_clear_grad(c->x);
    ls_scope_end(c->run, mark, NULL);
    ls_item(ls_sum(kept));
    ls_drop(kept);
    return recorded;
}

static times measure(const chain *c)
{
    times best = {1e9, 1e9};
    for (int i = 0; i < REPEAT; i++) {
        double begin = now(), record = step(c), all = now() - begin;
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
    chain c = chain_new(run);
    if (argc > 2 && strcmp(argv[2], "start") == 0) {
        step(&c);
        if (!ls_error(run)) printf("%s: first step after %.0f ms\n", device, 1e3 * (now() - began));
        return ls_finish(run);
    }
    times t = measure(&c);
    if (!ls_error(run))
        printf("%s: %.0f ns an addition and its gradient, %.0f us a step, %.0f us of them after the recording\n",
               device, 1e9 * t.record / CHAIN, 1e6 * t.all, 1e6 * (t.all - t.record));
    return ls_finish(run);
}
