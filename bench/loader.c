/* loader.c - the overhead of a loader per sample if reading a sample is cheap: a pass over tensors in memory. */
#include "bench.h"

#include <stdlib.h>

enum { SAMPLES = 16384, BATCH = 64 };

typedef struct pass {
    ls_loader *loader;
    int64_t seen;
} pass;

typedef struct kind {
    const char *name;
    int64_t numbers; /* per sample */
    int workers;
} kind;

static void *setup(ls_run *run, const bench_item *item)
{
    const kind *k = item->shape;
    pass *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    ls_tensor *label = ls_full(run, LS_I64, 1, SAMPLES);
    ls_dataset *set = ls_tensor_dataset_new(run, ls_rand(run, LS_F32, SAMPLES, k->numbers), label);
    p->loader = ls_loader_new(run, set, .batch = BATCH, .shuffle = true, .workers = k->workers);
    return p;
}

static void call(void *state)
{
    pass *p = state;
    for (ls_batch b; ls_next(p->loader, &b);) p->seen += b.size;
}

void bench_add_loaders(int threads)
{
    static const kind kinds[] = {{"8 numbers", 8, 0}, {"784 numbers", 784, 0}, {"784 numbers, 2 workers", 784, 2}};
    for (int i = 0; i < 3; i++) {
        bench_item *item = bench_add(BENCH_NS, BENCH_PEAK_NONE, threads, SAMPLES, "loader/f32/%s", kinds[i].name);
        item->setup = setup;
        item->call = call;
        item->release = free;
        item->shape = &kinds[i];
    }
}
