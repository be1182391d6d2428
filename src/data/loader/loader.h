/* loader.h - a loader from the inside.
 *
 * In the order of the data: create.c turns options into a loader, sampler.c puts the samples of an epoch in order,
 * shard.c says which of them make this rank's batches, prefetcher.c and its threads write those into a ring of batch
 * slots (batch_slot.c; stream.c where samples come from a stream), and loader.c, with ls_next(), hands them out: as
 * tensors of a device (widen.c), or from rank 0 to all (dispatch.c). batch.c is what the program sees of a batch,
 * position.c where a loader is when it stops. */
#ifndef LOCKSTEP_DATA_LOADER_LOADER_H
#define LOCKSTEP_DATA_LOADER_LOADER_H

#include <lockstep/data.h>

#include "data/loader/prefetcher.h"
#include "data/loader/sampler.h"
#include "data/loader/shard.h"
#include "step/step.h"

/* The most samples of a batch. */
enum { LS_MOST_SAMPLES = INT32_MAX };

struct ls_loader {
    ls_object object;
    ls_dataset *set;
    ls_loader_opts opts;            /* defaults filled in */
    ls_field fields[LS_MAX_FIELDS]; /* as batches have them: pictures with size and type */
    ls_shard shard;                 /* of the pass in progress, or of the next; shard.start: where it begins */
    int64_t *order;                 /* of the epoch: position -> sample; NULL: as the dataset has them */
    ls_prefetcher prefetcher;
    ls_loop loop; /* what the run knows of it */

    int64_t *index; /* of the batch handed out last, where rank 0 reads for all */
    int64_t index_room;
    bool settled;           /* shared out, or read from as it is: its length is what it will be */
    int64_t epoch;          /* of the pass in progress, or of the next */
    bool in_pass;           /* begun, and its end not yet reported */
    int64_t batches;        /* of the pass in progress, for this rank: from shard.start on; INT64_MAX: a stream */
    int64_t pushed, handed; /* of them: in the ring or beyond, given to the program */
    int64_t stream_read;    /* samples of a stream up to the end of the batch handed out last */
    bool has_batch;         /* the slot at the ring's beginning is the program's */
    uint64_t scope;         /* of the batch that was handed out last */
    int64_t bad;            /* samples of the pass that were replaced */
    ls_message blemish;     /* about the first of them */
    ls_tensor *tensors[LS_MAX_FIELDS]; /* of the batch handed out last */

    int64_t passes; /* read to the end since the run's epoch began, those inside another loop not counted */
    bool finished;  /* read to the end at least once since then */
    int64_t ends;   /* ls_next() says false that often first: a resumed epoch runs through loops that were done */
};

/* ---- Sharing out ---- */

/* Hand out only this rank's batches from the next pass on. False (and an error) where that cannot be. While a batch is
 * in the program's hands, loader->loop says whether it is the last and how many of its samples, over all ranks, are not
 * repeats. */
bool ls_loader_share_out(ls_loader *loader, ls_share share);

/* Does rank 0 read for all? */
static inline bool ls_loader_dispatches(const ls_loader *loader)
{
    return loader->shard.dispatch && loader->shard.world > 1;
}

/* Rank 0 has a slot with the samples of all ranks, one after the other; others have NULL. Every rank gets
 * its tensors and loader->index. */
bool ls_dispatch_deliver(ls_loader *loader, ls_batch_slot *slot, int64_t *rows);

/* ---- Passes ---- */

/* Begin the pass that loader->epoch and shard.start describe. */
bool ls_loader_begin_pass(ls_loader *loader);
/* Set batch->image and batch->label: the tensors of these names, else the first and the second. */
void ls_batch_name_tensors(ls_batch *batch);

/* ---- Stopping and resuming ---- */

/* All of a loader that is not in its options. Positions count all ranks' samples, so that another number of ranks can
 * go on from here. */
typedef struct ls_loader_state {
    uint64_t seed;
    int64_t samples; /* of an epoch; must agree. -1: a stream */
    int64_t epoch;   /* of the pass in progress, or of the next */
    int64_t start;   /* samples (batches, where they are given one by one) of the pass that were handed out */
    bool in_pass;
    int64_t passes; /* read to the end in the run's epoch, those inside another loader's pass not counted */
    bool finished;  /* read to the end in it at all */
} ls_loader_state;

ls_loader_state ls_loader_state_get(const ls_loader *loader);
/* The next ls_next() gives the batch that would have come next. False (and an error) when the state does not fit. */
bool ls_loader_state_set(ls_loader *loader, const ls_loader_state *state);

/* Samples that all ranks take at a time. */
static inline int64_t ls_loader_round(const ls_loader *loader)
{
    return loader->shard.batch * loader->shard.world;
}

/* A new epoch of the run begins, not one that is resumed: passes are counted anew, one that was broken off is over. */
void ls_loader_epoch_begin(ls_loader *loader);
/* Was it read to the end in this epoch of the run? */
bool ls_loader_epoch_done(const ls_loader *loader);

#endif
