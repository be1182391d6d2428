/* index.cuh - index tensors, as kernels read them. */
#ifndef LOCKSTEP_CUDA_INDEX_CUH
#define LOCKSTEP_CUDA_INDEX_CUH

#include "fault.h"
#include "number.cuh"
#include "walk.cuh"

/* Where an index tensor is: i64 or i32. */
struct index_source {
    const void *data;
    bool wide;
};

static index_source index_of(const ls_operand *index)
{
    return {index->data, index->dtype == LS_I64};
}

static __device__ __forceinline__ int64_t index_at(index_source s, int64_t at)
{
    return s.wide ? ((const int64_t *)s.data)[at] : ((const int32_t *)s.data)[at];
}

#endif
