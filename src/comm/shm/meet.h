/* meet.h - how processes of a host that Lockstep's launcher did not start come to share a file.
 *
 * Rank 0 makes a segment (segment.h) and hands it to the others over a socket whose name is derived from the user and
 * the text `job`, which all of them know. Processes of other users, jobs and sizes are refused; a name taken by another
 * user is skipped. A rank claimed by two processes is an error for the job: they may belong to two jobs with the same
 * address, and nothing tells which of them belongs here. */
#ifndef LOCKSTEP_COMM_SHM_MEET_H
#define LOCKSTEP_COMM_SHM_MEET_H

#include "base/message.h"
#include "comm/fd_watcher.h"

typedef struct ls_meeting ls_meeting;

/* Blocks until all ranks have joined, at most `seconds` (0: no limit). Returns the file, or -1. On rank 0 *meeting
 * holds the name until ls_meeting_end(), so that no other job can use it; NULL on the other ranks and on failure. */
int ls_meet(const char *job, int rank, int size, int64_t seconds, ls_meeting **meeting, ls_message *why);

/* From now on refuse processes that connect, and call `claimed` if one claims a rank of this job. Call it once. */
void ls_meeting_watch(ls_meeting *meeting, ls_claim_fn *claimed, void *user);
void ls_meeting_end(ls_meeting *meeting); /* NULL is accepted */

#endif
