/* any.cuh - convert between any two number types like the CPU: integers through int64_t, real numbers through double.
 * For kernels whose speed does not matter; all threads take the same branches. */
#ifndef LOCKSTEP_CUDA_ANY_CUH
#define LOCKSTEP_CUDA_ANY_CUH

#include "number.cuh"
#include "whole.cuh"

static __device__ __forceinline__ void store_whole(int dtype, void *data, int64_t i, int64_t w)
{
    if (dtype < LS_F16) store_as<int64_t>(dtype, data, i, w);
    else if (dtype == LS_F64) ((double *)data)[i] = (double)w;
    else store_as<float>(dtype, data, i, (float)w);
}

static __device__ __forceinline__ void store_real(int dtype, void *data, int64_t i, double r)
{
    if (dtype == LS_BOOL) ((uint8_t *)data)[i] = r != 0;
    else if (dtype < LS_F16) store_as<int64_t>(dtype, data, i, whole_of(r));
    else if (dtype == LS_F64) ((double *)data)[i] = r;
    else store_as<float>(dtype, data, i, (float)r);
}

static __device__ __forceinline__ void convert_any(int to_dtype, void *to, int64_t to_i, int from_dtype,
                                                   const void *from, int64_t from_i)
{
    if (from_dtype < LS_F16) store_whole(to_dtype, to, to_i, load_as<int64_t>(from_dtype, from, from_i));
    else if (from_dtype == LS_F64) store_real(to_dtype, to, to_i, ((const double *)from)[from_i]);
    else store_real(to_dtype, to, to_i, (double)load_as<float>(from_dtype, from, from_i));
}

#endif
