/* gemm.c - bf16 matrix products with AMX: four tiles of sums, two by two or one below the other, grow by 32 k at a
 * time. A slice of a panel is as many tiles as the panel is wide, each of them 1 KiB without gaps. */
#include "kernels/gemm.h"

#include "kernels/amx/tile.h"

#define TILE_UNITS 256 /* of four bytes */
#define TILE_ROW 64    /* bytes */

/* Sums are in registers 0 to 3. They start from a partial tile, which is these registers as they are, or with zero. */
static inline __attribute__((always_inline)) void sums_begin(const float *from)
{
    if (from) {
        TILE_LOAD(0, from, TILE_ROW);
        TILE_LOAD(1, from + TILE_UNITS, TILE_ROW);
        TILE_LOAD(2, from + 2 * TILE_UNITS, TILE_ROW);
        TILE_LOAD(3, from + 3 * TILE_UNITS, TILE_ROW);
    } else {
        TILE_ZERO(0);
        TILE_ZERO(1);
        TILE_ZERO(2);
        TILE_ZERO(3);
    }
}

/* Register 2 i + j goes to `to` + i * down + j * right. */
static inline __attribute__((always_inline)) void sums_end(float *to, int64_t down, int64_t right, int64_t stride)
{
    TILE_STORE(0, to, stride);
    TILE_STORE(1, to + right, stride);
    TILE_STORE(2, to + down, stride);
    TILE_STORE(3, to + down + right, stride);
}

static void tile_wide_bf16(int64_t k, const void *a, const void *b, const void *from, void *to, int64_t ldc)
{
    const uint32_t *a_at = a, *b_at = b;
    sums_begin(from);
    for (; k > 0; k -= 32, a_at += 2 * TILE_UNITS, b_at += 2 * TILE_UNITS) {
        TILE_LOAD(4, a_at, TILE_ROW);
        TILE_LOAD(6, b_at, TILE_ROW);
        TILE_MULTIPLY(0, 4, 6);
        TILE_LOAD(7, b_at + TILE_UNITS, TILE_ROW);
        TILE_MULTIPLY(1, 4, 7);
        TILE_LOAD(5, a_at + TILE_UNITS, TILE_ROW);
        TILE_MULTIPLY(2, 5, 6);
        TILE_MULTIPLY(3, 5, 7);
    }
    if (ldc) sums_end(to, 16 * ldc, 16, ldc * (int64_t)sizeof(float));
    else sums_end(to, 2 * TILE_UNITS, TILE_UNITS, TILE_ROW);
}

static void tile_tall_bf16(int64_t k, const void *a, const void *b, const void *from, void *to, int64_t ldc)
{
    const uint32_t *a_at = a, *b_at = b;
    sums_begin(from);
    for (; k > 0; k -= 32, a_at += 4 * TILE_UNITS, b_at += TILE_UNITS) {
        TILE_LOAD(7, b_at, TILE_ROW);
        TILE_LOAD(4, a_at, TILE_ROW);
        TILE_MULTIPLY(0, 4, 7);
        TILE_LOAD(5, a_at + TILE_UNITS, TILE_ROW);
        TILE_MULTIPLY(1, 5, 7);
        TILE_LOAD(6, a_at + 2 * TILE_UNITS, TILE_ROW);
        TILE_MULTIPLY(2, 6, 7);
        TILE_LOAD(4, a_at + 3 * TILE_UNITS, TILE_ROW);
        TILE_MULTIPLY(3, 4, 7);
    }
    if (ldc) sums_end(to, 32 * ldc, 16 * ldc, ldc * (int64_t)sizeof(float));
    else sums_end(to, 2 * TILE_UNITS, TILE_UNITS, TILE_ROW);
}

#define ISA "amx"
#define ROWS 32
#define STEPS 16
#define BRACKET .begin = tile_begin, .end = tile_end
#include "kernels/x86/gemm_pairs.inc"

const ls_gemm_table ls_gemm_amx = {
    .bf16 = {&wide_bf16, &tall_bf16},
    .finish_f32 = ls_gemm_finish_f32,
    .channelwise_f32 = ls_gemm_channelwise_f32,
};
