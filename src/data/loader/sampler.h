/* sampler.h - orders of an epoch, as the loader sees them. */
#ifndef LOCKSTEP_DATA_LOADER_SAMPLER_H
#define LOCKSTEP_DATA_LOADER_SAMPLER_H

#include <lockstep/data.h>

#include "tensor/context.h"

struct ls_sampler {
    ls_object object;
    const char *kind; /* "weighted sampler" */
    /* How many samples an epoch of a dataset of `count` has; -1 (and an error) when it does not fit. */
    int64_t (*length)(const ls_sampler *sampler, int64_t count);
    /* Write them: a function of key (of seed and epoch) and epoch. There is room for the larger of count and length.
     * False (and an error) when that cannot be done. */
    bool (*order)(const ls_sampler *sampler, int64_t count, uint64_t key, int64_t epoch, int64_t *samples);

    int64_t draws; /* 0: as many as there are samples */
    bool replacement, shuffle, drop_last;
    int rank, world;
    int64_t weight_count, positive_count;
    double *weights;  /* with replacement: sums up to and including each */
    struct ls_keyed { /* without: room for sorting */
        double key;
        int64_t sample;
    } * keyed;
    ls_order_fn *own;
    void *user;
    int64_t *lists;  /* of batches: where each begins, and the end of the last */
    int64_t *listed; /* their samples */
    int64_t list_count;
    int64_t *by_length; /* of a length sampler: all samples, the longest first */
    int64_t length_count, batch, pool;
};

/* A sampler that only has its kind and draws; NULL (and an error) where they make no sense. */
ls_sampler *ls_sampler_begin(ls_run *run, const char *kind, int64_t draws);

/* A plain shuffle, which needs no sampler: count numbers. */
void ls_order_shuffled(uint64_t key, int64_t count, int64_t *samples);

#endif
