/* snapshot.h - the files of a checkpoint before they are files: lists of tensors and pieces of text.
 *
 * Filled by the run's thread, written by it or by another. What is to be written while training goes on is copied
 * first; else tensors stay where they are, if that is host memory. */
#ifndef LOCKSTEP_CHECKPOINT_SNAPSHOT_H
#define LOCKSTEP_CHECKPOINT_SNAPSHOT_H

#include "base/arena.h"
#include "base/json.h"
#include "checkpoint/manifest.h"
#include "formats/safetensors.h"
#include "tensor/state.h"

typedef struct ls_snapshot_file {
    const char *name;
    int64_t count; /* tensors; -1: it is `bytes` */
    ls_plain_tensor *tensors;
    const ls_state *source; /* of tensors whose numbers are fetched when they are written */
    const void *bytes;
    size_t size;
    struct ls_snapshot_file *next;
} ls_snapshot_file;

/* Memory for copies, kept from one checkpoint to the next: fresh pages cost more than the copying. */
typedef struct ls_copies {
    ls_device *device; /* whose copies run fast into it: pinned, where the device has that */
    char *memory;
    size_t size, used;
} ls_copies;

typedef struct ls_snapshot {
    ls_run *run;
    ls_arena arena;
    ls_copies *copies; /* NULL: nothing is copied */
    ls_snapshot_file *first, *last;
    ls_manifest manifest;
} ls_snapshot;

void ls_copies_free(ls_copies *copies);

/* These record an error of the run and return false when memory is out. */
bool ls_snapshot_add_tensors(ls_snapshot *snapshot, const char *name, const ls_state *state);
bool ls_snapshot_add_bytes(ls_snapshot *snapshot, const char *name, const void *bytes, size_t size);
/* What was written is taken; the writer is empty again. */
bool ls_snapshot_add_json(ls_snapshot *snapshot, const char *name, ls_json_writer *writer);
/* Before tensors are added: have room for all their copies. */
bool ls_snapshot_reserve(ls_snapshot *snapshot, size_t bytes);
size_t ls_snapshot_bytes(const ls_state *state);

/* Write all files, and the manifest, into a folder. Nothing is forced to the disk: ls_folder_publish() does that. */
bool ls_snapshot_write(const ls_snapshot *snapshot, const char *folder, ls_message *why);
/* By the run's thread. */
void ls_snapshot_clear(ls_snapshot *snapshot);

#endif
