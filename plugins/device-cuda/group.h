/* group.h - collectives between GPUs. */
#ifndef LOCKSTEP_CUDA_GROUP_H
#define LOCKSTEP_CUDA_GROUP_H

#include <lockstep/group.h>

extern const ls_group_table cuda_groups;

#endif
