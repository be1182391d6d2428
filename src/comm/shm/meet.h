/* meet.h - how processes of a host that were not started by Lockstep's launcher come to share a file.
 *
 * Rank 0 makes a segment (segment.h) and hands it to the others, over a socket whose name follows from the user and the
 * text `job`, which all of them know. Processes of other users, jobs and sizes are turned away; a name that another
 * user has taken is passed over. A rank that two processes claim is given to neither: they may be of two jobs that were
 * told the same address, and nobody can say which of them belongs here. */
#ifndef LOCKSTEP_COMM_SHM_MEET_H
#define LOCKSTEP_COMM_SHM_MEET_H

#include "base/message.h"
#include "comm/door.h"

typedef struct ls_meeting ls_meeting;

/* Waits until all have come, at most so many seconds (0: no limit). Returns the file; -1: failed. On rank 0 *meeting
 * holds the name until ls_meeting_end(), so that no other job meets there; NULL: on the others, and after a failure. */
int ls_meet(const char *job, int rank, int size, int64_t seconds, ls_meeting **meeting, ls_message *why);

/* Refuse who comes from now on, and tell of those who claim a rank of the job. One is enough. */
void ls_meeting_watch(ls_meeting *meeting, ls_claim_fn *claimed, void *user);
void ls_meeting_end(ls_meeting *meeting); /* NULL is accepted */

#endif
