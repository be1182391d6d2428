/* cpus.h - how much of this machine the process may use. */
#ifndef LOCKSTEP_BASE_CPUS_H
#define LOCKSTEP_BASE_CPUS_H

#include <stdint.h>

/* Writes the numbers of at most `room` CPUs the calling thread may run on and returns how many there are (>= 1). */
int ls_cpus_allowed(int *numbers, int room);

/* CPU time the control group (v1 or v2, and its ancestors) grants, in whole CPUs rounded up; 0: no limit.
 * `root` is put in front of /proc and /sys: "" except in tests. */
int ls_cpus_quota(const char *root);

/* Busy seconds of these CPUs since boot, summed; < 0 if the system does not report them.
 * Allocates nothing. */
double ls_cpus_busy(const char *root, const int *cpus, int count);

/* Bytes of a core's first cache of data; 0 if the system does not tell. */
int64_t ls_cpus_l1(void);
/* For tests: what ls_cpus_l1 returns from now on; < 0: what the system tells. */
void ls_cpus_pretend_l1(int64_t bytes);

#endif
