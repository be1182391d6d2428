/* batch_slot.h - one batch that is being assembled: where its samples are written, and how it becomes tensors.
 *
 * Fields of fixed size are written directly into the batch: on the CPU into the memory of the tensor that will be
 * delivered, otherwise into pinned memory from which the device copies. Fields with varying sizes go to one cell per
 * sample and are combined when all sizes are known. Images are copied to a device as bytes. Slots are reused, so
 * nothing is allocated once batches have reached their usual size. Functions that take a run must be called on its
 * thread. */
#ifndef LOCKSTEP_DATA_LOADER_BATCH_SLOT_H
#define LOCKSTEP_DATA_LOADER_BATCH_SLOT_H

#include "data/datasets/sample.h"

typedef struct ls_batch_slot {
    int64_t size;                     /* samples it is for */
    int64_t count;                    /* samples it has; fewer at the end of a stream */
    int64_t *place;                   /* [room] samples requested by the order */
    int64_t *index;                   /* [room] samples actually used: different if bad ones were replaced */
    int64_t room;                     /* samples that fit in memory */
    char *fixed[LS_MAX_FIELDS];       /* where samples of fixed size are written; NULL: sizes vary */
    ls_tensor *tensor[LS_MAX_FIELDS]; /* owned; on the CPU, `fixed` points into them while the slot fills */
    ls_cell *cells[LS_MAX_FIELDS];    /* [room] for varying sizes, or images copied as bytes */
    void *pinned[LS_MAX_FIELDS];      /* on other devices */
    size_t pinned_bytes[LS_MAX_FIELDS];
    ls_event *event; /* the copy from pinned memory is done */
    bool copying;    /* the copy has started, and was not waited for */
    bool uploaded;   /* ahead of delivery: tensor[] are the ones to deliver */

    /* Maintained by the prefetcher, under its lock. */
    int64_t issued, done; /* samples that a thread has taken, has finished */
    int64_t real, after;  /* of a stream: samples of this round that are not repeats; samples read up to its end */
    int64_t bad;          /* samples that were replaced */
    int64_t failed_at;    /* the lowest sample that failed, and how; -1: none */
    int64_t bad_at;       /* the lowest that was replaced, and why; -1: none */
    ls_status status;
    ls_message failure, bad_reason;
} ls_batch_slot;

/* A tensor for a field of a batch, owned by no scope; NULL (and an error) if out of memory. */
ls_tensor *ls_field_tensor(ls_run *run, const ls_field *field, ls_shape shape);

/* Prepare for `size` samples; false (and an error) if out of memory. */
bool ls_batch_slot_prepare(ls_run *run, ls_batch_slot *slot, const ls_reading *reading, int64_t size);
/* The same for samples that never become tensors: in plain memory. */
bool ls_batch_slot_prepare_plain(ls_run *run, ls_batch_slot *slot, const ls_reading *reading, int64_t size);
/* Start the copies of a full slot to the device ahead of its delivery, overlapping with other work. Does nothing on the
 * CPU, or if there is no memory for another batch. */
void ls_batch_slot_upload_ahead(ls_run *run, ls_batch_slot *slot, const ls_reading *reading);
/* Turn what was written into tensors of the innermost scope. */
bool ls_batch_slot_deliver(ls_run *run, ls_batch_slot *slot, const ls_reading *reading, ls_tensor **tensors);
/* widen.c: the images of field i were copied as bytes; let the device convert them, into a new slot->tensor[i]. */
bool ls_batch_slot_widen(ls_run *run, ls_batch_slot *slot, const ls_reading *reading, int i);
/* Let a sample be written to place j of the slot. */
void ls_batch_slot_point(const ls_batch_slot *slot, const ls_reading *reading, int64_t j, ls_sample *sample);
/* Write sample `from` of another slot to place j; false (and sample->status) if out of memory. */
bool ls_batch_slot_copy(const ls_batch_slot *slot, const ls_reading *reading, int64_t j, const ls_batch_slot *source,
                        int64_t from, ls_sample *sample);
/* Release tensors that were not delivered. */
void ls_batch_slot_forget(ls_batch_slot *slot);
void ls_batch_slot_clear(ls_run *run, ls_batch_slot *slot);

#endif
