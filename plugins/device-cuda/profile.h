/* profile.h - what operators take on the GPU, by events around each: LOCKSTEP_CUDA_PROFILE.
 *
 * Operators of one kind and shape are a line of a table, which is printed when the device is closed. */
#ifndef LOCKSTEP_CUDA_PROFILE_H
#define LOCKSTEP_CUDA_PROFILE_H

#include "cuda.h"

cuda_profile *cuda_profile_new(void);
/* Print the table, if anything ran, and free. */
void cuda_profile_free(cuda_device *d);
/* As cuda_run(), and note the time. */
cuda_op cuda_profile_run;
/* A step has ended: times are shown for each. */
void cuda_profile_step(cuda_device *d);

#endif
