/* join.h - how a run joins the other processes of a job. */
#ifndef LOCKSTEP_RUN_JOIN_JOIN_H
#define LOCKSTEP_RUN_JOIN_JOIN_H

#include "comm/comm.h"
#include "comm/shm/meet.h"
#include "launch/bootstrap/exchange.h"
#include "run/session.h"

/* The position of this process among the others. */
typedef struct ls_place {
    int local_rank, local_world;
} ls_place;

/* join.c: shared memory for the processes of this host, which identify each other by a text. Memory inherited from a
 * launcher serves their first run; later runs allocate their own. A file descriptor; -1: failed. *meeting: see
 * ls_meet(). */
int ls_share_memory(const ls_place *place, const char *name, ls_meeting **meeting, ls_message *why);

/* hosts.c: join the processes of a job that may be on several hosts, in any placement. */
ls_status ls_join_hosts(ls_comm **comm, ls_place *place, ls_rank_guard **guard, ls_identity *who, ls_message *why);

/* rank_guard.c: rank 0 keeps its address open for the run, because a process that claims one of the others' ranks may
 * be the right one. Takes over the meeting and the exchange (either may be NULL); `file` is the segment's. NULL if
 * there is nothing to watch. */
ls_rank_guard *ls_rank_guard_open(int file, ls_meeting *meeting, ls_exchange *exchange);

#endif
