/* attention_hopper.cuh - what the kernels of attention on Hopper's tensor cores share: tiles, and rows on their way to
 * and from shared memory. */
#ifndef LOCKSTEP_CUDA_ATTENTION_HOPPER_CUH
#define LOCKSTEP_CUDA_ATTENTION_HOPPER_CUH

#include "attention.h"
#include "wgmma.cuh"

enum {
    TILE = 64,
    TILE_BYTES = TILE * 128,
    STAGE = 2 * TILE, /* keys that arrive together */
    STAGES = 3,
    STAGE_BYTES = STAGE * 128,
    MOST_QUERIES = 8192, /* of a gradient, which has some numbers of each in shared memory */
};

#define LOG2E 1.44269504088896341f
#define LN2 0.69314718055994531f

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

template <typename T> static __device__ __forceinline__ T *head_at(const attention_heads &x, int64_t b, int64_t h)
{
    return (T *)x.data + b * x.batch + h * x.head;
}

/* Rows [first, first + COUNT) of a head to shared memory, by THREADS threads; zeros from `limit` on. A thread copies
 * the same piece of every THREADS / 8-th row: a multiple of 8 rows further the swizzle is the same. */
template <int THREADS, int COUNT, typename T>
static __device__ __forceinline__ void load_rows(uint32_t to, const T *head, int64_t pitch, int first, int limit)
{
    const int STEP = THREADS / 8;
    static_assert(STEP % 8 == 0, "the swizzle repeats every 8 rows");
    int row = threadIdx.x >> 3, piece = threadIdx.x & 7;
    const T *from = head + (int64_t)(first + row) * (int)pitch + piece * 8;
    uint32_t at = to + swizzled(row, piece);
#pragma unroll
    for (int r = 0; r < COUNT; r += STEP)
        if (r + STEP <= COUNT || r + row < COUNT)
            copy_16(at + r * 128, from + (int64_t)r * (int)pitch, first + row + r < limit);
}

/* 64 rows of sums, scaled, to memory: through the warp's 16 rows of shared memory, so that whole rows are written. Rows
 * from `limit` on do not exist. */
template <typename T>
static __device__ __forceinline__ void store_rows(uint32_t shared, const uint8_t *generic, const float (&d)[32],
                                                  float scale0, float scale1, T *head, int64_t pitch, int first,
                                                  int limit)
{
    typedef tensor_core<T> core;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3, mine = warp * 16 + (lane & 15);
#pragma unroll
    for (int k = 0; k < 4; k++)
        store_square(shared + swizzled(mine, k * 2 + (lane >> 4)), core::pack(d[k * 8] * scale0, d[k * 8 + 1] * scale0),
                     core::pack(d[k * 8 + 2] * scale1, d[k * 8 + 3] * scale1),
                     core::pack(d[k * 8 + 4] * scale0, d[k * 8 + 5] * scale0),
                     core::pack(d[k * 8 + 6] * scale1, d[k * 8 + 7] * scale1));
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 4; k++) {
        int row = warp * 16 + k * 4 + (lane >> 3), piece = lane & 7;
        if (first + row < limit)
            *(uint4 *)(head + (first + row) * pitch + piece * 8) = *(const uint4 *)(generic + swizzled(row, piece));
    }
    __syncwarp();
}

/* From the words of rows r and r + 8: bit 4 j + e is set where number 4 j + e of the thread is dropped. */
static __device__ __forceinline__ uint32_t dropped_numbers(uint32_t upper, uint32_t lower)
{
    int shift = threadIdx.x & 1 ? 2 : 0;
    return (upper >> shift & 0x33333333u) | (lower >> shift & 0x33333333u) << 2;
}

/* ---- Launching --------------------------------------------------------------------------------------------------- */

template <typename Kernel> static ls_status allow(Kernel *kernel, size_t bytes, ls_message *why)
{
    return cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                      "attention: shared memory", why);
}

static inline dim3 blocks_of(const attention *a, int64_t rows, int each)
{
    return dim3((unsigned)((rows + each - 1) / each), (unsigned)a->heads, (unsigned)a->batch);
}

#endif
