/* writer.h - one snapshot on its way to the disk: written at once, or by a thread while training goes on. */
#ifndef LOCKSTEP_CHECKPOINT_WRITER_H
#define LOCKSTEP_CHECKPOINT_WRITER_H

#include <pthread.h>

#include "checkpoint/snapshot.h"

typedef struct ls_writer {
    ls_snapshot snapshot; /* filled by the caller */
    ls_copies copies;     /* where those of snapshots go; kept */
    char *folder;         /* to be published; the writer's */
    char *part;           /* where files are put until then; the writer's */
    char *parent;         /* of numbered folders, to be pruned; NULL: this one has no number */
    int64_t limit;        /* of numbered folders; LS_AUTO: none */

    bool running; /* in a thread that has not been waited for */
    pthread_t thread;
    bool failed;
    ls_message why;
} ls_writer;

/* Write what the writer was given: now, or in a thread (then all tensors must have been copied). */
void ls_writer_start(ls_writer *writer, bool in_thread);
/* Wait for the thread, if one runs, and let go what was written. False, with the reason, when that failed. */
bool ls_writer_wait(ls_writer *writer, ls_message *why);
/* Wait, and let go everything. */
void ls_writer_free(ls_writer *writer);

#endif
