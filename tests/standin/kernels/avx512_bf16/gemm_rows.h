/* gemm_rows.h - replaces the header of this name in src/: VDPBF16PS in plain C. */
#ifndef LOCKSTEP_KERNELS_AVX512_BF16_GEMM_ROWS_H
#define LOCKSTEP_KERNELS_AVX512_BF16_GEMM_ROWS_H

#include "base/half.h"

static inline void row_1_bf16(sums_bf16 *sum, const uint32_t *unit, const sums_bf16 *x)
{
    ls_bf16 one[2], each[16][2];
    memcpy(one, unit, sizeof one);
    memcpy(each, x, sizeof each);
    for (int lane = 0; lane < 16; lane++) {
        for (int i = 0; i < 2; i++) sum[0][lane] += ls_bf16_to_f32(one[i]) * ls_bf16_to_f32(each[lane][i]);
    }
}

static inline void row_2_bf16(sums_bf16 *sum, const uint32_t *unit, const sums_bf16 *x)
{
    row_1_bf16(sum, unit, x);
    row_1_bf16(sum + 1, unit, x + 1);
}

static inline void row_1_at_bf16(sums_bf16 *sum, const char *first, int64_t distance, int times, int step,
                                 const sums_bf16 *x)
{
    row_1_bf16(sum, (const uint32_t *)(first + times * distance) + step, x);
}

static inline void row_2_at_bf16(sums_bf16 *sum, const char *first, int64_t distance, int times, int step,
                                 const sums_bf16 *x)
{
    row_2_bf16(sum, (const uint32_t *)(first + times * distance) + step, x);
}

#endif
