/* mma.cuh - products of small matrices by the tensor cores of all supported GPUs, a warp at a time. */
#ifndef LOCKSTEP_CUDA_MMA_CUH
#define LOCKSTEP_CUDA_MMA_CUH

#include "number.cuh"

/* sum [16,8] += a [16,16] b [16,8]. With g = lane / 4 and t = lane % 4, a thread has
 *
 *     a    rows g, g + 8, g, g + 8; columns 2t and 2t + 1, of the last two 8 further on
 *     b    column g; rows 2t and 2t + 1, of b1 8 further on
 *     sum  rows g, g, g + 8, g + 8; columns 2t, 2t + 1, 2t, 2t + 1 */
static __device__ __forceinline__ void multiply(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, f16)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
static __device__ __forceinline__ void multiply(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bf16)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif
