/* shard.h - which samples make up batch i of rank r: pure index arithmetic.
 *
 * An epoch is a sequence of n samples, divided into rounds of `world` batches. Read round by round and rank by rank,
 * the batches give positions start .. n-1; with `even`, the last round is filled up with positions 0, 1, ... again, as
 * often as needed. So position p means p modulo n, and batch i of rank r begins at a product.
 *
 * A batch of the whole job that is divided among ranks (split_batches) is the same with a batch of batch / world. */
#ifndef LOCKSTEP_DATA_LOADER_SHARD_H
#define LOCKSTEP_DATA_LOADER_SHARD_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ls_shard {
    int64_t samples;      /* in the epoch's order */
    int64_t batch;        /* samples per batch of one rank */
    const int64_t *lists; /* a batch list: batch k has positions lists[k] .. lists[k+1]-1; NULL: equal sizes */
    int64_t list_count;
    int64_t start; /* where the pass begins: positions (or listed batches) already done */
    int rank, world;
    bool even;      /* fill up the last round, so that all ranks get the same number of full batches */
    bool drop_last; /* leave out an incomplete round */
    bool dispatch;  /* rank 0 reads for all: an incomplete round is divided as evenly as possible */
} ls_shard;

typedef struct ls_span {
    int64_t first, size; /* positions first .. first+size-1, modulo the number of samples */
} ls_span;

/* The number of batches of this rank from the start on. */
int64_t ls_shard_len(const ls_shard *shard);
/* Batch i of them. */
ls_span ls_shard_batch(const ls_shard *shard, int64_t i);
/* The number of samples of round i, over all ranks, that are not repeats. */
int64_t ls_shard_real(const ls_shard *shard, int64_t i);
/* The start of a pass that continues after round i. */
int64_t ls_shard_after(const ls_shard *shard, int64_t i);

#endif
