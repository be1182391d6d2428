/* leader.h - where the hosts of a job meet, and where it is decided what they do together.
 *
 * Every host has an agent with a connection to the leader, the leader's own host too. Messages are JSON objects;
 * the first member names them. To the leader:
 *
 *     hello     who I am, with a proof that I know the job token, and how far I had come with an earlier leader
 *     failed    a worker of mine failed first: exit code and the cause in words; I am stopping the others
 *     over      nothing is left of generation n on my host, and whether all my workers ended with 0
 *     leave     I was told to end by this signal
 *     beat      I am alive
 *
 * From the leader:
 *
 *     lockstep  a challenge, the first thing a new connection hears
 *     welcome   you belong to the job, with a proof that the leader does      refused   you do not, and why
 *     start     generation n: your ranks, the world, where workers meet       stop      end generation n, and why
 *     end       the job is over: exit code, and the cause in words            beat
 *
 * With `stop` comes whether the generation is broken, or its workers may still work together, to save.
 *
 *     GATHERING --enough hosts--> RUNNING --failure, loss, new host--> DRAINING --all over--> GATHERING or ENDED */
#ifndef LOCKSTEP_LAUNCH_SUPERVISE_LEADER_H
#define LOCKSTEP_LAUNCH_SUPERVISE_LEADER_H

#include "base/message.h"
#include "launch/plan.h"

#include <stdint.h>

typedef struct ls_leader ls_leader;

/* Listen at this port. NULL with the reason in `why` and in errno, EADDRINUSE where somebody else does. */
ls_leader *ls_leader_open(const ls_plan *plan, int loop, int port, ls_message *why);
void ls_leader_close(ls_leader *leader);

/* The leader's own host joins by this: one end of a pair of sockets. */
bool ls_leader_adopt(ls_leader *leader, int fd);

/* Do what is due; returns when to come again. */
int64_t ls_leader_tick(ls_leader *leader);

/* This process was told to end: say so to all, unless they are to wait for the leader's return. */
void ls_leader_abandon(ls_leader *leader, int signal);

/* The job is over, or this process leaves it, and some host need not know yet. */
bool ls_leader_is_parting(const ls_leader *leader);

#endif
