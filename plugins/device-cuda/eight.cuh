/* eight.cuh - eight neighbouring elements at a time: 16 bytes of a half type, and a byte of a mask of bits. */
#ifndef LOCKSTEP_CUDA_EIGHT_CUH
#define LOCKSTEP_CUDA_EIGHT_CUH

#include "number.cuh"

/* As they come from memory, so that several loads can be under way before the first is converted. WHOLE: all eight are
 * there, or none, and their address is a multiple of 16 bytes. Else only the first `valid` are. What is not there
 * counts as 0. */
template <typename T> struct eight {
    union {
        uint4 part[sizeof(T) / 2];
        T element[8];
    };
    __device__ __forceinline__ eight()
    {
    }

    template <bool WHOLE> __device__ __forceinline__ void load(const T *from, int valid)
    {
        if (WHOLE) {
#pragma unroll
            for (int i = 0; i < (int)sizeof(T) / 2; i++)
                part[i] = valid ? ((const uint4 *)from)[i] : make_uint4(0, 0, 0, 0);
        } else {
#pragma unroll
            for (int i = 0; i < 8; i++) element[i] = i < valid ? from[i] : as<T>(0.0f);
        }
    }

    template <bool WHOLE> __device__ __forceinline__ void store(T *to, int valid) const
    {
        if (WHOLE) {
#pragma unroll
            for (int i = 0; i < (int)sizeof(T) / 2; i++) ((uint4 *)to)[i] = part[i];
        } else {
#pragma unroll
            for (int i = 0; i < 8; i++)
                if (i < valid) to[i] = element[i];
        }
    }
};

static inline bool can_load_eight(const void *address)
{
    return (uintptr_t)address % 16 == 0;
}

#endif
