/* session.h - the program that holds the values of a notebook: it loads cells and runs them. */
#ifndef LOCKSTEP_NOTEBOOK_SESSION_H
#define LOCKSTEP_NOTEBOOK_SESSION_H

#include <lockstep.h>
#include <stdbool.h>
#include <sys/types.h>

#include "wire.h"

/* Send a message to the kernel, with a payload unless it is NULL. Standard output is flushed first, so that the kernel
 * sees both in order. */
void session_send(const session_message *message, const void *payload, size_t size);
/* Send a message about the running cell from a signal handler; not from a process that the cell has forked. */
void session_tell(const session_message *message);

/* Standard input asks the user, through the kernel at this socket, which must stay where it is. */
void input_open(int *socket);
/* A cell begins: what an earlier one left unread is forgotten. */
void input_begin(void);

/* Remember where standard output and error lead. */
void output_open(void);
/* A cell begins: they lead there again. */
void output_begin(void);

/* Progress bars are shown below the cell from now on. */
void progress_open(void);

/* Draw the curves of the cell that ends, and forget them. */
void curves_end(void);
/* Draw those of a run that ends: later it cannot. */
void curves_finish(const ls_run *run);

/* ---- failure.c: a cell that ran to its end, but in which something failed, is an error all the same ---- */

/* A cell begins. */
void failure_begin(void);
/* Something failed: its kind, such as "RunError", and what to tell the user. */
LS_PRINTF(2, 3) void failure_note(const char *kind, const char *format, ...);
/* The first failure of the cell; "" if nothing failed, and its words. */
const char *failure_kind(void);
const char *failure_words(void);

/* Let ls_should_stop() know of an interrupt that came before it was asked for the first time. */
void interrupt_pass_on(void);

/* Note the errors that the cell has caused in runs. */
void runs_note_errors(void);

/* ---- crash.c ---- */

/* Signals of a crash tell the kernel where it was, unless a cell handles them itself. */
void crash_open(void);
/* A cell begins, of this library. */
void crash_begin(const char *library);

/* ---- snapshot.c: the session as it was before a cell ----
 *
 * The process forks: the child runs the cell, and the parent waits. If the child ends before the cell does, the parent
 * is the session as it was. If the cell ends well, the child is the session, and the parent goes.
 *
 * There is one snapshot while a cell runs, and none between cells. A process with threads cannot be copied so: only the
 * thread that forks is in the child. */

typedef enum snapshot_state {
    SNAPSHOT_NONE,     /* not possible: the cell runs in this process */
    SNAPSHOT_TAKEN,    /* this is the child */
    SNAPSHOT_RESTORED, /* this is the parent: the child died, which has been reported */
} snapshot_state;

/* Is there a reason to run a cell without a snapshot? */
snapshot_obstacle snapshot_prevented_by(void);
snapshot_state snapshot_begin(void);
/* In the child: the cell ended well. */
void snapshot_end(void);

#endif
