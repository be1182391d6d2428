/* plan.h - the plan of a launch: the caller's options, completed with defaults and checked. */
#ifndef LOCKSTEP_LAUNCH_PLAN_H
#define LOCKSTEP_LAUNCH_PLAN_H

#include <lockstep/launch.h>

#include "launch/environment.h"

/* Limits of a job: larger numbers are a mistake, or hostile. */
enum {
    LS_MOST_HOSTS = 4096,
    LS_MOST_PROCESSES = 4096,  /* per host */
    LS_MOST_RESTARTS = 1 << 20 /* in the memory of a host or leader */
};

/* Exactly one of argv and function is set. Only the three arrays at the end are owned. */
typedef struct ls_plan {
    ls_launch_opts opts; /* complete, with defaults filled in */
    char *const *argv;
    ls_worker_fn *function;
    void *argument;
    const char *const *inherited; /* environment of this process */

    char first_host[256];   /* of the host file */
    char meeting_host[256]; /* where hosts connect, if there are several */
    int meeting_port;

    bool on_tpu; /* each worker has a chip of its own, which tpu.h assigns */

    uint8_t *redirected, *teed; /* [num_processes] bit 0: stdout, bit 1: stderr */
    bool *shown;                /* [num_processes] */
} ls_plan;

/* What the workers of a host need to know in one attempt. */
typedef struct ls_assignment {
    int attempt; /* restarts before this one */
    int first_rank, world;
    int host_rank, hosts;
    char master_addr[256];
    int master_port;
} ls_assignment;

/* Fill in and check. False: refused, with the reason printed; nothing to free. */
bool ls_plan_make(ls_plan *plan, const ls_launch_opts *opts, size_t opts_size, const char *const *inherited);
void ls_plan_free(ls_plan *plan);

/* Do the job's own variables refuse GPUs and TPUs? */
bool ls_plan_is_for_cpu(const ls_plan *plan);
/* Chips of this host for workers that name no device; 0: they do not use TPUs. */
int ls_plan_tpus(const ls_plan *plan);

/* The environment of one worker. `error_file` may be "". */
void ls_plan_environment(const ls_plan *plan, const ls_assignment *assignment, int local_rank, const char *error_file,
                         ls_environment *environment);

/* "0".."3", or "0:3,12:1": which streams of which local rank. False if invalid. */
bool ls_streams_parse(const char *text, int processes, uint8_t *streams);

/* A free port of this host: the wanted one, unless it is 0 or in use (which is logged), else any; 0: none. It is not
 * reserved, but nobody gets it without asking for it by number. */
int ls_port_find(int wanted);

#endif
