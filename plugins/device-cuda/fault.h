/* fault.h - data that a kernel cannot use, such as an index out of range.
 *
 * The kernel records the fault and continues without touching wrong memory; the host reads the record at its next wait
 * and reports it with the operator and the module. Of several faults only the first is kept. */
#ifndef LOCKSTEP_CUDA_FAULT_H
#define LOCKSTEP_CUDA_FAULT_H

#include "cuda.h"

/* Where a kernel reports; passed by value as an argument of the launch. */
typedef struct cuda_fault_site {
    int32_t *taken;             /* device memory: 0 until the first fault */
    struct cuda_fault *written; /* host memory that the device sees */
    const char *site;           /* of the call; only the host looks at it */
    int32_t op;
} cuda_fault_site;

struct cuda_fault {
    volatile int32_t there;
    int32_t op;
    const char *site;
    int64_t index, limit; /* an index that is not within [0, limit) */
    int32_t *taken;
};

#ifdef __cplusplus
extern "C" {
#endif

ls_status cuda_fault_new(cuda_device *d, ls_message *why);
void cuda_fault_free(cuda_device *d);
cuda_fault_site cuda_fault_at(const cuda_device *d, const ls_call *call);
/* After a wait: LS_OK, or the fault that was recorded, which is cleared. `blame` adds the names to the message: that of
 * ls_host, or NULL if the caller adds them. */
ls_status cuda_fault_read(cuda_device *d, void (*blame)(const char *site, ls_opcode op, ls_message *why),
                          ls_message *why);

#ifdef __cplusplus
}
#endif

#ifdef __CUDACC__
/* True if the index is valid; else it is reported. */
static __device__ __forceinline__ bool fault_unless_index(cuda_fault_site at, int64_t index, int64_t limit)
{
    if ((uint64_t)index < (uint64_t)limit) return true;
    if (atomicCAS(at.taken, 0, 1) == 0) {
        at.written->op = at.op;
        at.written->site = at.site;
        at.written->index = index;
        at.written->limit = limit;
        __threadfence_system();
        at.written->there = 1;
    }
    return false;
}
#endif
#endif
