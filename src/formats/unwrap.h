/* unwrap.h - recover a model's tensor names from files that add a prefix to them. */
#ifndef LOCKSTEP_FORMATS_UNWRAP_H
#define LOCKSTEP_FORMATS_UNWRAP_H

#include <lockstep/state.h>

/* PyTorch programs save {"epoch": 3, "state_dict": {"module.conv1.weight": ...}, "optimizer": ...}. If none of the
 * names read is one of `wanted`, drop everything beside the model, and strip its prefix. */
void ls_state_unwrap(ls_state *read, const ls_state *wanted);

#endif
