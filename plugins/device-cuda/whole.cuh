/* whole.cuh - integer arithmetic of the CPU device: in int64_t, wrapping around. */
#ifndef LOCKSTEP_CUDA_WHOLE_CUH
#define LOCKSTEP_CUDA_WHOLE_CUH

#include <stdint.h>

static __device__ __forceinline__ int64_t whole_multiply(int64_t x, int64_t y)
{
    return (int64_t)((uint64_t)x * (uint64_t)y);
}

static __device__ __forceinline__ int64_t whole_negate(int64_t x)
{
    return (int64_t)(0 - (uint64_t)x);
}

/* Rounds towards zero and saturates; NaN becomes 0. */
static __device__ __forceinline__ int64_t whole_of(double x)
{
    return x != x ? 0 : __double2ll_rz(x);
}

static __device__ __forceinline__ int64_t whole_power(int64_t x, int64_t y)
{
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    int64_t result = 1;
    for (; y; y >>= 1, x = whole_multiply(x, x))
        if (y & 1) result = whole_multiply(result, x);
    return result;
}

/* 0 by 0; -1 is apart because the smallest integer has no quotient by it. */
static __device__ __forceinline__ int64_t whole_remainder(int64_t x, int64_t y)
{
    if (y == 0 || y == -1) return 0;
    int64_t r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

#endif
