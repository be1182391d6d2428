/* inside.h - shared by the files of this folder. */
#ifndef LOCKSTEP_PARALLEL_INSIDE_H
#define LOCKSTEP_PARALLEL_INSIDE_H

#include "parallel/reducer.h"
#include "step/step.h"

/* A parameter. */
typedef struct ls_slot {
    ls_reducer *reducer;
    ls_tensor *tensor; /* one reference */
    char *name;
    int index;    /* among all slots */
    int bucket;   /* -1: not trained at present */
    bool trained; /* when the buckets were made */
    bool ready;   /* its gradient is complete in the current pass */
} ls_slot;

/* A contiguous range of elements. */
typedef struct ls_extent {
    char *data; /* on the reducer's device */
    int64_t count;
    ls_dtype dtype;
    int block;      /* index of its gradient block; INT_MAX: none */
    int64_t offset; /* in the block, in bytes; without a block: position in the bucket */
} ls_extent;

typedef struct ls_bucket {
    ls_comm_request request;
    int first, count; /* of reducer->order */
    int missing;      /* number of gradients not complete yet */
    int extent_count;
    ls_extent *extents; /* [count] */
    char site[56];      /* for messages */
} ls_bucket;

/* A block of gradients: in memory shared by the processes if the device is the host. */
typedef struct ls_gradient_block {
    char *base;
    size_t bytes;
} ls_gradient_block;

/* A process's share of a group of batches (step/accumulate.h); zeros: it has no more. */
typedef struct ls_weights {
    double sum, plan;
} ls_weights;

/* What must be equal in all processes that train one model; compared in every reduction. */
typedef enum ls_agreement {
    LS_AGREE_STEPS,  /* progress of the optimisers: ls_reducer.course */
    LS_AGREE_VALUES, /* values of the parameters */
    LS_AGREE_COUNT,
} ls_agreement;

enum { LS_AGREE_BYTES = 2 * LS_AGREE_COUNT * (int)sizeof(uint64_t) };

/* What a process tells all others beside gradients (notice.c). */
typedef struct ls_notice {
    ls_comm_request request; /* work NULL: not in flight */
    uint8_t *bytes;          /* ls_notice_bytes() */
} ls_notice;

/* What all of them told in the last one. */
typedef struct ls_heard {
    const uint8_t *used;  /* [slot_count] gradients that any process used */
    int odd_rank;         /* a process whose loss was not finite; -1: none */
    bool weighted;        /* weights are used */
    const uint8_t *agree; /* bytes for ls_agree_hear() */
} ls_heard;

struct ls_reducer {
    ls_run *run;
    ls_device *device; /* of everything trained; NULL: nothing yet */
    ls_comm_queue *queue;
    ls_reducer_opts opts;

    ls_slot **slots;
    int slot_count, slot_capacity;
    int *order;     /* [slot_count] slots in the order of buckets */
    bool ordered;   /* order of completion in a backward pass is known */
    int *completed; /* [slot_count] slots in the order in which the current pass completes them */
    int completed_count;
    ls_notice notices[2]; /* before the first of several buckets; before the last */
    bool unlike;          /* other parameters are trained here than elsewhere: nothing more is reduced in this pass */
    uint64_t course;      /* given by the caller at the start of the current pass */
    bool parted;          /* it differed between processes in the last reduction */
    bool values_told;     /* parameters are no longer compared: they differ, and this was reported if it is a mistake */
    ls_weights *weights;  /* [size] of all processes, if weights are used */
    bool odd;             /* a loss of this process was not finite since the last reduction */
    int odd_rank;         /* rank whose loss was not finite before the last reduction; -1: none */
    ls_bucket *buckets;
    int bucket_count, next; /* the next to start */
    ls_extent *extents;     /* [slot_count] of all buckets */

    ls_gradient_block *blocks;
    int block_count;
    ls_tensor *compressed; /* one reference: buffer for sending; NULL until needed */
    int64_t *counts;       /* [size] of the current call */
    bool in_slices;        /* with shard: the existing gradients were reduced, to slices */

    ls_tensor **buffers; /* one reference each */
    int buffer_count;
    ls_tensor *packed;       /* u8, one reference: buffer for sending them; NULL: not allocated yet */
    ls_comm_request sending; /* of the buffers; work NULL: not in flight */

    bool at_work; /* the current pass ends in a reduction */
    bool active;  /* this process runs backward in it; otherwise it only takes part in the others' reductions */
    bool joining;
    int source; /* rank whose values are used: 0, or the last one that continued */
};

/* The communicator, for the thread of the run: only while no request is in flight. */
ls_comm *ls_reducer_comm(ls_reducer *reducer);
/* Record the failure of a collective. True for LS_OK. */
bool ls_reducer_check(ls_reducer *reducer, ls_status status, const ls_message *why, const char *who);
/* The run has failed here: release the other processes; if running out of memory is forgiven, all of them retry. */
void ls_reducer_call_off(ls_reducer *reducer);

/* values.c: set parameters and buffers to those of rank `source`. */
bool ls_reducer_send_all(ls_reducer *reducer);

/* buffers.c: start setting buffers to those of rank `source`; wait for it. False (and an error) on failure. */
bool ls_buffers_start(ls_reducer *reducer);
bool ls_buffers_wait(ls_reducer *reducer);
void ls_buffers_unpack(ls_reducer *reducer); /* the set of buffers has changed */

/* notice.c: how many bytes it has; tell all processes, for the last time in this pass or before; wait for it, which
 * fails if they train different parameters. */
size_t ls_notice_bytes(size_t slots);
void ls_notice_start(ls_reducer *reducer, bool last);
bool ls_notices_wait(ls_reducer *reducer);
ls_heard ls_notice_heard(const ls_reducer *reducer);

/* agree.c: write what this process contributes; after the reduction, was it equal in all? */
void ls_agree_tell(const ls_reducer *reducer, uint8_t bytes[LS_AGREE_BYTES]);
bool ls_agree_hear(const uint8_t bytes[LS_AGREE_BYTES], ls_agreement which);

/* buckets.c: distribute the trained slots; false (and an error): out of memory. */
bool ls_buckets_make(ls_reducer *reducer);
void ls_buckets_free(ls_reducer *reducer);
/* Start the reduction of a bucket; wait for it. */
void ls_bucket_start(ls_reducer *reducer, ls_bucket *bucket);
bool ls_bucket_wait(ls_reducer *reducer, ls_bucket *bucket);

/* shard.c: how many elements of `part` of a block of n are in the slice of each process, into reducer->counts. */
void ls_shard_counts(ls_reducer *reducer, int64_t n, ls_range part);
/* Change gradients that were reduced to slices such that reducing them again leaves them unchanged: only the own slice
 * counts, scaled by the number of processes. */
void ls_shard_reopen(ls_reducer *reducer);

/* buckets.c: the index of the gradient block that contains an address; INT_MAX: none. */
int ls_block_of(const ls_reducer *reducer, const char *data);

/* blocks.c: a zeroed tensor [numel] in the innermost scope, where collectives are cheapest: in memory shared by the
 * processes, or on the device. */
ls_tensor *ls_shared_tensor(ls_reducer *reducer, ls_dtype dtype, int64_t numel);

/* walk.c: the gradient of a slot is complete. */
void ls_slot_ready(ls_tensor *leaf, void *slot);

#endif
