/* session.h - the state of a run beyond tensors: its rank, the prepared objects, its progress. */
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
typedef struct ls_rank_guard ls_rank_guard;

typedef struct ls_session {
    int local_rank, local_world;
    char meeting_host[256];   /* of rank 0, as the launcher named it; "": it did not */
    bool pinned;              /* CPUs are reserved for it */
    ls_dtype compression;     /* of gradients in transit; 0: none */
    int64_t bucket_cap_mb;    /* of gradients that are sent together */
    ls_user_comm *user_comms; /* communicators of the program */
    ls_comm *programs;        /* that of all processes, if requested */
    ls_comm *vote;            /* for the votes of ls_find_batch_size(); NULL: not needed yet */
    ls_rank_guard *guard;     /* on rank 0: detects processes that claim ranks of others; NULL: none */

    ls_object **prepared; /* in the order of ls_prepare() */
    int prepared_count, prepared_capacity;

    int epoch;        /* current, or the next */
    bool in_epoch;    /* between two calls of ls_epoch() */
    bool epochs_over; /* the loop has ended: the next call starts another */
    bool restored;    /* from a checkpoint: the next call continues that epoch */
    ls_mark scope;    /* of the epoch */

    bool trigger;
    bool listens;    /* for signals that ask to stop */
    int stop_signal; /* agreed on by all processes; 0: none */
    void *gathered;  /* the last result of ls_gather_object() */

    ls_begun begun;         /* initial state, compared by checkpoints */
    ls_module *launched;    /* the model that ls_launch() passed to this process; NULL: none */
    bool flushes_denormals; /* set by this run: ls_finish() resets it */
    ls_claim *claims;       /* folders locked by this run */
    char *profile;          /* folder for the profile that is being taken; NULL: none */
    bool profile_is_whole;  /* of the whole run, not of a block */
    int64_t profile_origin; /* of its timeline, as of ls_clock_ns() */
    char *project_dir;
    bool project_named, project_open; /* by the program or a flag; created and writable */
    char *resume;                     /* folder to restore at the first epoch, or "latest"; NULL: none, or done */
    char *resumed_from;               /* the checkpoint restored last; NULL: none */
    int64_t total_limit;
    bool known_checkpoints; /* those in the project folder are this training's, or a warning was given */
    bool async_save;
    ls_writer writer;   /* of the checkpoint being saved */
    ls_custom *customs; /* registered for checkpoints, in order */
} ls_session;

/* Create the run's session from the environment and the options of ls_init(). False (and an error) on failure. */
bool ls_session_open(ls_run *run, const ls_init_opts *opts);
void ls_session_close(ls_run *run);

/* The session of a run without errors; otherwise NULL, and the other processes are told not to wait for this one. */
ls_session *ls_session_of(ls_run *run);

/* join/join.c: find the processes of the job and join them. False (and an error) on failure. */
bool ls_session_find_others(ls_run *run);
/* join/cpus.c: take this process's share of the CPUs after the others were found; release it. */
bool ls_session_take_cpus(ls_run *run);
void ls_session_leave_cpus(ls_session *session);

/* user_comm.c: read the settings for communication threads. False (and an error) if invalid. */
bool ls_session_workers(ls_run *run, const char *who, ls_comm_workers *workers);
/* End the program's communicators and their requests; reset them after a cancel, between barriers. */
void ls_session_close_user_comms(ls_run *run);
void ls_session_reset_user_comms(ls_session *session);

/* Before the first step, not after the last: create the project folder if one was named, and check that it is writable.
 * False (and an error) if not. */
bool ls_session_open_project(ls_run *run);

/* stop.c: report that the run was told to end, by which signal, and what it saved. */
void ls_session_tell_stop(const ls_session *session);
/* The run that was told to end has ended: the next run of this process has not been told. */
void ls_session_end_stop(void);

void ls_rank_guard_close(ls_rank_guard *guard); /* NULL is accepted */

/* Make the run one of these processes. For tests, and for callers that provide a communicator. */
void ls_session_join(ls_run *run, ls_comm *comm);

#endif
