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

/* Both tiles of a slice of B are `right` units apart, slices b_slice. */
static inline __attribute__((always_inline)) void multiply_wide(int64_t k, const void *a, const void *b, int64_t right,
                                                                int64_t b_slice, const void *from, void *to,
                                                                int64_t ldc)
{
    const uint32_t *a_at = a, *b_at = b;
    sums_begin(from);
    for (; k > 0; k -= 32, a_at += 2 * TILE_UNITS, b_at += b_slice) {
        TILE_LOAD(4, a_at, TILE_ROW);
        TILE_LOAD(6, b_at, TILE_ROW);
        TILE_MULTIPLY(0, 4, 6);
        TILE_LOAD(7, b_at + right, TILE_ROW);
        TILE_MULTIPLY(1, 4, 7);
        TILE_LOAD(5, a_at + TILE_UNITS, TILE_ROW);
        TILE_MULTIPLY(2, 5, 6);
        TILE_MULTIPLY(3, 5, 7);
    }
    if (ldc) sums_end(to, 16 * ldc, 16, ldc * (int64_t)sizeof(float));
    else sums_end(to, 2 * TILE_UNITS, TILE_UNITS, TILE_ROW);
}

static void tile_wide_bf16(int64_t k, const void *a, const void *b, const void *from, void *to, int64_t ldc)
{
    multiply_wide(k, a, b, TILE_UNITS, 2 * TILE_UNITS, from, to, ldc);
}

static void tile_halves_bf16(int64_t k, const void *a, const void *b, int64_t b_stride, const void *from, void *to,
                             int64_t ldc)
{
    multiply_wide(k, a, b, b_stride / 2, TILE_UNITS, from, to, ldc);
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

static void in_place_wide_bf16(int64_t count, const ls_gemm_rows *a, const void *b, const ls_gemm_targets *to);

#define ISA "amx"
#define IN_PLACE(shape) IN_PLACE_##shape
#define IN_PLACE_wide .in_place = in_place_wide_bf16, .in_place_columns = INT64_MAX,
#define IN_PLACE_tall
#define ROWS 32
#define STEPS 16
#define BRACKET .begin = tile_begin, .end = tile_end
#include "kernels/x86/gemm_pairs.inc"

/* ---- rows of A where they lie ------------------------------------------------------------------------------------ */

/* Rows of a wide tile, its registers one after the other, to where they belong. */
static inline void put_rows(const float *sums, const ls_gemm_targets *to, void *const *row)
{
    for (int i = 0; i < 32; i++) {
        if (!row[i]) continue;
        void *out = (char *)row[i] + to->offset;
        const float *left = sums + i / 16 * 2 * TILE_UNITS + i % 16 * 16, *right = left + TILE_UNITS;
        if (to->columns == 32 && to->dtype == LS_BF16) {
            ls_vf_store_bf16(out, ls_vf_load(left));
            ls_vf_store_bf16((uint16_t *)out + 16, ls_vf_load(right));
        } else {
            int64_t first = to->columns < 16 ? to->columns : 16;
            ls_gemm_store(out, to->dtype, left, first);
            ls_gemm_store((char *)out + 16 * ls_dtype_size(to->dtype), to->dtype, right, to->columns - first);
        }
    }
}

/* Storing a register that has just been multiplied waits for the multiplier. So the sums of a tile leave the registers
 * one by one in the first step of the next tile, and are rounded while that one is multiplied. */
static void in_place_wide_bf16(int64_t count, const ls_gemm_rows *a, const void *b, const ls_gemm_targets *to)
{
    _Alignas(64) float sums[2][4 * TILE_UNITS];
    int64_t stride = a->stride;
    for (int64_t t = 0; t < count; t++) {
        const char *rows = (const char *)a->first + t * 32 * stride;
        const uint32_t *b_at = b;
        float *done = sums[t % 2];
        for (int64_t s = 0; s < a->slices; s++, b_at += 2 * TILE_UNITS) {
            const char *upper = rows + a->offset[s];
            TILE_LOAD(6, b_at, TILE_ROW);
            TILE_LOAD(7, b_at + TILE_UNITS, TILE_ROW);
            TILE_LOAD(4, upper, stride);
            TILE_LOAD(5, upper + 16 * stride, stride);
            if (s == 0) {
                TILE_STORE(0, done, TILE_ROW);
                TILE_ZERO(0);
                TILE_MULTIPLY(0, 4, 6);
                TILE_STORE(1, done + TILE_UNITS, TILE_ROW);
                TILE_ZERO(1);
                TILE_MULTIPLY(1, 4, 7);
                TILE_STORE(2, done + 2 * TILE_UNITS, TILE_ROW);
                TILE_ZERO(2);
                TILE_MULTIPLY(2, 5, 6);
                TILE_STORE(3, done + 3 * TILE_UNITS, TILE_ROW);
                TILE_ZERO(3);
                TILE_MULTIPLY(3, 5, 7);
            } else {
                TILE_MULTIPLY(0, 4, 6);
                TILE_MULTIPLY(1, 4, 7);
                TILE_MULTIPLY(2, 5, 6);
                TILE_MULTIPLY(3, 5, 7);
            }
        }
        if (t) put_rows(done, to, to->row + (t - 1) * 32);
    }
    sums_end(sums[0], 2 * TILE_UNITS, TILE_UNITS, TILE_ROW);
    put_rows(sums[0], to, to->row + (count - 1) * 32);
}

const ls_gemm_table ls_gemm_amx = {
    .bf16 = {&wide_bf16, &tall_bf16},
    .finish_f32 = ls_gemm_finish_f32,
    .channelwise_f32 = ls_gemm_channelwise_f32,
};
