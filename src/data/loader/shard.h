/* shard.h - which samples make up batch i of rank r: index arithmetic, no memory, no walking.
 *
 * An epoch is a sequence of n samples, cut into rounds of `world` batches. Read round by round and rank by rank, the
 * batches give positions start .. n-1; where even batches are wanted, the last round is completed with positions 0, 1,
 * ... again, as often as needed. So position p stands for p modulo n, and batch i of rank r begins at a product.
 *
 * A batch of the whole job that is split among ranks (split_batches) is the same with a batch of batch / world. */
#ifndef LOCKSTEP_DATA_LOADER_SHARD_H
#define LOCKSTEP_DATA_LOADER_SHARD_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ls_shard {
    int64_t samples;      /* in the epoch's order */
    int64_t batch;        /* samples of one rank's batch */
    const int64_t *lists; /* batches given one by one: batch k is positions lists[k] .. lists[k+1]-1; NULL: all alike */
    int64_t list_count;
    int64_t start; /* where the pass begins: positions (batches of the lists) that are done already */
    int rank, world;
    bool even;      /* complete the last round, so that all ranks get the same number of full batches */
    bool drop_last; /* leave out an incomplete round */
    bool dispatch;  /* rank 0 reads for all: an incomplete round is shared out as evenly as possible */
} ls_shard;

typedef struct ls_span {
    int64_t first, size; /* positions first .. first+size-1, modulo the number of samples */
} ls_span;

/* Batches of this rank from the start on. */
int64_t ls_shard_len(const ls_shard *shard);
/* Batch i of them. */
ls_span ls_shard_batch(const ls_shard *shard, int64_t i);
/* How many samples of round i, over all ranks, are not repeats. */
int64_t ls_shard_real(const ls_shard *shard, int64_t i);
/* The start of a pass that goes on after round i. */
int64_t ls_shard_after(const ls_shard *shard, int64_t i);

#endif
