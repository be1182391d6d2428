/* loader.h - the internals of a loader.
 *
 * In the order of the data: create.c turns options into a loader and fields.c into the fields of its batches, sampler.c
 * orders the samples of an epoch, shard.c computes which of them make this rank's batches, prefetcher.c and its threads
 * write those into a ring of batch slots (batch_slot.c; stream.c for samples of a stream), and loader.c, with
 * ls_next(), delivers them: as tensors of a device (widen.c), or from rank 0 to all (dispatch.c). batch.c gives the
 * program access to a batch, position.c saves and restores the position of a loader. one.c reads a single sample,
 * without a loader. */
#ifndef LOCKSTEP_DATA_LOADER_LOADER_H
#define LOCKSTEP_DATA_LOADER_LOADER_H

#include <lockstep/data.h>

#include "data/loader/prefetcher.h"
#include "data/loader/sampler.h"
#include "data/loader/shard.h"
#include "step/step.h"

/* Most samples of a batch. */
enum { LS_MOST_SAMPLES = INT32_MAX };

struct ls_loader {
    ls_object object;
    ls_dataset *set;
    ls_loader_opts opts;            /* complete */
    ls_field fields[LS_MAX_FIELDS]; /* as in batches: images have size and type */
    ls_shard shard;                 /* of the current or next pass; shard.start: where it begins */
    int64_t *order;                 /* of the epoch: position -> sample; NULL: dataset order */
    ls_prefetcher prefetcher;
    ls_loop loop; /* its state in the run */

    int64_t *index; /* of the last batch, with dispatch */
    int64_t index_room;
    bool settled;                      /* sharded, or already read: its length is final */
    int64_t epoch;                     /* of the current or next pass */
    bool in_pass;                      /* started, and its end not yet reported */
    int64_t batches;                   /* of this rank in the current pass, from shard.start on; INT64_MAX: a stream */
    int64_t pushed, handed;            /* of them: put into the ring, delivered to the program */
    int64_t stream_read;               /* samples of a stream up to the end of the last batch */
    bool has_batch;                    /* the program uses the oldest slot of the ring */
    uint64_t scope;                    /* of the last batch */
    int64_t bad;                       /* samples of the pass that were replaced */
    ls_message bad_reason;             /* about the first of them */
    ls_tensor *tensors[LS_MAX_FIELDS]; /* of the last batch */

    int64_t passes; /* complete passes since the run's epoch began, except nested ones */
    bool finished;  /* at least one complete pass since then */
    int64_t ends;   /* how often ls_next() first returns false: a resumed epoch runs through finished loops */
};

/* ---- Sharding ---- */

/* Deliver only this rank's batches from the next pass on. False (and an error) if that is not possible. While the
 * program uses a batch, loader->loop says whether it is the last and how many of its samples, over all ranks, are not
 * repeats. */
bool ls_loader_share_out(ls_loader *loader, ls_share share);

/* Does rank 0 read for all? */
static inline bool ls_loader_dispatches(const ls_loader *loader)
{
    return loader->shard.dispatch && loader->shard.world > 1;
}

/* Rank 0 passes a slot with the samples of all ranks, one after the other; others pass NULL. Every rank gets its
 * tensors and loader->index. */
bool ls_dispatch_deliver(ls_loader *loader, ls_batch_slot *slot, int64_t *rows);

/* ---- Passes ---- */

/* Start the pass that loader->epoch and shard.start describe. */
bool ls_loader_begin_pass(ls_loader *loader);
/* Set batch->image and batch->label: the tensors of these names, else the first and the second. */
void ls_batch_name_tensors(ls_batch *batch);

/* ---- Stopping and resuming ---- */

/* The state of a loader apart from its options. Positions count all ranks' samples, so that another number of ranks can
 * continue from here. */
typedef struct ls_loader_state {
    uint64_t seed;
    int64_t samples; /* of an epoch; must match. -1: a stream */
    int64_t epoch;   /* of the current or next pass */
    int64_t start;   /* samples of the pass delivered so far (batches, with a batch list) */
    bool in_pass;
    int64_t passes; /* complete passes in the run's epoch, except nested ones */
    bool finished;  /* at least one complete pass in it */
} ls_loader_state;

ls_loader_state ls_loader_state_get(const ls_loader *loader);
/* The next ls_next() returns the batch that would have come next. False (and an error) if the state does not match. */
bool ls_loader_state_set(ls_loader *loader, const ls_loader_state *state);

/* Samples per round, over all ranks. */
static inline int64_t ls_loader_round(const ls_loader *loader)
{
    return loader->shard.batch * loader->shard.world;
}

/* A new epoch of the run begins (not a resumed one): passes are counted from 0, and an unfinished one ends. */
void ls_loader_epoch_begin(ls_loader *loader);
/* Was there a complete pass in this epoch of the run? */
bool ls_loader_epoch_done(const ls_loader *loader);

#endif
