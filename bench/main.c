/* main.c - the benchmark server: reads names of items on stdin, answers each with its value.
 *
 *   lockstep_bench --list       one line per item: name, unit, peak to compare with
 *   lockstep_bench --first-step run a training program of one step
 *   lockstep_bench --held-out FOLDER  print the photos that examples/pets tests on
 *   lockstep_bench [--openblas] answer "name\n" with "value\n"; "-" if it cannot be measured
 *
 * bench/run.py queries this program and the peers in turn, so that all see the same machine. */
#include "bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/parallel.h"

enum { MAX_ITEMS = 1024 };
static bench_item items[MAX_ITEMS];
static int item_count;

bench_item *bench_add(bench_unit unit, bench_peak peak, int threads, double work, const char *format, ...)
{
    bench_item *item = &items[item_count < MAX_ITEMS - 1 ? item_count++ : item_count];
    *item = (bench_item){.unit = unit, .peak = peak, .threads = threads, .work = work};
    va_list args;
    va_start(args, format);
    int used = vsnprintf(item->name, sizeof item->name, format, args);
    va_end(args);
    if (used > 0 && (size_t)used < sizeof item->name)
        snprintf(item->name + used, sizeof item->name - (size_t)used, "/%d", threads);
    return item;
}

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_best(void (*call)(void *), void *state, double seconds)
{
    call(state); /* warm up: memory, packed weights, threads */
    double best = 1e30, begin = bench_now(), spent = 0;
    for (int n = 0; n < 2 || (n < 5 && spent < 5) || spent < seconds; n++) {
        double t = bench_now();
        call(state);
        t = bench_now() - t;
        if (t < best) best = t;
        spent = bench_now() - begin;
    }
    return best;
}

static double value_of(const bench_item *item, double seconds)
{
    switch (item->unit) {
    case BENCH_GFLOPS:
    case BENCH_GBS: return item->work / seconds * 1e-9;
    case BENCH_MS: return seconds * 1e3;
    case BENCH_NS: return seconds * 1e9 / item->work;
    case BENCH_IMAGES: return item->work / seconds;
    }
    return 0;
}

static double measure(const bench_item *item, bool openblas, double budget)
{
    if (openblas) return bench_openblas(item);
    ls_parallel_set_width(item->threads);
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    void *state = item->setup(run, item);
    double value = 0;
    if (state && !ls_error(run)) value = value_of(item, bench_best(item->call, state, budget));
    if (state && item->release) item->release(state);
    if (ls_error(run)) fprintf(stderr, "%s: %s\n", item->name, ls_error_message(run)), ls_clear_error(run), value = 0;
    ls_finish(run);
    return value;
}

int main(int argc, char **argv)
{
    setenv("LOCKSTEP_USE_CPU", "1", 1); /* kernels and programs of the CPU are measured, also where there is a GPU */
    if (argc > 1 && strcmp(argv[1], "--first-step") == 0) return bench_first_step();
    if (argc > 1 && strcmp(argv[1], "--lost-peer") == 0) return bench_lost_peer();
    if (argc > 4 && strcmp(argv[1], "--all-reduce") == 0) return bench_all_reduce(argv + 2);
    if (argc > 6 && strcmp(argv[1], "--train") == 0) return bench_train(argv + 2);
    if (argc > 7 && strcmp(argv[1], "--train-bert") == 0) return bench_train_bert(argv + 2);
    if (argc > 3 && strcmp(argv[1], "--features") == 0) return bench_features(argv + 2);
    if (argc > 2 && strcmp(argv[1], "--held-out") == 0) return bench_held_out(argv[2]);
    int all = ls_parallel_width();
    for (int threads = 1; threads <= all; threads = threads == all ? all + 1 : all) {
        bench_add_peaks(threads);
        bench_add_products(threads);
    }
    bench_add_convolutions(all);
    bench_add_passes(all);
    bench_add_blocks(all);
    bench_add_models(all);
    bench_add_berts(all);
    bench_add_comm(all);
    bench_add_shards();
    bench_add_files(all);
    bench_add_checkpoints(all);
    bench_add_loaders(all);
    for (int threads = 1; threads <= all; threads = threads == all ? all + 1 : all) bench_add_images(threads);
    for (int threads = 1; threads <= all; threads = threads == all ? all + 1 : all) bench_add_tokenizers(threads);
    bench_add_programs(all);
    bench_add_overheads();

    static const char *const units[] = {"GFLOP/s", "GB/s", "ms", "ns", "img/s"}, *const peaks[] = {"-", "f32", "bf16",
                                                                                                   "memory"};
    bool openblas = argc > 1 && strcmp(argv[1], "--openblas") == 0;
    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        for (int i = 0; i < item_count; i++)
            printf("%s\t%s\t%s\t%d\n", items[i].name, units[items[i].unit], peaks[items[i].peak], items[i].threads);
        return 0;
    }
    for (char line[256]; fgets(line, sizeof line, stdin);) {
        line[strcspn(line, "\n")] = 0;
        double value = 0;
        for (int i = 0; i < item_count; i++)
            if (strcmp(items[i].name, line) == 0) value = measure(&items[i], openblas, 0.25);
        if (value > 0) printf("%.6g\n", value);
        else puts("-");
        fflush(stdout);
    }
    return 0;
}
