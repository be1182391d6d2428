/* recent.h - the operators submitted since the host last waited: those that a late error may belong to.
 *
 * A GPU reports the failure of a kernel long after its launch, through a later call. Calls are counted as they are
 * submitted, and the last few are kept; a successful wait clears everything submitted before it. */
#ifndef LOCKSTEP_CUDA_RECENT_H
#define LOCKSTEP_CUDA_RECENT_H

#include "cuda.h"

cuda_recent *cuda_recent_new(void);
void cuda_recent_free(cuda_recent *recent);

void cuda_recent_note(cuda_recent *recent, const ls_call *call);
/* The number of calls so far: get it before a wait, and pass it to cuda_recent_done() if the wait succeeds. */
uint64_t cuda_recent_count(const cuda_recent *recent);
void cuda_recent_done(cuda_recent *recent, uint64_t count);
/* Number of calls that have not been waited for. */
uint64_t cuda_recent_open(const cuda_recent *recent);

/* The error after which CUDA stopped working in this process; cudaSuccess: none. */
cudaError_t cuda_died_of(void);
/* cuda_check() for calls that may report the failure of an earlier operator: names the possible ones. */
ls_status cuda_check_late(const cuda_device *d, cudaError_t error, const char *what, ls_message *why);

/* Add the operator that failed to the message, or those that may have. */
void cuda_recent_blame(const cuda_device *d, ls_message *why);
/* The last operator submitted, such as "bert/encoder.3: linear"; "" if there was none. */
void cuda_recent_last(const cuda_device *d, char *text, size_t size);

#endif
