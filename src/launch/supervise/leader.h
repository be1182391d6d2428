/* leader.h - the leader that the hosts of a job connect to, which decides what they do together.
 *
 * The agent of every host has a connection to the leader, also on the leader's own host. Messages are JSON objects;
 * the first member names them. To the leader:
 *
 *     hello     who I am, with a proof that I know the job token, and my progress under an earlier leader
 *     failed    a worker of mine failed first: exit code and cause; I am stopping the others
 *     over      generation n has ended on my host, and whether all my workers exited with 0
 *     leave     I received this signal and leave
 *     beat      I am alive
 *
 * From the leader:
 *
 *     lockstep  a challenge, the first message on a new connection
 *     welcome   you belong to the job, with a proof that the leader does      refused   you do not, and why
 *     start     generation n: your ranks, the world, where workers connect    stop      end generation n, and why
 *     end       the job is over: exit code and cause                      beat
 *
 * `stop` also says whether the generation is broken, or its workers may still communicate, to save.
 *
 *     GATHERING --enough hosts--> RUNNING --failure, loss, new host--> DRAINING --all over--> GATHERING or ENDED */
#ifndef LOCKSTEP_LAUNCH_SUPERVISE_LEADER_H
#define LOCKSTEP_LAUNCH_SUPERVISE_LEADER_H

#include "base/message.h"
#include "launch/plan.h"

#include <stdint.h>

typedef struct ls_leader ls_leader;

/* Hosts that wait for each other say so after some seconds, and then every minute. */
#define LS_GATHER_QUIET 5.0
#define LS_GATHER_REMIND 60.0

/* Listen at this port. NULL with the reason in `why` and in errno; EADDRINUSE if the port is in use. */
ls_leader *ls_leader_open(const ls_plan *plan, int loop, int port, ls_message *why);
void ls_leader_close(ls_leader *leader);

/* Connects the leader's own host: one end of a socket pair. */
bool ls_leader_adopt(ls_leader *leader, int fd);

/* Do what is due; returns when to be called again. */
int64_t ls_leader_tick(ls_leader *leader);

/* This process received a signal: tell all hosts, unless they should wait for the leader's return. */
void ls_leader_abandon(ls_leader *leader, int signal);

/* The job is over, or this process leaves it, and some host may not know yet. */
bool ls_leader_is_parting(const ls_leader *leader);

#endif
