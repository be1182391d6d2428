/* number.cuh - number types as C++ types, the types computed in, loads and stores, sums within a warp. */
#ifndef LOCKSTEP_CUDA_NUMBER_CUH
#define LOCKSTEP_CUDA_NUMBER_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <type_traits>

#include "cuda.h"

typedef __half f16;
typedef __nv_bfloat16 bf16;

/* The type a number is computed in: float for half types, itself for all others. */
template <typename T> struct wide {
    typedef T type;
};
template <> struct wide<f16> {
    typedef float type;
};
template <> struct wide<bf16> {
    typedef float type;
};

/* Conversion with the rounding of the CPU device: between floating types to nearest even; from floating types to
 * integers towards zero, limited to the range of i64, NaN to 0; integers wrap modulo 2^bits; bool is "not 0". */
template <typename To, typename From> __device__ __forceinline__ To as(From x)
{
    if constexpr (std::is_same<To, From>::value) return x;
    else if constexpr (std::is_same<From, f16>::value) return as<To>(__half2float(x));
    else if constexpr (std::is_same<From, bf16>::value) return as<To>(__bfloat162float(x));
    else if constexpr (std::is_same<To, f16>::value) return __float2half_rn((float)x);
    else if constexpr (std::is_same<To, bf16>::value) return __float2bfloat16_rn((float)x);
    else if constexpr (std::is_same<To, bool>::value) return x != 0;
    else if constexpr (std::is_integral<To>::value && std::is_floating_point<From>::value)
        return x != x ? (To)0 : (To)__double2ll_rz((double)x);
    else return (To)x;
}

/* Run the statements with T as the C++ type of a floating ls_dtype; refuse all others. */
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
    default: return cuda_refuse((why), LS_ERR_DTYPE, "no kernel for this number type");                                \
    }

/* ---- elements whose type is an argument of the kernel: all threads take the same branch ---- */

/* Load element i as a C: float for f32 and half types, double for f64, int64_t for integers and bool. */
template <typename C> __device__ __forceinline__ C load_as(int dtype, const void *data, int64_t i)
{
    if constexpr (std::is_same<C, float>::value) {
        if (dtype == LS_F32) return ((const float *)data)[i];
        if (dtype == LS_F16) return __half2float(((const f16 *)data)[i]);
        return __bfloat162float(((const bf16 *)data)[i]);
    } else if constexpr (std::is_same<C, double>::value) {
        return ((const double *)data)[i];
    } else {
        if (dtype == LS_I64) return ((const int64_t *)data)[i];
        if (dtype == LS_I32) return ((const int32_t *)data)[i];
        if (dtype == LS_I8) return ((const int8_t *)data)[i];
        return ((const uint8_t *)data)[i];
    }
}

/* Store element i. Every C can be stored as bool. */
template <typename C> __device__ __forceinline__ void store_as(int dtype, void *data, int64_t i, C value)
{
    if (dtype == LS_BOOL) {
        ((uint8_t *)data)[i] = value != 0;
        return;
    }
    if constexpr (std::is_same<C, float>::value) {
        if (dtype == LS_F32) ((float *)data)[i] = value;
        else if (dtype == LS_F16) ((f16 *)data)[i] = as<f16>(value);
        else ((bf16 *)data)[i] = as<bf16>(value);
    } else if constexpr (std::is_same<C, double>::value) {
        ((double *)data)[i] = value;
    } else {
        if (dtype == LS_I64) ((int64_t *)data)[i] = value;
        else if (dtype == LS_I32) ((int32_t *)data)[i] = (int32_t)value;
        else ((uint8_t *)data)[i] = (uint8_t)value;
    }
}

/* Load eight elements from index i, a multiple of 8, of an array aligned to 16 bytes. */
static __device__ __forceinline__ void load8(int dtype, const void *data, int64_t i, float (&x)[8])
{
    if (dtype == LS_F32) {
        const float4 *from = (const float4 *)((const float *)data + i);
        float4 a = from[0], b = from[1];
        x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
        x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
        return;
    }
    union {
        uint4 all;
        f16 half[8];
        bf16 brain[8];
    } bits;
    bits.all = *(const uint4 *)((const uint16_t *)data + i);
    if (dtype == LS_F16)
        for (int k = 0; k < 8; k++) x[k] = __half2float(bits.half[k]);
    else
        for (int k = 0; k < 8; k++) x[k] = __bfloat162float(bits.brain[k]);
}

/* Store eight elements, also as bool. */
static __device__ __forceinline__ void store8(int dtype, void *data, int64_t i, const float (&x)[8])
{
    if (dtype == LS_F32) {
        float4 *to = (float4 *)((float *)data + i);
        to[0] = make_float4(x[0], x[1], x[2], x[3]);
        to[1] = make_float4(x[4], x[5], x[6], x[7]);
        return;
    }
    if (dtype == LS_BOOL) {
        uint64_t bytes = 0;
        for (int k = 0; k < 8; k++) bytes |= (uint64_t)(x[k] != 0) << 8 * k;
        *(uint64_t *)((uint8_t *)data + i) = bytes;
        return;
    }
    uint32_t pair[4];
    for (int k = 0; k < 4; k++) {
        uint16_t low, high;
        if (dtype == LS_F16) {
            low = __half_as_ushort(as<f16>(x[2 * k])), high = __half_as_ushort(as<f16>(x[2 * k + 1]));
        } else {
            low = __bfloat16_as_ushort(as<bf16>(x[2 * k])), high = __bfloat16_as_ushort(as<bf16>(x[2 * k + 1]));
        }
        pair[k] = (uint32_t)high << 16 | low;
    }
    *(uint4 *)((uint16_t *)data + i) = make_uint4(pair[0], pair[1], pair[2], pair[3]);
}

/* ---- sums within a warp; all threads get the result ---- */

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
