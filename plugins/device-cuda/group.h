/* group.h - collectives between GPUs. */
#ifndef LOCKSTEP_CUDA_GROUP_H
#define LOCKSTEP_CUDA_GROUP_H

#include <lockstep/group.h>

extern const ls_group_table cuda_groups;

/* Was a collective of this process ended because it took too long? Then what its stream computed since is meaningless.
 * LS_ERR_PEER and the reason until the group is closed. */
ls_status cuda_groups_lost(ls_message *why);

#endif
