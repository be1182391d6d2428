/* inside.h - what the files of this folder share. */
#ifndef LOCKSTEP_PARALLEL_INSIDE_H
#define LOCKSTEP_PARALLEL_INSIDE_H

#include "parallel/reducer.h"

/* A parameter. */
typedef struct ls_slot {
    ls_reducer *reducer;
    ls_tensor *tensor; /* one reference */
    char *name;
    int index;    /* among all */
    int bucket;   /* -1: it is not trained at present */
    bool trained; /* as the buckets were made */
    bool ready;   /* its gradient is complete in the pass at hand */
} ls_slot;

/* Numbers that follow each other in memory. */
typedef struct ls_extent {
    char *data; /* of the reducer's device */
    int64_t count;
    ls_dtype dtype;
    int block;      /* of gradients; INT_MAX: none */
    int64_t offset; /* in it, in bytes; outside of all: its place in the bucket */
} ls_extent;

typedef struct ls_bucket {
    ls_comm_request request;
    int first, count; /* of reducer->order */
    int missing;      /* gradients that are not complete */
    int extent_count;
    ls_extent *extents; /* [count] */
    char site[56];      /* for messages */
} ls_bucket;

/* Of gradients: in memory that processes share where the device is the host. */
typedef struct ls_gradient_block {
    char *base;
    size_t bytes;
} ls_gradient_block;

/* What a process brings to a group of batches (tensor/accumulate.h); zeros: it has no more. */
typedef struct ls_weights {
    double sum, plan;
} ls_weights;

/* What processes that train one model have alike, told by all in every reduction. */
typedef enum ls_agreement {
    LS_AGREE_STEPS,  /* where the optimisers stand: ls_reducer.course */
    LS_AGREE_VALUES, /* numbers of the parameters */
    LS_AGREE_COUNT,
} ls_agreement;

enum { LS_AGREE_BYTES = 2 * LS_AGREE_COUNT * (int)sizeof(uint64_t) };

struct ls_reducer {
    ls_run *run;
    ls_device *device; /* of everything that is trained; NULL while there is nothing */
    ls_comm_queue *queue;
    ls_reducer_opts opts;

    ls_slot **slots;
    int slot_count, slot_capacity;
    int *order;     /* [slot_count] slots in the order of buckets */
    bool ordered;   /* as a backward pass completed them */
    int *completed; /* [slot_count] slots as the pass at hand completes them */
    int completed_count;
    /* [slot_count] by anybody; then 1 + the rank of one whose loss was not finite, or 0; then: do weights count? Then
     * what must be alike (agree.c). */
    uint8_t *used;
    uint64_t course;     /* the caller's, as the pass at hand began */
    bool parted;         /* it was not the same in all, in the last reduction */
    bool values_told;    /* parameters are no longer compared: they differ, and that was said where it is a mistake */
    ls_weights *weights; /* [size] of all, where they do */
    bool odd;            /* a loss of this process was not finite since the last reduction */
    int odd_rank;        /* of one whose loss was not finite before the last reduction; -1: there was none */
    ls_bucket *buckets;
    int bucket_count, next; /* the next to be started */
    ls_extent *extents;     /* [slot_count] of all buckets */

    ls_gradient_block *blocks;
    int block_count;
    ls_tensor *compressed; /* one reference: numbers on their way; NULL until needed */
    int64_t *counts;       /* [size] of a call at work */
    bool in_slices;        /* with shard: gradients that are there were reduced, to slices */

    ls_tensor **buffers; /* one reference each */
    int buffer_count;
    ls_tensor *packed;       /* u8, one reference: their values on their way; NULL: no memory yet */
    ls_comm_request sending; /* of those; without work: not under way */
    ls_comm_request asking;  /* of `used`; without work: not under way */

    bool at_work; /* the pass at hand ends in a reduction */
    bool active;  /* this process walked back in it; else it only takes part in those of others */
    bool joining;
    int source; /* rank whose values count: 0, or the last that went on */
};

/* The communicator, for the thread of the run: only while nothing is under way. */
ls_comm *ls_reducer_comm(ls_reducer *reducer);
/* Record the failure of a collective. True for LS_OK. */
bool ls_reducer_check(ls_reducer *reducer, ls_status status, const ls_message *why, const char *who);
/* The run has failed here: nobody must wait for this process; where memory is forgiven, all try again. */
void ls_reducer_call_off(ls_reducer *reducer);

/* values.c: parameters and buffers become those of rank `source`. */
bool ls_reducer_send_all(ls_reducer *reducer);

/* buffers.c: start to make buffers those of rank `source`; wait until they are. False (and an error) on failure. */
bool ls_buffers_start(ls_reducer *reducer);
bool ls_buffers_wait(ls_reducer *reducer);
void ls_buffers_unpack(ls_reducer *reducer); /* there are others now, or none */

/* agree.c: tell the others where this process stands; were they all the same? */
void ls_agree_tell(const ls_reducer *reducer, uint8_t bytes[LS_AGREE_BYTES]);
bool ls_agree_hear(const uint8_t bytes[LS_AGREE_BYTES], ls_agreement which);

/* buckets.c: distribute the slots that are trained; false (and an error) when memory is out. */
bool ls_buckets_make(ls_reducer *reducer);
void ls_buckets_free(ls_reducer *reducer);
/* Start the reduction of a bucket; wait for it. */
void ls_bucket_start(ls_reducer *reducer, ls_bucket *bucket);
bool ls_bucket_wait(ls_reducer *reducer, ls_bucket *bucket);

/* shard.c: the elements of `part` of a block of n that are in the slice of each process, into reducer->counts. */
void ls_shard_counts(ls_reducer *reducer, int64_t n, ls_range part);
/* Gradients that were reduced to slices and are still there become such that reducing them again does not change
 * them: the slice counts for all, and nothing else does. */
void ls_shard_reopen(ls_reducer *reducer);

/* buckets.c: which of the blocks of gradients an address is in; INT_MAX: none. */
int ls_block_of(const ls_reducer *reducer, const char *data);

/* blocks.c: a tensor [numel], zero, in the innermost scope, where collectives move least: in memory that processes
 * share, or the device's. */
ls_tensor *ls_shared_tensor(ls_reducer *reducer, ls_dtype dtype, int64_t numel);

/* walk.c: the gradient of a slot is complete. */
void ls_slot_ready(ls_tensor *leaf, void *slot);

#endif
