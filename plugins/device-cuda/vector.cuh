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

template <typename T, int N>
__device__ __forceinline__ void store_vector(T *to, const typename wide<T>::type (&from)[N])
{
    vector<T, N> v;
#pragma unroll
    for (int i = 0; i < N; i++) v.at[i] = as<T>(from[i]);
    *reinterpret_cast<vector<T, N> *>(to) = v;
}

/* Can rows of n elements, `pitch` apart, be read as vectors of N? */
template <typename T, int N> static bool fits_vectors(const void *data, int64_t n, int64_t pitch)
{
    return !data || ((uintptr_t)data % (N * sizeof(T)) == 0 && n % N == 0 && pitch % N == 0);
}

#endif
