/* unwrap.h - names of a model's tensors as the model has them, from files that put something in front. */
#ifndef LOCKSTEP_FORMATS_UNWRAP_H
#define LOCKSTEP_FORMATS_UNWRAP_H

#include <lockstep/state.h>

/* Programs of PyTorch save {"epoch": 3, "state_dict": {"module.conv1.weight": ...}, "optimizer": ...}. Where none of
 * the names that were read is one of `wanted`, drop what is beside the model, and take off what was put in front of it.
 */
void ls_state_unwrap(ls_state *read, const ls_state *wanted);

#endif
