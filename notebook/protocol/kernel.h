/* kernel.h - the kernel of a notebook: Jupyter on one side, a compiler and a session on the other. */
#ifndef LOCKSTEP_NOTEBOOK_KERNEL_H
#define LOCKSTEP_NOTEBOOK_KERNEL_H

#include "cell/definitions.h"
#include "channels.h"
#include "compiler.h"
#include "link.h"

typedef struct cell_library {
    int number;
    char path[LONGEST_LIBRARY];
} cell_library;

typedef struct kernel {
    channels channels;
    compiler compiler;
    session_link link;
    char session_program[1024], include[1024];

    definitions known;       /* by cells that ended well */
    cell_library *libraries; /* of those cells, for a new session to load */
    size_t library_count;
    char **history; /* code of cells, the n-th being In[n + 1] */
    size_t history_count;

    pid_t jupyter;              /* which started this process; 0: something else did */
    int cells;                  /* compiled so far */
    const message *request;     /* being answered */
    int interrupts;             /* of the running cell */
    snapshot_obstacle obstacle; /* to a copy of the session before the running cell */
    session_message crash;      /* SESSION_CRASHED of the running cell; no name: it has not crashed, or not in a cell */
    string loss;   /* why values are lost since the last cell, which the next one tells; empty: they are not */
    string places; /* where the running cell shows things: "\nname\n" each */
    message *held; /* requests that had arrived when a cell failed: cells among them are not run */
    size_t held_count;
    bool ends; /* after this request */
} kernel;

/* ---- kernel.c ---- */

/* Answer requests until one asks the kernel to end; returns the exit code. */
int kernel_serve(kernel *k);

/* Takes what `w` holds: the content of a reply on a socket, or of something for everybody. */
void kernel_reply(kernel *k, void *socket, const char *type, ls_json_writer *w);
void kernel_publish(kernel *k, const char *type, ls_json_writer *w);
/* The request being answered, "*_request", has failed with this kind of error. */
void kernel_reply_error(kernel *k, void *socket, const char *name, const char *words); /* execute.c */
/* Text of the standard output ("stdout") or error ("stderr"). */
void kernel_stream(kernel *k, const char *name, const char *bytes, size_t length);
/* Answer the control channel and heartbeats, and pass on what the session prints and shows; wait for the first of them.
 * True: `event` tells the fate of the running cell. */
bool kernel_wait(kernel *k, session_message *event, string *payload);

/* Answer these until the header that all cells begin with is compiled, or the cell is not wanted any more. */
void kernel_wait_for_header(kernel *k);
/* Answer these until the compiler, which must be running, says something or ends. */
void kernel_wait_for_compiler(kernel *k);

/* ---- Requests, each in its file ---- */

/* Take all requests that have arrived out of their channel: kernel_serve() answers them, but runs no cells. */
void kernel_hold_requests(kernel *k);          /* kernel.c */
void kernel_execute(kernel *k, void *socket);  /* execute.c */
void kernel_complete(kernel *k, void *socket); /* introspect.c */
void kernel_inspect(kernel *k, void *socket);
void kernel_is_complete(kernel *k, void *socket);
/* Append the declaration of a name: by a cell, or in a public header with the comment above it. */
void kernel_describe(const kernel *k, const char *name, size_t length, string *to);
void kernel_history(kernel *k, void *socket); /* history.c */
void kernel_remember(kernel *k, const char *code);

/* ---- input.c: lines that a cell reads from the user ---- */

void kernel_ask(kernel *k);
void kernel_take_input(kernel *k);

/* ---- show.c: what the session shows ---- */

void kernel_show(kernel *k, const session_message *event, const string *payload);
/* Remove what the running cell shows. */
void kernel_clear(kernel *k);

/* ---- magic.c: lines such as %time in front of a cell ---- */

typedef struct magic {
    bool time;   /* tell how long it took */
    string page; /* to be shown in a pager */
} magic;

/* Obey them, and blank them out of the code. False: one is unknown or cannot be obeyed, and `why` names it. */
bool magic_obey(kernel *k, char *code, magic *wanted, ls_message *why);

/* End the session and begin another, which loads the cells that ended well if `keep`. */
void kernel_renew_session(kernel *k, bool keep);
/* The session has ended, as `status` tells, while no cell was running: begin another, and let the next cell fail. */
void kernel_lose_session(kernel *k, int status);

#endif
