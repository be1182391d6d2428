/* values.h - copy a few bytes to the device as a kernel argument: no wait, no staging memory. */
#ifndef LOCKSTEP_CUDA_VALUES_H
#define LOCKSTEP_CUDA_VALUES_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* LS_VALUES_BYTES at most. */
ls_status cuda_put_values(cudaStream_t stream, void *to, const void *from, size_t bytes, ls_message *why);
/* cudaErrorNoKernelImageForDevice if the plug-in has no code for the current device. */
cudaError_t cuda_has_code(void);

#ifdef __cplusplus
}
#endif
#endif
