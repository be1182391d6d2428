/* vector.cuh - numbers read and written 16 bytes at a time, and computed with in their wide type. */
#ifndef LOCKSTEP_CUDA_VECTOR_CUH
#define LOCKSTEP_CUDA_VECTOR_CUH

#include "number.cuh"

/* N numbers in memory: 16 bytes of them, or one where addresses are not aligned. */
template <typename T, int N> struct alignas(N * sizeof(T)) vector {
    T at[N];
};

template <typename T> struct whole {
    static const int N = 16 / sizeof(T);
};

template <typename T, int N> __device__ __forceinline__ void load_vector(typename wide<T>::type (&to)[N], const T *from)
{
    vector<T, N> v = *reinterpret_cast<const vector<T, N> *>(from);
#pragma unroll
    for (int i = 0; i < N; i++) to[i] = as<typename wide<T>::type>(v.at[i]);
}

/* Two neighbours at once, to an address that is a multiple of both: one instruction converts two floats to a half type,
 * several times as fast as one at a time. */
template <typename T>
__device__ __forceinline__ void put_two(T *to, typename wide<T>::type first, typename wide<T>::type second)
{
    to[0] = as<T>(first), to[1] = as<T>(second);
}
template <> __device__ __forceinline__ void put_two<bf16>(bf16 *to, float first, float second)
{
    *reinterpret_cast<__nv_bfloat162 *>(to) = __floats2bfloat162_rn(first, second);
}
template <> __device__ __forceinline__ void put_two<f16>(f16 *to, float first, float second)
{
    *reinterpret_cast<__half2 *>(to) = __floats2half2_rn(first, second);
}

template <typename T, int N>
__device__ __forceinline__ void store_vector(T *to, const typename wide<T>::type (&from)[N])
{
    vector<T, N> v;
    if (N % 2) v.at[N - 1] = as<T>(from[N - 1]);
#pragma unroll
    for (int i = 0; i + 1 < N; i += 2) put_two<T>(v.at + i, from[i], from[i + 1]);
    *reinterpret_cast<vector<T, N> *>(to) = v;
}

/* Can rows of n elements, `pitch` apart, be read as vectors of N? */
template <typename T, int N> static bool fits_vectors(const void *data, int64_t n, int64_t pitch)
{
    return !data || ((uintptr_t)data % (N * sizeof(T)) == 0 && n % N == 0 && pitch % N == 0);
}

#endif
