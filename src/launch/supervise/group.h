/* group.h - the workers of one host in one attempt: start them, forward signals, learn how they end. */
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
    pid_t pid;  /* also its session and process group; 0: not started, or reaped */
    int status; /* as wait() gives it, also while it is stopped */
    int64_t began;
    int64_t stopped;            /* since when it is stopped by a signal; 0: it is not */
    ls_output_stream stream[2]; /* stdout and stderr, if they pass through here */
} ls_worker_process;

typedef struct ls_worker_group {
    const ls_plan *plan;
    int loop;
    cpu_set_t *files;     /* open before the launch: a forked function keeps only these */
    sigset_t inherited;   /* the mask workers start with */
    void (*on_pipe)(int); /* and their handler of SIGPIPE */
    struct rlimit limit;  /* and their limit of open files; this process needs two per worker */
    ls_assignment assignment;
    ls_logs logs;
    ls_output_sink sink[2];
    ls_worker_process *worker; /* [plan->opts.num_processes] */
    int shared;                /* file descriptor of the memory shared by the workers of this host; -1: none */
    bool *unstarted;           /* [num_processes], shared with the workers: the program could not be executed */
    int running;               /* workers not reaped */
    bool stopping;             /* from now on their ends are not failures */
    ls_cause cause;
    int64_t act_at; /* when to act on the cause: until then another host may report an earlier one */
} ls_worker_group;

bool ls_worker_group_open(ls_worker_group *group, const ls_plan *plan,
                          int loop); /* false: refused, the reason is printed */
void ls_worker_group_close(ls_worker_group *group);

/* Start all. False if one could not be started (no memory, no processes left): stop those that run. */
bool ls_worker_group_start(ls_worker_group *group, const ls_assignment *assignment);

/* After the last has been reaped: read their pipes to the end, set the caller's exit_codes. */
void ls_worker_group_end(ls_worker_group *group);

/* Send to every process of every worker's group. Except for SIGKILL, stopped ones are continued to receive it. */
void ls_worker_group_signal(ls_worker_group *group, int number);

/* End the workers' collectives at once with this reason; only the first counts. */
void ls_worker_group_abort(ls_worker_group *group, const char *words);

/* Reap all that ended: workers, and processes they left behind. The first worker that did not exit with 0, unless it
 * was told to stop, is the cause; so is one that is stopped for longer than a host may be silent. */
void ls_worker_group_reap(ls_worker_group *group);

/* Has a worker failed because of another host, whose launcher has not reported yet? */
bool ls_worker_group_is_undecided(const ls_worker_group *group);

/* Send a signal to processes that workers left behind, now children of this one. Returns their number. */
int ls_worker_group_sweep(int number);

/* Show unfinished lines that waited too long, detect workers stopped too long; returns when to be called again. */
int64_t ls_worker_group_tick(ls_worker_group *group);

#endif
