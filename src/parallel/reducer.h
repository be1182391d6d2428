/* reducer.h - data-parallel training: every process computes gradients of its own batch, and before the optimiser's
 * step they become the mean over all processes.
 *
 * Gradients are reduced in buckets, in the order in which a backward pass completes them, by the communication thread
 * while the pass continues. An optimiser's block of gradients is allocated in shared memory (ls_reducer_block), so that
 * gradients are produced where they are reduced. A parameter that this process did not use counts as zero; one that no
 * process used keeps no gradient.
 *
 * With `shard` processes divide the optimiser state among them (src/optim): each gets the mean of only its own slice of
 * a block of gradients, and blocks of parameters are shared memory, too, into which each writes its slice for all.
 *
 * All processes must make the same calls. Failures are recorded in the run. */
#ifndef LOCKSTEP_PARALLEL_REDUCER_H
#define LOCKSTEP_PARALLEL_REDUCER_H

#include "comm/queue.h"
#include "tensor/state.h"

typedef struct ls_reducer ls_reducer;

typedef struct ls_reducer_opts {
    ls_dtype
        compress; /* LS_BF16 or LS_F16: f32 gradients are sent as such, summed in f32 and rounded once. 0: unchanged */
    size_t bucket_bytes;     /* gradients are sent when so many are complete; 0: 25 MB */
    bool shard;              /* gradients in blocks are reduced to the slices of processes (ls_slice_of) */
    ls_comm_workers workers; /* threads that reduce; if none, the thread that completes a bucket does */
} ls_reducer_opts;

/* NULL (and an error) on failure. */
ls_reducer *ls_reducer_new(ls_run *run, ls_comm *comm, ls_reducer_opts opts);
void ls_reducer_free(ls_reducer *reducer); /* NULL is accepted */

/* Train these parameters together: they must be the same in all processes. The values of `tensors`, which are those and
 * the buffers beside them, are set to those of rank 0; buffers again after every step. */
bool ls_reducer_add(ls_reducer *reducer, const ls_state *parameters, const ls_state *tensors);

/* Remove all of them. Shared memory is kept. */
void ls_reducer_clear(ls_reducer *reducer); /* NULL is accepted */

/* After a cancel, between barriers: forget what was in flight. */
void ls_reducer_reset(ls_reducer *reducer); /* NULL is accepted */

/* ---- For optimisers: memory in the innermost scope, false or poison after a failure ---- */

/* Are gradients reduced at all? False for NULL. */
bool ls_reducer_trains(const ls_reducer *reducer);
/* f32 [numel], zero: gradients become the mean over all processes in place; with `shard`, each process's slice
 * of them does, and the rest is undefined. */
ls_tensor *ls_reducer_block(ls_reducer *reducer, int64_t numel);

/* With `shard`. A block of parameters is f32 [numel], zeroed; spread sets elements [part.begin, part.end) of it to
 * those of the process whose slice they are in. */
ls_tensor *ls_reducer_parameters(ls_reducer *reducer, int64_t numel);
bool ls_reducer_spread(ls_reducer *reducer, ls_tensor *block, ls_range part);
/* *number = its sum over processes. */
bool ls_reducer_sum(ls_reducer *reducer, double *number);
/* The slices of all processes, f32 [numel], on rank 0; NULL elsewhere. */
ls_tensor *ls_reducer_collect(ls_reducer *reducer, const ls_tensor *slice, int64_t numel);

/* The loss of the pass about to begin is not finite: all processes learn it with the next reduction. False if there
 * will be none. */
bool ls_reducer_odd_loss(ls_reducer *reducer);
/* After a pass: the rank of a process that reported one; -1: none, or nothing was reduced. */
int ls_reducer_odd_rank(const ls_reducer *reducer);

/* Around a backward pass. With `sync` its gradients, and those from before, become the mean over all processes, and all
 * of them learn whether `course`, a hash of the training progress, was the same in all. */
void ls_reducer_walk_begins(ls_reducer *reducer, bool sync, uint64_t course);
void ls_reducer_walk_ended(ls_reducer *reducer);
/* After a pass: it differed. */
bool ls_reducer_parted(const ls_reducer *reducer);

/* Warn, once, if parameters, trained or frozen, differ between processes, by name. All must call. False (and an error)
 * if that could not be determined. */
bool ls_reducer_compare(ls_reducer *reducer, const char *who);

/* Between these, processes may make different numbers of backward passes: one without batches takes part in the others'
 * reductions with zero gradients. In the end all have the parameters of one that continued longest. Not with `shard`: a
 * process without batches takes no steps, so its slice would not be updated. */
void ls_reducer_join_begin(ls_reducer *reducer);
/* Returns the rank whose parameters were kept; -1: nothing was joined, or it failed. */
int ls_reducer_join_end(ls_reducer *reducer);

/* Set any tensors to those of rank `from`. */
bool ls_reducer_send(ls_reducer *reducer, ls_tensor *const *tensors, int count, int from, const char *site);

#endif
