/* sampler.h - orders of an epoch, for the loader. */
#ifndef LOCKSTEP_DATA_LOADER_SAMPLER_H
#define LOCKSTEP_DATA_LOADER_SAMPLER_H

#include <lockstep/data.h>

#include "tensor/context.h"

struct ls_sampler {
    ls_object object;
    const char *kind; /* "weighted sampler" */
    /* The number of samples in an epoch of a dataset of `count`; -1 (and an error) if it does not fit. */
    int64_t (*length)(const ls_sampler *sampler, int64_t count);
    /* Write them: a function of key (derived from seed and epoch) and epoch. There is room for the larger of count and
     * length. False (and an error) on failure. */
    bool (*order)(const ls_sampler *sampler, int64_t count, uint64_t key, int64_t epoch, int64_t *samples);

    int64_t draws; /* 0: the number of samples */
    bool replacement, shuffle, drop_last;
    int rank, world;
    int64_t weight_count, positive_count;
    double *weights;  /* with replacement: cumulative sums */
    struct ls_keyed { /* without: room for sorting */
        double key;
        int64_t sample;
    } * keyed;
    ls_order_fn *own;
    void *user;
    int64_t *lists;  /* of a batch list: start of each batch, and the end of the last */
    int64_t *listed; /* their samples */
    int64_t list_count;
    int64_t *by_length; /* of a length sampler: all samples, longest first */
    int64_t length_count, batch, pool;
};

/* A sampler with only its kind and draws; NULL (and an error) if they are invalid. */
ls_sampler *ls_sampler_begin(ls_run *run, const char *kind, int64_t draws);

/* A plain shuffle of count numbers, which needs no sampler. */
void ls_order_shuffled(uint64_t key, int64_t count, int64_t *samples);

#endif
