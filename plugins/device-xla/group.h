/* group.h - collectives between the chips of several processes. */
#ifndef LOCKSTEP_XLA_GROUP_H
#define LOCKSTEP_XLA_GROUP_H

#include <lockstep/group.h>

#include "xla.h"

extern const ls_group_table xla_groups;

/* Called by all processes before they execute a program with collectives: is it the same in all of them? LS_ERR_PEER:
 * it is not. `hash`: of the program. */
ls_status xla_compare_programs(const xla_device *d, const uint64_t hash[2], ls_message *why);

#endif
