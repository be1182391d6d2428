/* group.h - collectives between the chips of several processes. */
#ifndef LOCKSTEP_XLA_GROUP_H
#define LOCKSTEP_XLA_GROUP_H

#include <lockstep/group.h>

#include "xla.h"

extern const ls_group_table xla_groups;

#endif
