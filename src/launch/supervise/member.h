/* member.h - one host of a job with several: follows the leader's orders, and runs the leader if that is here. */
#ifndef LOCKSTEP_LAUNCH_SUPERVISE_MEMBER_H
#define LOCKSTEP_LAUNCH_SUPERVISE_MEMBER_H

#include "launch/plan.h"

/* Like ls_supervise(), for a job with more than one host, or one host that was given an address for others. */
int ls_supervise_hosts(const ls_plan *plan);

#endif
