/* recent.h - which operators were submitted since the host last waited: what an error that arrives late may belong to.
 *
 * A GPU reports a failure of a kernel long after its launch, to whichever call comes next. Calls are counted as they
 * are submitted, and the last few remembered; a wait that succeeds clears all that was submitted before it. */
#ifndef LOCKSTEP_CUDA_RECENT_H
#define LOCKSTEP_CUDA_RECENT_H

#include "cuda.h"

cuda_recent *cuda_recent_new(void);
void cuda_recent_free(cuda_recent *recent);

void cuda_recent_note(cuda_recent *recent, const ls_call *call);
/* The number of calls so far: take it before a wait, and give it to cuda_recent_done() where that succeeds. */
uint64_t cuda_recent_count(const cuda_recent *recent);
void cuda_recent_done(cuda_recent *recent, uint64_t count);
/* Calls of which it is not known yet whether they succeeded. */
uint64_t cuda_recent_open(const cuda_recent *recent);

/* The error after which CUDA does nothing more in this process; cudaSuccess: there was none. */
cudaError_t cuda_died_of(void);
/* cuda_check() of a call that may report the failure of an operator submitted before: names those it may belong to. */
ls_status cuda_check_late(const cuda_device *d, cudaError_t error, const char *what, ls_message *why);

/* Put into the reason of a failure which operator it belongs to, or which it may belong to. */
void cuda_recent_blame(const cuda_device *d, ls_message *why);
/* "bert/encoder.3: linear", the last that was submitted; "" where there was none. */
void cuda_recent_last(const cuda_device *d, char *text, size_t size);

#endif
