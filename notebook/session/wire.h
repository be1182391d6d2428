/* wire.h - messages between the kernel, which speaks with Jupyter, and the session, which holds the values.
 *
 * They are packets of a socket (SOCK_SEQPACKET), so that several processes of a session can send without mixing theirs.
 * What may be large travels in a file in memory whose descriptor is passed along. Both programs are of one build. */
#ifndef LOCKSTEP_NOTEBOOK_WIRE_H
#define LOCKSTEP_NOTEBOOK_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum { WIRE_NAME = 128, WIRE_PATH = 1024 };

/* From the kernel: load a cell, and run it. */
typedef struct cell_request {
    int32_t number; /* the function is ls_cell_<number> */
    int32_t runs;   /* 0: only load it, for its definitions */
    char path[WIRE_PATH];
} cell_request;

/* From the kernel while a cell waits for input: a line with its end; no bytes if the user cannot be asked. */
typedef struct input_line {
    int32_t size;
    char bytes[4096];
} input_line;

typedef enum session_event {
    SESSION_STARTED,    /* the cell runs in `process`, whose group has the same number */
    SESSION_DONE,       /* it ran to its end; the values are in `process` now; `name` is the kind of what
                         * failed in it, if anything, and the payload explains that */
    SESSION_NOT_LOADED, /* the payload says why; nothing has changed */
    SESSION_RESTORED,   /* its process ended with `status`; the values are those of before */
    SESSION_SIZE,       /* the array `name` has `number` elements */
    SESSION_DISPLAY,    /* the payload shall be shown, in the place `name` if that is not empty */
    SESSION_RESULT,     /* the payload is the value of the cell */
    SESSION_INPUT,      /* the cell waits for a line of text */
    SESSION_CLEAR,      /* what the cell shows shall be removed */
    SESSION_CRASHED,    /* its process is about to end; it was at the byte `number` of the cells' library `name` */
    SESSION_LOST,       /* never sent: the session has ended with `status`; `process` is 0 if it ran no cell */
} session_event;

/* Why there is no copy of the session as it was before the cell: `number` of SESSION_STARTED. */
typedef enum snapshot_obstacle {
    SNAPSHOT_POSSIBLE, /* there is one */
    SNAPSHOT_THREADS,
    SNAPSHOT_MEMORY,  /* not enough for two sessions */
    SNAPSHOT_REFUSED, /* fork() failed */
} snapshot_obstacle;

typedef struct session_message {
    int32_t event; /* session_event */
    int32_t process;
    int32_t status; /* as waitpid() tells it */
    int64_t number;
    char name[WIRE_NAME];
} session_message;

/* A payload to be shown is a list of forms of the same thing: this, then the bytes of its type and of its data. */
typedef struct display_form {
    uint64_t type_size, data_size;
} display_form;

#endif
