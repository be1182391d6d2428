/* agent.h - supervises the workers of one host: attempts start and end on orders, and every event (a worker ends, a
 * signal arrives, a pipe has data, a timeout) goes through one loop.
 *
 *     IDLE --start--> RUNNING --a worker fails, or stop--> STOPPING --all gone--> SWEEPING --nothing left--> IDLE
 *                        \------------------- all gone ---------------------------->-/
 *
 * In STOPPING and SWEEPING a deadline runs, after which SIGKILL is sent. A decider gives the orders: supervise.c for
 * one host, member.c for several. */
#ifndef LOCKSTEP_LAUNCH_SUPERVISE_AGENT_H
#define LOCKSTEP_LAUNCH_SUPERVISE_AGENT_H

#include "launch/supervise/group.h"

typedef enum ls_agent_phase { LS_AGENT_IDLE, LS_AGENT_RUNNING, LS_AGENT_STOPPING, LS_AGENT_SWEEPING } ls_agent_phase;

/* The signal by which a program that launches a function forwards what it receives (see launch.c): its value is the
 * number of the received signal, negative from the second on; without a value the program is dead. */
#define LS_AGENT_RELAY SIGRTMIN

typedef struct ls_agent ls_agent;

typedef struct ls_decider {
    void (*failed)(ls_agent *agent);  /* group.cause is set, the others are being stopped; may be NULL */
    void (*over)(ls_agent *agent);    /* the attempt has ended completely; the agent is idle */
    void (*told)(ls_agent *agent);    /* `told` was set; workers are being stopped; may be NULL */
    int64_t (*tick)(ls_agent *agent); /* after every event; returns when to be called again; may be NULL */
    void *state;                      /* the decider's own */
} ls_decider;

struct ls_agent {
    const ls_plan *plan;
    ls_decider decider;
    ls_worker_group group;
    ls_watched_fd signals;
    ls_agent_phase phase;
    int64_t began, kill_at;
    bool strangers;   /* this process had children before */
    int told;         /* the signal that told this process to end; 0: none */
    int relayed;      /* the same, if the program above forwarded it; 0: not forwarded, or received elsewhere since */
    int user_signal;  /* SIGUSR1 or SIGUSR2, on which workers may end; 0: neither received */
    bool could_start; /* all workers of the attempt were started */
    bool finished;
    int code; /* of the finished job */
};

/* Run until ls_agent_finish() is called; `begin` gives the first order. Returns the exit code. */
int ls_agent_run(ls_agent *agent, const ls_plan *plan, void (*begin)(ls_agent *agent));

void ls_agent_start(ls_agent *agent, const ls_assignment *assignment); /* must be idle */
/* Stop with this signal; does nothing unless RUNNING. With the report of what broke the job, collectives end at once
 * with its first line; with NULL, workers may communicate until they exit, for instance to save. */
void ls_agent_stop(ls_agent *agent, int number, const char *report);
void ls_agent_finish(ls_agent *agent, int code); /* must be idle */

/* Print the first cause, and write it where Kubernetes and launchers above look for it. */
void ls_agent_report(ls_agent *agent, const char *text, int code);

/* Restarts of the whole job. */
typedef struct ls_budget {
    int used, quick; /* quick: failures in a row that came soon after the start */
} ls_budget;

/* After a failure of an attempt started at that time: is there another restart? If so, takes it from the budget. */
bool ls_budget_take(ls_budget *budget, const ls_launch_opts *opts, int64_t began);

#endif
