/* join.h - how a run comes to be one of several processes. */
#ifndef LOCKSTEP_RUN_JOIN_JOIN_H
#define LOCKSTEP_RUN_JOIN_JOIN_H

#include "comm/comm.h"
#include "comm/shm/meet.h"
#include "launch/bootstrap/exchange.h"
#include "run/session.h"

/* Where this process is among the others. */
typedef struct ls_place {
    int local_rank, local_world;
} ls_place;

/* join.c: memory for the processes of this host, which know each other by a text. The memory that they inherited
 * from a launcher serves their first run, the next ones make their own. A file; -1: failed. *meeting: see ls_meet(). */
int ls_share_memory(const ls_place *place, const char *name, ls_meeting **meeting, ls_message *why);

/* hosts.c: join the processes of a job that may be on several hosts, however they are placed. */
ls_status ls_join_hosts(ls_comm **comm, ls_place *place, ls_lookout **lookout, ls_identity *who, ls_message *why);

/* lookout.c: rank 0 stays where the others found it, for the run: whoever comes to claim one of their ranks may be the
 * one that belongs there. Takes over the meeting and the exchange (either may be NULL); `file` is the segment's. NULL
 * where there is nothing to look out for. */
ls_lookout *ls_lookout_open(int file, ls_meeting *meeting, ls_exchange *exchange);

#endif
