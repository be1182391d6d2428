/* writer.h - write one snapshot to disk: synchronously, or in a thread while training continues. */
#ifndef LOCKSTEP_CHECKPOINT_WRITER_H
#define LOCKSTEP_CHECKPOINT_WRITER_H

#include <pthread.h>

#include "checkpoint/snapshot.h"

typedef struct ls_writer {
    ls_snapshot snapshot; /* filled by the caller */
    ls_copies copies;     /* memory for the snapshot's copies; reused */
    char *folder;         /* to be published; owned */
    char *part;           /* temporary folder until then; owned */
    char *parent;         /* parent of numbered folders, to be pruned; NULL: not numbered */
    int64_t limit;        /* most numbered folders; LS_AUTO: no limit */

    char *saved; /* the folder published last; owned; NULL: none yet */

    bool running; /* a thread has not been waited for */
    pthread_t thread;
    bool failed;
    ls_message why;
} ls_writer;

/* Write the snapshot: now, or in a thread (then all tensors must have been copied). */
void ls_writer_start(ls_writer *writer, bool in_thread);
/* Wait for the thread, if any, and free what was written. False if writing failed, with the reason. */
bool ls_writer_wait(ls_writer *writer, ls_message *why);
/* Wait, and free everything. */
void ls_writer_free(ls_writer *writer);

#endif
