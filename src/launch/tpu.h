/* tpu.h - several processes on TPUs: one chip for each, in the variables that libtpu reads.
 *
 * A process that is alone on its host needs none of them: libtpu gives it all chips. */
#ifndef LOCKSTEP_LAUNCH_TPU_H
#define LOCKSTEP_LAUNCH_TPU_H

#include "launch/plan.h"

/* Is the job for TPUs, and can they be divided among its processes? Sets plan->on_tpu. False: refused, with the reason
 * printed. */
bool ls_tpu_settle(ls_plan *plan);

/* Add which chip the worker has, and where the others are. */
void ls_tpu_environment(const ls_plan *plan, const ls_assignment *assignment, int local_rank, ls_environment *to);

#endif
