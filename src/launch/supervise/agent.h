/* agent.h - what looks after the workers of one host: attempts begin and end on orders, and everything that can happen
 * (a worker ends, a signal comes, a pipe has text, time is up) comes through one loop.
 *
 *     IDLE --start--> RUNNING --a worker fails, or stop--> STOPPING --all gone--> SWEEPING --nothing left--> IDLE
 *                        \------------------- all gone ---------------------------->-/
 *
 * While STOPPING and SWEEPING a deadline runs, after which SIGKILL helps. Who gives the orders is a decider:
 * supervise.c for one host, member.c for several. */
#ifndef LOCKSTEP_LAUNCH_SUPERVISE_AGENT_H
#define LOCKSTEP_LAUNCH_SUPERVISE_AGENT_H

#include "launch/supervise/group.h"

typedef enum ls_agent_phase { LS_AGENT_IDLE, LS_AGENT_RUNNING, LS_AGENT_STOPPING, LS_AGENT_SWEEPING } ls_agent_phase;

/* The signal by which a program that launches a function passes on what it is told (see launch.c): with a value, the
 * number of the signal that it got, negative from the second on; without one it is dead. */
#define LS_AGENT_RELAY SIGRTMIN

typedef struct ls_agent ls_agent;

typedef struct ls_decider {
    void (*failed)(ls_agent *agent);  /* group.cause is known, the others are being stopped; may be NULL */
    void (*over)(ls_agent *agent);    /* nothing is left of the attempt; the agent is idle */
    void (*told)(ls_agent *agent);    /* `told` is new; what ran is being stopped; may be NULL */
    int64_t (*tick)(ls_agent *agent); /* after every event; returns when it wants to be asked again; may be NULL */
    void *state;                      /* the decider's own */
} ls_decider;

struct ls_agent {
    const ls_plan *plan;
    ls_decider decider;
    ls_worker_group group;
    ls_watch signals;
    ls_agent_phase phase;
    int64_t began, kill_at;
    bool strangers;   /* this process had children before */
    int told;         /* the signal that told this process to end; 0: none */
    int relayed;      /* the same, where the program above passed it on; 0: not, or it came from elsewhere since */
    int hinted;       /* SIGUSR1 or SIGUSR2, which workers may take for notice of their end; 0: neither came */
    bool could_start; /* all workers of the attempt were started */
    bool finished;
    int code; /* of the finished job */
};

/* Run until somebody calls ls_agent_finish(); `begin` gives the first order. Returns the exit code. */
int ls_agent_run(ls_agent *agent, const ls_plan *plan, void (*begin)(ls_agent *agent));

void ls_agent_start(ls_agent *agent, const ls_assignment *assignment); /* an idle one */
/* With this signal; does nothing unless RUNNING. With the story of what broke the job, collectives end at once with its
 * first line; with NULL, workers may work together until they are gone, for instance to save. */
void ls_agent_stop(ls_agent *agent, int number, const char *story);
void ls_agent_finish(ls_agent *agent, int code); /* an idle one */

/* Print the first cause, and leave it where Kubernetes and launchers above look for it. */
void ls_agent_report(ls_agent *agent, const char *text, int code);

/* Restarts of the whole job. */
typedef struct ls_budget {
    int used, quick; /* quick: failures in a row that came soon after the start */
} ls_budget;

/* After a failure of something that began then: is there another try? Takes it from the budget if so. */
bool ls_budget_take(ls_budget *budget, const ls_launch_opts *opts, int64_t began);

#endif
