/* number.cuh - number types of operands as C++ types, and the type arithmetic happens in. */
#ifndef LOCKSTEP_CUDA_NUMBER_CUH
#define LOCKSTEP_CUDA_NUMBER_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "cuda.h"

typedef __half f16;
typedef __nv_bfloat16 bf16;

/* What a number is computed in: half types in f32, all others in themselves. */
template <typename T> struct wide {
    typedef T type;
};
template <> struct wide<f16> {
    typedef float type;
};
template <> struct wide<bf16> {
    typedef float type;
};

/* Conversion with the rounding of the CPU device: to nearest even between floating types, towards zero to integers. */
template <typename To, typename From> struct convert {
    static __device__ __forceinline__ To from(From x)
    {
        return (To)x;
    }
};
template <typename From> struct convert<f16, From> {
    static __device__ __forceinline__ f16 from(From x)
    {
        return __float2half_rn((float)x);
    }
};
template <typename From> struct convert<bf16, From> {
    static __device__ __forceinline__ bf16 from(From x)
    {
        return __float2bfloat16_rn((float)x);
    }
};
template <typename To> struct convert<To, f16> {
    static __device__ __forceinline__ To from(f16 x)
    {
        return (To)__half2float(x);
    }
};
template <typename To> struct convert<To, bf16> {
    static __device__ __forceinline__ To from(bf16 x)
    {
        return (To)__bfloat162float(x);
    }
};
template <> struct convert<f16, f16> {
    static __device__ __forceinline__ f16 from(f16 x)
    {
        return x;
    }
};
template <> struct convert<bf16, bf16> {
    static __device__ __forceinline__ bf16 from(bf16 x)
    {
        return x;
    }
};
template <> struct convert<f16, bf16> {
    static __device__ __forceinline__ f16 from(bf16 x)
    {
        return __float2half_rn(__bfloat162float(x));
    }
};
template <> struct convert<bf16, f16> {
    static __device__ __forceinline__ bf16 from(f16 x)
    {
        return __float2bfloat16_rn(__half2float(x));
    }
};
template <typename To, typename From> __device__ __forceinline__ To as(From x)
{
    return convert<To, From>::from(x);
}

/* Call statement(s) with `T` standing for the C++ type of a floating ls_dtype; else refuse. */
#define CUDA_FLOATING(dtype, why, ...)                                                                                 \
    switch (dtype) {                                                                                                   \
    case LS_F32: {                                                                                                     \
        typedef float T;                                                                                               \
        __VA_ARGS__;                                                                                                   \
    } break;                                                                                                           \
    case LS_F16: {                                                                                                     \
        typedef f16 T;                                                                                                 \
        __VA_ARGS__;                                                                                                   \
    } break;                                                                                                           \
    case LS_BF16: {                                                                                                    \
        typedef bf16 T;                                                                                                \
        __VA_ARGS__;                                                                                                   \
    } break;                                                                                                           \
    case LS_F64: {                                                                                                     \
        typedef double T;                                                                                              \
        __VA_ARGS__;                                                                                                   \
    } break;                                                                                                           \
    default: return cuda_refuse((why), LS_ERR_UNSUPPORTED, "no kernel for this number type");                          \
    }

/* ---- sums within a warp and a block; every thread gets the result ---- */

template <typename T> __device__ __forceinline__ T warp_sum(T x)
{
    for (int lane = 16; lane > 0; lane >>= 1) x += __shfl_xor_sync(0xffffffffu, x, lane);
    return x;
}

template <typename T> __device__ __forceinline__ T warp_max(T x)
{
    for (int lane = 16; lane > 0; lane >>= 1) {
        T other = __shfl_xor_sync(0xffffffffu, x, lane);
        x = other > x ? other : x;
    }
    return x;
}

#endif
