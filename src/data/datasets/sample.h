/* sample.h - a sample on its way into a batch: where a dataset's function writes it. */
#ifndef LOCKSTEP_DATA_DATASETS_SAMPLE_H
#define LOCKSTEP_DATA_DATASETS_SAMPLE_H

#include "data/datasets/dataset.h"

/* Memory of one sample alone: its part of a field whose sizes vary, or the numbers of a picture that was to travel as
 * bytes. Grows, is kept for later samples, and is the slot's own. */
typedef struct ls_cell {
    void *data;
    size_t room;
    ls_shape shape; /* ndim -1: not asked for */
} ls_cell;

/* What all samples of a loader share. */
typedef struct ls_reading {
    const ls_field *fields; /* as batches have them */
    int field_count;
    size_t bytes[LS_MAX_FIELDS]; /* of a sample on its way; 0: sizes vary */
    /* Pictures of f32 for another device: the decoder's bytes travel, and the device makes numbers of them. Where a
     * program asks for the memory of such a picture, it gets a cell with the numbers, and those travel too. */
    bool as_bytes[LS_MAX_FIELDS];
    const ls_transform *transform;
    uint64_t sample_key, transform_key; /* of the epoch's random numbers */
    int64_t pad_multiple;               /* sizes that vary become multiples of it; at least 1 */
} ls_reading;

/* One is used for many samples, by one thread. All zero but `reading` is a start. */
struct ls_sample {
    const ls_reading *reading;
    void *fixed[LS_MAX_FIELDS];    /* this sample's place in the batch, for fields of fixed size */
    ls_cell *cells[LS_MAX_FIELDS]; /* for the others, and where pictures travel as bytes */
    int64_t place;                 /* what the random numbers belong to: the index the order asked for */
    uint64_t draws;                /* of random numbers */
    bool passed_over;              /* nobody will look at it: pictures need not be decoded */
    ls_status status;
    ls_message why;
    void *scratch; /* the thread's */
    size_t scratch_bytes;
};

/* Let a dataset write sample `index`; false when it failed, and sample->status and why say how. */
bool ls_sample_get(ls_sample *sample, const ls_dataset *set, int64_t index);
/* The same for the next sample of a stream; false with status LS_OK at its end. */
bool ls_sample_next(ls_sample *sample, const ls_dataset *set);
void ls_sample_clear(ls_sample *sample);

#endif
