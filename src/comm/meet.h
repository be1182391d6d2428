/* meet.h - how processes of a host that were not started by Lockstep's launcher come to share a file. */
#ifndef LOCKSTEP_COMM_MEET_H
#define LOCKSTEP_COMM_MEET_H

#include <lockstep/plugin.h>

/* Rank 0 makes a segment (segment.h) and hands it to the others, over a socket whose name follows from the user and the
 * text `job`, which all of them know. Processes of other users and of other sizes are turned away. Waits until all have
 * come, at most so many seconds (0: for ever). Returns the file; -1: failed. */
int ls_meet(const char *job, int rank, int size, int64_t seconds, ls_message *why);

#endif
