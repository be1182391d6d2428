/* sample.h - a sample on its way into a batch: where a dataset's callback writes it. */
#ifndef LOCKSTEP_DATA_DATASETS_SAMPLE_H
#define LOCKSTEP_DATA_DATASETS_SAMPLE_H

#include "data/datasets/dataset.h"

/* Memory for one sample: of a field with varying sizes, or the numbers of an image that is otherwise copied as bytes.
 * Grows, is reused for later samples, and belongs to the slot. */
typedef struct ls_cell {
    void *data;
    size_t room;
    ls_shape shape; /* ndim -1: not set */
} ls_cell;

/* How varying sizes are rounded up. */
typedef struct ls_rounding {
    int64_t multiple; /* at least 1 */
    int64_t most;     /* not beyond this, unless a sample is larger; 0: no limit */
} ls_rounding;

/* Shared by all samples of a loader. */
typedef struct ls_reading {
    const ls_field *fields;   /* as in batches */
    const ls_field *declared; /* as the dataset gave them: images have another size before their transform */
    int field_count;
    size_t bytes[LS_MAX_FIELDS]; /* of a sample in transit; 0: sizes vary */
    /* f32 images for another device: the decoder's bytes are copied, and the device converts them to numbers. If the
     * program asks for the memory of such an image, it gets a cell with the numbers, and those are copied too. */
    bool as_bytes[LS_MAX_FIELDS];
    const ls_transform *transform;
    uint64_t sample_key, transform_key; /* keys of the epoch's random numbers */
    ls_rounding rounding;
} ls_reading;

/* Reused for many samples by one thread. All zero except `reading` is a valid initial state. */
struct ls_sample {
    const ls_reading *reading;
    void *fixed[LS_MAX_FIELDS];    /* this sample's place in the batch, for fields of fixed size */
    ls_cell *cells[LS_MAX_FIELDS]; /* for the others, and for images copied as bytes */
    int64_t place;                 /* the index in the order, which determines the random numbers */
    uint64_t draws;                /* random numbers drawn */
    bool not_needed;               /* not needed: images are not decoded */
    ls_status status;
    ls_message why;
    void *scratch; /* of the thread */
    size_t scratch_bytes;
};

/* Let a dataset write sample `index`; false on failure, with the cause in sample->status and why. */
bool ls_sample_get(ls_sample *sample, const ls_dataset *set, int64_t index);
/* The same for the next sample of a stream; false with status LS_OK at its end. */
bool ls_sample_next(ls_sample *sample, const ls_dataset *set);
void ls_sample_clear(ls_sample *sample);

#endif
