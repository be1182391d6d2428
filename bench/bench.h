/* bench.h - benchmark items and how they are measured.
 *
 * An item has a name, the work of one call (FLOP or bytes) and the peak to compare with (measured in the same run).
 * Values are rates in GFLOP/s, GB/s or images per second, or times. The best of many short repetitions counts: the
 * machine may be shared, and interference only makes things slower. */
#ifndef LOCKSTEP_BENCH_H
#define LOCKSTEP_BENCH_H

#include <lockstep.h>

#include <stddef.h>

typedef enum bench_unit { BENCH_GFLOPS, BENCH_GBS, BENCH_MS, BENCH_NS, BENCH_IMAGES } bench_unit;
typedef enum bench_peak { BENCH_PEAK_NONE, BENCH_PEAK_F32, BENCH_PEAK_BF16, BENCH_PEAK_MEMORY } bench_peak;

typedef struct bench_item {
    char name[96]; /* "gemm/bf16/bert-base proj fwd NT/2": family, type, case, threads */
    bench_unit unit;
    bench_peak peak;
    int threads;
    double work; /* of one call: FLOP, bytes, or (BENCH_NS, BENCH_IMAGES) items */
    /* Create what the call needs; NULL on failure. One case is set up at a time. */
    void *(*setup)(ls_run *run, const struct bench_item *item);
    void (*call)(void *state);
    void (*release)(void *state); /* NULL: the run owns the state */
    const void *shape;            /* data of the family */
    ls_dtype dtype;
    int variant;
} bench_item;

/* Add an item to the list. The functions of the families below add all of theirs. */
bench_item *bench_add(bench_unit unit, bench_peak peak, int threads, double work, const char *format, ...)
    LS_PRINTF(5, 6);
void bench_add_peaks(int threads);
void bench_add_products(int threads);
void bench_add_convolutions(int threads);
void bench_add_passes(int threads);
void bench_add_blocks(int threads);
void bench_add_models(int threads);
void bench_add_berts(int threads);
void bench_add_comm(int threads);
void bench_add_shards(void);
void bench_add_files(int threads);
void bench_add_checkpoints(int threads);
void bench_add_loaders(int threads);
void bench_add_images(int threads);
void bench_add_tokenizers(int threads);
void bench_add_programs(int threads);
void bench_add_overheads(void);
/* `--first-step`: a training program that makes one step and exits. */
int bench_first_step(void);
/* `--train NETWORK BATCH SIZE DTYPE SECONDS`: a training program with one or several processes that prints its speed.
 * */
int bench_train(char **arguments);
/* `--train-bert base|large LAYERS DTYPE padded|unpadded LENGTHS STEPS`: a training program with one or several
 * processes, which divide the sequences of these lengths ("73,97,112"); prints the milliseconds of its best step and
 * its peak memory in MiB. */
int bench_train_bert(char **arguments);
/* `--features QUESTIONS VOCABULARY`: print the milliseconds from reading both files to windows for a model. */
int bench_features(char **arguments);
/* `--lost-peer`: print the milliseconds from kill -9 of a process to the error of the one that waits for it. */
int bench_lost_peer(void);
/* `--all-reduce BYTES REPEAT SECONDS`: a program with several processes, on one host or many, that sums. */
int bench_all_reduce(char **arguments);
/* `--held-out FOLDER`: print the photos that examples/pets tests on, for bench/pets_torch.py. */
int bench_held_out(const char *folder);

/* The same matrix products with OpenBLAS; 0 if it is not installed. */
double bench_openblas(const bench_item *item);
/* Best time of one call, in seconds. */
double bench_best(void (*call)(void *), void *state, double seconds);
double bench_now(void);

#endif
