/* eight.cuh - eight neighbouring elements at a time: 16 bytes of a half type, and a byte of a mask of bits. */
#ifndef LOCKSTEP_CUDA_EIGHT_CUH
#define LOCKSTEP_CUDA_EIGHT_CUH

#include "number.cuh"

/* 16 bytes at a time, or zeros if they are not there. In assembly, because the compiler splits stores into words and
 * may move each load to its use, so that only one is in flight. */
static __device__ __forceinline__ uint4 load_16_bytes(const void *from, bool there)
{
    uint4 v;
    asm volatile("{\n"
                 "    .reg .pred there;\n"
                 "    setp.ne.s32 there, %5, 0;\n"
                 "    mov.b32 %0, 0;\n"
                 "    mov.b32 %1, 0;\n"
                 "    mov.b32 %2, 0;\n"
                 "    mov.b32 %3, 0;\n"
                 "    @there ld.global.v4.b32 {%0, %1, %2, %3}, [%4];\n"
                 "}"
                 : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
                 : "l"(from), "r"((int)there));
    return v;
}

static __device__ __forceinline__ void store_16_bytes(void *to, uint4 v)
{
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

/* As loaded from memory, so that several loads can be in flight before the first is converted. WHOLE: all eight are
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
            for (int i = 0; i < (int)sizeof(T) / 2; i++) part[i] = load_16_bytes((const uint4 *)from + i, valid != 0);
        } else {
#pragma unroll
            for (int i = 0; i < 8; i++) element[i] = i < valid ? from[i] : as<T>(0.0f);
        }
    }

    template <bool WHOLE> __device__ __forceinline__ void store(T *to, int valid) const
    {
        if (WHOLE) {
#pragma unroll
            for (int i = 0; i < (int)sizeof(T) / 2; i++) store_16_bytes((uint4 *)to + i, part[i]);
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
