/* parallel.h - the process-wide team of worker threads that every CPU kernel runs on.
 *
 * One persistent team. The calling thread is worker 0 and works too. Workers spin briefly, then sleep. Work is one SPMD
 * call: the function runs once on every worker. Calls from inside a worker run serially (width 1).
 * A child made by fork() gets a fresh team on its first call. Only one thread at a time may lead the team; a second
 * thread that calls concurrently runs its work serially on itself, so nothing ever deadlocks. */
#ifndef LOCKSTEP_BASE_PARALLEL_H
#define LOCKSTEP_BASE_PARALLEL_H

#include <stddef.h>
#include <stdint.h>

typedef struct ls_worker {
    int index; /* 0 .. width-1 */
    int width; /* workers taking part in this call */
} ls_worker;

typedef void ls_spmd_fn(void *arg, ls_worker worker);
typedef void ls_range_fn(void *arg, int64_t begin, int64_t end);

/* Size of the team: LOCKSTEP_NUM_THREADS or OMP_NUM_THREADS, else the CPUs this process may use (affinity, cgroup
 * quota) or its share of them. At least 1. */
int ls_parallel_width(void);
/* Where that number comes from: the name of a variable, or words such as "the CPUs allowed". */
const char *ls_parallel_width_source(void);
/* This process's share of the allowed CPUs, and the number of processes that share one quota. (0, 1): it has all. */
void ls_parallel_share(int cpus, int processes);
/* Change the width; takes effect at the next call. n < 1 restores the default. Not from inside a worker. */
void ls_parallel_set_width(int n);

/* End the team's threads until the next call, so that a fork loses none. Not from inside a worker. */
void ls_parallel_stop(void);
/* In a forked worker, which has its own CPUs and settings: forget the width found or set before. */
void ls_parallel_reload(void);

/* Run fn(arg, worker) once on each of min(width, max_workers) workers and return when all are done. */
void ls_parallel(ls_spmd_fn *fn, void *arg, int max_workers);
/* Inside an SPMD function: wait until all its workers have arrived. */
void ls_parallel_barrier(ls_worker worker);

/* Split [0, n) into contiguous ranges, at most one per worker, none smaller than grain unless it is the only one. */
void ls_parallel_for(int64_t n, int64_t grain, ls_range_fn *body, void *arg);
/* The part of [0, n) that belongs to a worker, cut at multiples of `align`. */
void ls_worker_range(ls_worker worker, int64_t n, int64_t align, int64_t *begin, int64_t *end);

/* Slots of scratch memory. The last one, used by the image decoder, keeps its contents between calls and starts as
 * zero. */
enum { LS_SCRATCH_LASTING = 4, LS_SCRATCH_SLOTS };

/* Scratch memory of the calling worker (slot 0..3), at least `bytes`, page-aligned, in huge pages if large, grow-only,
 * contents undefined. NULL when out of memory. Valid until the same worker asks for the same slot again. It belongs to
 * the calling thread: another worker's index does not give access to its memory, and a call made from inside a worker
 * shares that worker's slots. */
void *ls_scratch(ls_worker worker, int slot, size_t bytes);

#endif
