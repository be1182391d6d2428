/* status.h - signs of life of a run, in the folder of its tracker: what each process of this host does, how fast it
 * trains, the memory it takes, and which checkpoints there are.
 *
 * A thread writes them, so that they also tell what a run does that hangs in a collective. status.json is replaced
 * every second; system.jsonl gets a line with rates and memory every second at first, later every ten. */
#ifndef LOCKSTEP_TRACK_STATUS_H
#define LOCKSTEP_TRACK_STATUS_H

#include <lockstep/run.h>

#define LS_TRACK_STATUS "status.json"
#define LS_TRACK_SYSTEM "system.jsonl"

typedef struct ls_status_writer ls_status_writer;

/* NULL if there is no memory or no thread: the run trains without. */
ls_status_writer *ls_status_open(ls_run *run, const char *folder);
/* The main thread has recorded this step: note it, and what only that thread may look at. */
void ls_status_note(ls_status_writer *writer, ls_run *run, int64_t step);
/* Write a last time that the run has ended; `error`: why it failed, or NULL. */
void ls_status_close(ls_status_writer *writer, const char *error); /* a NULL writer is accepted */

#endif
