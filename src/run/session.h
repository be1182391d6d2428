/* session.h - what a run knows beyond tensors: who it is among the processes, what was prepared, how far it is. */
#ifndef LOCKSTEP_RUN_SESSION_H
#define LOCKSTEP_RUN_SESSION_H

#include <lockstep/run.h>

#include "base/claim.h"
#include "checkpoint/training.h"
#include "checkpoint/writer.h"
#include "comm/queue.h"
#include "parallel/reducer.h"
#include "step/step.h"

typedef struct ls_user_comm ls_user_comm;
typedef struct ls_lookout ls_lookout;

typedef struct ls_session {
    int local_rank, local_world;
    bool pinned;              /* CPUs are held for it */
    ls_dtype compression;     /* of gradients on their way; 0: none */
    ls_user_comm *user_comms; /* communicators of the program */
    ls_comm *programs;        /* that of all processes, if it was asked for */
    ls_comm *vote;            /* on what ls_find_batch_size() tried; NULL: not needed yet */
    ls_lookout *lookout;      /* of rank 0, for processes that claim ranks of the others; NULL: none */

    ls_object **prepared; /* in the order of ls_prepare() */
    int prepared_count, prepared_capacity;

    int epoch;        /* at hand, or the first of those to come */
    bool in_epoch;    /* between two calls of ls_epoch() */
    bool epochs_over; /* the loop has ended: the next call begins another */
    bool restored;    /* from a checkpoint: the next call enters that epoch as it was left */
    ls_mark scope;    /* of the epoch */

    bool trigger;
    bool listens;    /* for signals that ask to stop */
    int stop_signal; /* the one that processes agreed on; 0: none */
    void *gathered;  /* what ls_gather_object() handed out last */

    ls_begun begun;         /* what checkpoints compare */
    ls_module *launched;    /* the model that ls_launch() handed to this process; NULL: none */
    bool flushes_denormals; /* since it began: ls_finish() ends that */
    ls_claim *claims;       /* folders that are this run's alone */
    char *project_dir;
    bool project_named, project_open; /* by the program or a flag; made, and found good for writing */
    char *resume;                     /* folder to restore at the first epoch, or "latest"; NULL: none, or done */
    char *resumed_from;               /* the checkpoint that was restored last; NULL: none */
    int64_t total_limit;
    bool known_checkpoints; /* those in the project's folder are this training's, or it was said that they are not */
    bool async_save;
    ls_writer writer;   /* of the checkpoint being saved */
    ls_custom *customs; /* registered for checkpoints, in that order */
} ls_session;

/* Make the run's session from the environment and the options of ls_init(). False (and an error) on failure. */
bool ls_session_open(ls_run *run, const ls_init_opts *opts);
void ls_session_close(ls_run *run);

/* The run's session, where the run is in order; else NULL, and the other processes are told not to wait for this. */
ls_session *ls_session_of(ls_run *run);

/* join/join.c: find the processes of the job and join them. False (and an error) on failure. */
bool ls_session_find_others(ls_run *run);
/* join/cpus.c: take this process's share of the CPUs, after the others were found, and give it back. */
bool ls_session_take_cpus(ls_run *run);
void ls_session_leave_cpus(ls_session *session);

/* user_comm.c: what the environment says about threads for communication. False (and an error) when it cannot be. */
bool ls_session_workers(ls_run *run, const char *who, ls_comm_workers *workers);
/* Communicators of the program end, with what was started on them; begin anew, after a cancel, between barriers. */
void ls_session_close_user_comms(ls_run *run);
void ls_session_reset_user_comms(ls_session *session);

/* Before the first step, not after the last: make the folder for results where one was named, and see whether it can be
 * written to. False (and an error) when not. */
bool ls_session_open_project(ls_run *run);

/* stop.c: the run ends because it was told to: by which signal, and what it saved. */
void ls_session_tell_stop(const ls_session *session);

void ls_lookout_close(ls_lookout *lookout); /* NULL is accepted */

/* From now on the run is one of these processes. For tests, and for whoever brings a communicator. */
void ls_session_join(ls_run *run, ls_comm *comm);

#endif
