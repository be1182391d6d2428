/* batch_slot.h - one batch in the making: where its samples are written, and how it becomes tensors.
 *
 * Fields of fixed size are written straight into the batch: on the CPU into the memory of the tensor that will be
 * handed out, otherwise into pinned memory from which the device copies. Fields whose sizes vary go to one cell for
 * each sample and are put together when all sizes are known. Pictures travel to a device as bytes. Slots are used
 * again, so nothing is taken from the system when batches have reached their usual size. Functions that take a run
 * belong to its thread. */
#ifndef LOCKSTEP_DATA_LOADER_BATCH_SLOT_H
#define LOCKSTEP_DATA_LOADER_BATCH_SLOT_H

#include "data/datasets/sample.h"

typedef struct ls_batch_slot {
    int64_t size;                     /* samples it is made for */
    int64_t count;                    /* samples it has; fewer where a stream ends */
    int64_t *place;                   /* [room] which the order asked for */
    int64_t *index;                   /* [room] which these are: others where bad ones were replaced */
    int64_t room;                     /* samples there is memory for */
    char *fixed[LS_MAX_FIELDS];       /* where samples of fixed size are written; NULL: sizes vary */
    ls_tensor *tensor[LS_MAX_FIELDS]; /* owned; while the slot fills: whose memory that is, on the CPU */
    ls_cell *cells[LS_MAX_FIELDS];    /* [room] where sizes vary or pictures travel as bytes */
    void *pinned[LS_MAX_FIELDS];      /* on other devices */
    size_t pinned_bytes[LS_MAX_FIELDS];
    ls_event *event; /* the copy out of the pinned memory is done */
    bool copying;    /* it has begun, and nobody has waited for it */
    bool uploaded;   /* ahead of delivery: tensor[] are those that will be handed out */

    /* Kept by the prefetcher, under its lock. */
    int64_t issued, done; /* samples that a thread has taken, has finished */
    int64_t real, after;  /* of a stream: samples of this round that are no repeats; samples read up to its end */
    int64_t bad;          /* samples that were replaced */
    int64_t failed_at;    /* the lowest sample that failed, and how; -1: none */
    int64_t bad_at;       /* the lowest that was replaced, and why; -1: none */
    ls_status status;
    ls_message failure, blemish;
} ls_batch_slot;

/* A tensor for a field of a batch that no scope owns; NULL (and an error) when memory is out. */
ls_tensor *ls_field_tensor(ls_run *run, const ls_field *field, ls_shape shape);

/* Get ready for `size` samples; false (and an error) when memory is out. */
bool ls_batch_slot_prepare(ls_run *run, ls_batch_slot *slot, const ls_reading *reading, int64_t size);
/* The same for samples that stay here and never become tensors: in plain memory. */
bool ls_batch_slot_prepare_plain(ls_run *run, ls_batch_slot *slot, const ls_reading *reading, int64_t size);
/* Start the copies of a full slot to the device ahead of its delivery, beside other work. Nothing happens on the CPU,
 * or where memory for one more batch is out. */
void ls_batch_slot_upload_ahead(ls_run *run, ls_batch_slot *slot, const ls_reading *reading);
/* Turn what was written into tensors of the innermost scope. */
bool ls_batch_slot_deliver(ls_run *run, ls_batch_slot *slot, const ls_reading *reading, ls_tensor **tensors);
/* widen.c: the pictures of field i came as bytes; let the device make numbers of them, in a new slot->tensor[i]. */
bool ls_batch_slot_widen(ls_run *run, ls_batch_slot *slot, const ls_reading *reading, int i);
/* Let a sample be written to place j of the slot. */
void ls_batch_slot_point(const ls_batch_slot *slot, const ls_reading *reading, int64_t j, ls_sample *sample);
/* Write sample `from` of another slot to place j; false (and sample->status) when memory is out. */
bool ls_batch_slot_copy(const ls_batch_slot *slot, const ls_reading *reading, int64_t j, const ls_batch_slot *source,
                        int64_t from, ls_sample *sample);
/* Let go of tensors that were not delivered. */
void ls_batch_slot_forget(ls_batch_slot *slot);
void ls_batch_slot_clear(ls_run *run, ls_batch_slot *slot);

#endif
