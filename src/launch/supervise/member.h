/* member.h - one host of a job of several: follows the leader's orders, and houses the leader where that is here. */
#ifndef LOCKSTEP_LAUNCH_SUPERVISE_MEMBER_H
#define LOCKSTEP_LAUNCH_SUPERVISE_MEMBER_H

#include "launch/plan.h"

/* As ls_supervise(), for a job with more than one host, or one host that is told where to meet others. */
int ls_supervise_hosts(const ls_plan *plan);

#endif
