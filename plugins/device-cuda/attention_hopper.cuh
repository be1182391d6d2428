/* attention_hopper.cuh - what the kernels of attention on Hopper's tensor cores share: tiles, and rows on their way to
 * and from shared memory.
 *
 * Rows of shared memory are of 64 numbers. Longer rows, of up to 128, lie there as two panels, one behind the other:
 * the first 64 columns of all rows, then the others. What rows leave of their panels is zero. */
#ifndef LOCKSTEP_CUDA_ATTENTION_HOPPER_CUH
#define LOCKSTEP_CUDA_ATTENTION_HOPPER_CUH

#include "attention.h"
#include "wgmma.cuh"

enum {
    TILE = 64,
    TILE_BYTES = TILE * 128,
    STAGES = 3,
    STAGE_BYTES = 2 * TILE_BYTES, /* of keys that arrive together: two tiles, or one of two panels */
    MOST_QUERIES = 8192,          /* of a gradient, which has some numbers of each in shared memory */
};

#define LOG2E 1.44269504088896341f
#define LN2 0.69314718055994531f

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

template <typename T> static __device__ __forceinline__ T *head_at(const attention_heads &x, int64_t b, int64_t h)
{
    return (T *)x.data + b * x.batch + h * x.head;
}

/* A head's matrix: rows of `pieces` times 8 numbers. */
template <typename T> struct head_rows {
    T *data;
    int64_t pitch; /* in elements */
    int pieces;

    /* 64 columns, or fewer. */
    __device__ __forceinline__ head_rows panel(int i) const
    {
        head_rows rows = {data + i * 64, pitch, pieces - i * 8};
        return rows;
    }
};

template <typename T>
static __device__ __forceinline__ head_rows<T> rows_of(const attention_heads &x, int64_t b, int64_t h, int64_t depth)
{
    head_rows<T> rows = {head_at<T>(x, b, h), x.row, (int)depth / 8};
    return rows;
}

/* What a thread works on: block (x, y, z) has ROWS rows of a head, of a sequence; its warpgroup 64 of them. */
typedef struct standing {
    int64_t b, h;
    int group, warp, lane;
    int first, mine;   /* rows of the block and of the warpgroup */
    int queries, keys; /* of the sequence */
} standing;

template <int ROWS> static __device__ __forceinline__ standing standing_in(const attention &a)
{
    standing s;
    s.b = blockIdx.z, s.h = blockIdx.y;
    s.group = __shfl_sync(~0u, threadIdx.x >> 7, 0), s.warp = threadIdx.x >> 5 & 3, s.lane = threadIdx.x & 31;
    s.first = blockIdx.x * ROWS, s.mine = s.first + s.group * 64;
    int64_t length = length_of(a, s.b);
    s.queries = (int)(length < a.queries ? length : a.queries), s.keys = (int)(length < a.keys ? length : a.keys);
    return s;
}

/* Rows [first, first + COUNT) of a head to shared memory, by THREADS threads; zeros from `limit` on, and where rows are
 * shorter than 64. A thread copies the same piece of every THREADS / 8-th row: a multiple of 8 rows further the swizzle
 * is the same. */
template <int THREADS, int COUNT, typename T>
static __device__ __forceinline__ void load_rows(uint32_t to, const head_rows<T> &head, int first, int limit)
{
    const int STEP = THREADS / 8;
    static_assert(STEP % 8 == 0, "the swizzle repeats every 8 rows");
    int row = threadIdx.x >> 3, piece = threadIdx.x & 7;
    int pitch = (int)head.pitch;
    const T *from = head.data + (int64_t)(first + row) * pitch + piece * 8;
    uint32_t at = to + swizzled(row, piece);
    if (piece >= head.pieces) limit = 0;
#pragma unroll
    for (int r = 0; r < COUNT; r += STEP)
        if (r + STEP <= COUNT || r + row < COUNT)
            copy_16(at + r * 128, from + (int64_t)r * pitch, first + row + r < limit);
}

template <int THREADS, int COUNT, int PANELS, typename T>
static __device__ __forceinline__ void load_panels(uint32_t to, const head_rows<T> &head, int first, int limit)
{
#pragma unroll
    for (int i = 0; i < PANELS; i++) load_rows<THREADS, COUNT>(to + i * COUNT * 128, head.panel(i), first, limit);
}

/* s = a b^T of 64 rows each, whose panels are so many bytes apart. */
template <typename T, int PANELS>
static __device__ __forceinline__ void multiply_rows(float (&s)[32], uint32_t a, uint32_t a_panel, uint32_t b,
                                                     uint32_t b_panel)
{
    typedef tensor_core<T> core;
    core::multiply_first(s, matrix_at(a), matrix_at(b));
#pragma unroll
    for (int k = 1; k < 4 * PANELS; k++)
        core::multiply(s, matrix_at(a + k / 4 * a_panel) + k % 4 * ALONG,
                       matrix_at(b + k / 4 * b_panel) + k % 4 * ALONG);
}

/* Each panel of `sums` += a b, a of 64 x 64 numbers in registers, b of 64 rows. */
template <typename T, int PANELS>
static __device__ __forceinline__ void add_products(float (&sums)[PANELS][32], const uint32_t *a, uint32_t b,
                                                    uint32_t b_panel)
{
#pragma unroll
    for (int i = 0; i < PANELS; i++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            tensor_core<T>::multiply_down(sums[i], a + k * 4, matrix_at(b + i * b_panel) + k * DOWN);
}

template <int PANELS> static __device__ __forceinline__ void clear(float (&sums)[PANELS][32])
{
#pragma unroll
    for (int i = 0; i < PANELS * 32; i++) sums[i / 32][i % 32] = 0;
}

template <int PANELS> static __device__ __forceinline__ void settle_all(float (&sums)[PANELS][32])
{
#pragma unroll
    for (int i = 0; i < PANELS; i++) settle(sums[i]);
}

/* 64 rows of sums, scaled, to memory: through the warp's 16 rows of shared memory, so that whole rows are written. Rows
 * from `limit` on do not exist. */
template <typename T>
static __device__ __forceinline__ void store_rows(uint32_t shared, const uint8_t *generic, const float (&d)[32],
                                                  float scale0, float scale1, const head_rows<T> &head, int first,
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
        if (first + row < limit && piece < head.pieces)
            *(uint4 *)(head.data + (first + row) * head.pitch + piece * 8) =
                *(const uint4 *)(generic + swizzled(row, piece));
    }
    __syncwarp();
}

template <typename T, int PANELS>
static __device__ __forceinline__ void store_panels(uint32_t shared, const uint8_t *generic,
                                                    const float (&d)[PANELS][32], float scale0, float scale1,
                                                    const head_rows<T> &head, int first, int limit)
{
#pragma unroll
    for (int i = 0; i < PANELS; i++) store_rows<T>(shared, generic, d[i], scale0, scale1, head.panel(i), first, limit);
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

/* Do heads need two panels? */
static inline bool is_wide(const attention *a)
{
    return a->depth > 64 || a->value_depth > 64;
}

static inline dim3 blocks_of(const attention *a, int64_t rows, int each)
{
    return dim3((unsigned)((rows + each - 1) / each), (unsigned)a->heads, (unsigned)a->batch);
}

#endif
