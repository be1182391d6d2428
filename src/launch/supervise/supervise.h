/* supervise.h - run a job on this host: attempts, stops, restarts, the end. */
#ifndef LOCKSTEP_LAUNCH_SUPERVISE_SUPERVISE_H
#define LOCKSTEP_LAUNCH_SUPERVISE_SUPERVISE_H

#include "launch/plan.h"

/* Run the job, or this host's part of it, to its end; returns the exit code. Meanwhile this function handles the
 * signals and all new children of this process, which must have one thread. */
int ls_supervise(const ls_plan *plan);

#endif
