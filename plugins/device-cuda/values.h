/* values.h - a few bytes from the host to the device as an argument of a kernel: nothing waits, nothing is staged. */
#ifndef LOCKSTEP_CUDA_VALUES_H
#define LOCKSTEP_CUDA_VALUES_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* LS_VALUES_BYTES at most. */
ls_status cuda_put_values(cudaStream_t stream, void *to, const void *from, size_t bytes, ls_message *why);
/* Does the plug-in have code for the current device? cudaErrorNoKernelImageForDevice: no. */
cudaError_t cuda_has_code(void);

#ifdef __cplusplus
}
#endif
#endif
