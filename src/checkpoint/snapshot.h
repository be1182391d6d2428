/* snapshot.h - the files of a checkpoint before they are written: lists of tensors and pieces of text.
 *
 * Filled by the run's thread, written by it or by another. Data written while training continues is copied first;
 * otherwise tensors in host memory are used in place. */
#ifndef LOCKSTEP_CHECKPOINT_SNAPSHOT_H
#define LOCKSTEP_CHECKPOINT_SNAPSHOT_H

#include "base/arena.h"
#include "base/json.h"
#include "checkpoint/manifest.h"
#include "formats/safetensors.h"
#include "tensor/state.h"

typedef struct ls_snapshot_file {
    const char *name;
    int64_t count; /* tensors; -1: `bytes` is used instead */
    ls_plain_tensor *tensors;
    const ls_state *source; /* tensors whose data is fetched when written */
    const void *bytes;
    size_t size;
    struct ls_snapshot_file *next;
} ls_snapshot_file;

/* Memory for copies, kept from one checkpoint to the next: fresh pages cost more than the copy. */
typedef struct ls_copies {
    ls_device *device; /* device with fast copies to it: pinned memory, if supported */
    char *memory;
    size_t size, used;
} ls_copies;

typedef struct ls_snapshot {
    ls_run *run;
    ls_arena arena;
    ls_copies *copies; /* NULL: no copies */
    ls_snapshot_file *first, *last;
    ls_manifest manifest;
} ls_snapshot;

void ls_copies_free(ls_copies *copies);

/* These record an error in the run and return false if out of memory. */
bool ls_snapshot_add_tensors(ls_snapshot *snapshot, const char *name, const ls_state *state);
bool ls_snapshot_add_bytes(ls_snapshot *snapshot, const char *name, const void *bytes, size_t size);
/* Takes the text out of the writer, which is then empty. */
bool ls_snapshot_add_json(ls_snapshot *snapshot, const char *name, ls_json_writer *writer);
/* Before adding tensors: reserve memory for all their copies. */
bool ls_snapshot_reserve(ls_snapshot *snapshot, size_t bytes);
size_t ls_snapshot_bytes(const ls_state *state);

/* Write all files and the manifest into a folder. Nothing is flushed to disk: ls_folder_publish() does that. */
bool ls_snapshot_write(const ls_snapshot *snapshot, const char *folder, ls_message *why);
/* Only from the run's thread. */
void ls_snapshot_clear(ls_snapshot *snapshot);

#endif
