/* placement.h - assign CPUs to the workers of this host. */
#ifndef LOCKSTEP_LAUNCH_PLACEMENT_H
#define LOCKSTEP_LAUNCH_PLACEMENT_H

#include <stdbool.h>

/* Divide `count` CPUs among `processes` workers. On return cpus[] is sorted by NUMA node, core and number, and worker i
 * has cpus[first[i]] to cpus[first[i + 1] - 1]; first has processes + 1 elements. Shares are disjoint and, if possible,
 * of equal size and within a node; hardware threads of a core stay together. Returns false, with nothing decided, if
 * there are fewer CPUs than processes. `root` is put in front of /sys: "" except in tests. */
bool ls_placement(const char *root, int *cpus, int count, int processes, int *first);

#endif
