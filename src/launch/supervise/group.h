/* group.h - the workers of one host in one attempt: start them, pass signals on, learn how they end. */
#ifndef LOCKSTEP_LAUNCH_SUPERVISE_GROUP_H
#define LOCKSTEP_LAUNCH_SUPERVISE_GROUP_H

#include "launch/plan.h"
#include "launch/supervise/cause.h"
#include "launch/supervise/logs.h"
#include "launch/supervise/output.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

typedef struct ls_worker_process {
    pid_t pid;  /* also its session and process group; 0: never began, or reaped */
    int status; /* as wait() gives it, also while it is stopped */
    int64_t began;
    int64_t stopped;            /* since when it stands still by a signal; 0: it does not */
    ls_output_stream stream[2]; /* stdout and stderr, where they pass through here */
} ls_worker_process;

typedef struct ls_worker_group {
    const ls_plan *plan;
    int loop;
    cpu_set_t *files;     /* open before all this began: a forked function keeps these and no others */
    sigset_t inherited;   /* the mask workers start with */
    void (*on_pipe)(int); /* and what they do with SIGPIPE */
    struct rlimit limit;  /* and how many files they may open; this process has two for each of them */
    ls_assignment assignment;
    ls_logs logs;
    ls_output_sink sink[2];
    ls_worker_process *worker; /* [plan->opts.num_processes] */
    int shared;                /* file of the memory that the workers of this host share; -1: none */
    bool *unstarted;           /* [num_processes] shared with the workers: the program could not be executed */
    int running;               /* workers not reaped */
    bool stopping;             /* their ends are no failures any more */
    ls_cause cause;
    int64_t act_at; /* when the cause is acted upon: what failed before it, on another host, may be told until then */
} ls_worker_group;

bool ls_worker_group_open(ls_worker_group *group, const ls_plan *plan,
                          int loop); /* false: refused, the reason is printed */
void ls_worker_group_close(ls_worker_group *group);

/* Start all. False when one could not be started (no memory, no processes left): those that were run, stop them. */
bool ls_worker_group_start(ls_worker_group *group, const ls_assignment *assignment);

/* After the last has been reaped: read their pipes to the end, tell the caller's exit_codes. */
void ls_worker_group_end(ls_worker_group *group);

/* To every process of every worker's group. Except for SIGKILL, stopped ones are woken to receive it. */
void ls_worker_group_signal(ls_worker_group *group, int number);

/* Collectives of the workers end at once, for this reason; only the first counts. */
void ls_worker_group_abort(ls_worker_group *group, const char *words);

/* Take in all that ended: workers, and what they left behind. The first worker that did not end with 0, unless it was
 * told to stop, is the cause; so is one that stands still for longer than a host may be silent. */
void ls_worker_group_reap(ls_worker_group *group);

/* Has a worker failed, because of one of another host, of which the launcher there has not told yet? */
bool ls_worker_group_is_undecided(const ls_worker_group *group);

/* Processes that workers left behind, now children of this one: send them a signal. Returns how many there are. */
int ls_worker_group_sweep(int number);

/* Show what waits too long, notice who stands still too long; returns when to come again. */
int64_t ls_worker_group_tick(ls_worker_group *group);

#endif
