/* walk.cuh - the device side of walk.h. */
#ifndef LOCKSTEP_CUDA_WALK_CUH
#define LOCKSTEP_CUDA_WALK_CUH

#include "walk.h"

/* Offsets, in elements, of element `index` in the first N operands of a walk. */
template <int N> static __device__ __forceinline__ void walk_to(const cuda_walk &w, int64_t index, int64_t (&at)[N])
{
    for (int n = 0; n < N; n++) at[n] = 0;
    if (w.is_narrow) {
        uint32_t rest = (uint32_t)index;
        for (int d = w.ndim - 1; d > 0; d--) {
            uint32_t quotient = (__umulhi(rest, w.multiplier[d]) + rest) >> w.shift[d];
            uint32_t place = rest - quotient * (uint32_t)w.dim[d];
            for (int n = 0; n < N; n++) at[n] += place * w.stride[n][d];
            rest = quotient;
        }
        for (int n = 0; n < N; n++) at[n] += rest * w.stride[n][0];
    } else {
        for (int d = w.ndim - 1; d > 0; d--) {
            int64_t quotient = index / w.dim[d], place = index - quotient * w.dim[d];
            for (int n = 0; n < N; n++) at[n] += place * w.stride[n][d];
            index = quotient;
        }
        for (int n = 0; n < N; n++) at[n] += index * w.stride[n][0];
    }
}

/* cuda_walk_add() with a stride for each of N operands. */
template <int N> static inline void walk_add(cuda_walk *walk, int64_t size, const int64_t (&stride)[N])
{
    static_assert(N <= CUDA_WALK_OPERANDS, "a walk has fewer operands");
    cuda_walk_add(walk, size, stride, N);
}

/* Loop over those of the indices [0, n) that belong to this thread. */
#define CUDA_EACH(i, n)                                                                                                \
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < (n); i += (int64_t)gridDim.x * blockDim.x)

#endif
