/* gemm_turn.h - panels of pairs of bf16 whose slices are 16 units deep, with AVX-512: transposes blocks of 16 x 16
 * units in registers, where gemm_panels.inc transposes four by four. The same functions under the same names. */
#ifndef LOCKSTEP_KERNELS_X86_GEMM_TURN_H
#define LOCKSTEP_KERNELS_X86_GEMM_TURN_H

#include <immintrin.h>

#define LS_TURN static inline __attribute__((always_inline))
#if defined(__clang__)
#define LS_TURN_EACH(i, count) _Pragma("clang loop unroll(full)") for (int i = 0; i < (count); i++)
#else
#define LS_TURN_EACH(i, count) _Pragma("GCC unroll 16") for (int i = 0; i < (count); i++)
#endif

/* Transpose 16 rows of 16 units: within quarters of registers first, then quarters among registers. */
LS_TURN void turn_16(__m512i row[16])
{
    __m512i t[16];
    LS_TURN_EACH(i, 8)
    {
        t[2 * i] = _mm512_unpacklo_epi32(row[2 * i], row[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(row[2 * i], row[2 * i + 1]);
    }
    LS_TURN_EACH(i, 4)
    {
        row[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        row[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        row[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        row[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    LS_TURN_EACH(i, 4)
    {
        t[i] = _mm512_shuffle_i32x4(row[i], row[4 + i], 0x88);
        t[4 + i] = _mm512_shuffle_i32x4(row[i], row[4 + i], 0xdd);
        t[8 + i] = _mm512_shuffle_i32x4(row[8 + i], row[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_i32x4(row[8 + i], row[12 + i], 0xdd);
    }
    LS_TURN_EACH(i, 4)
    {
        row[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
        row[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
        row[4 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88);
        row[12 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xdd);
    }
}

/* Units of 16 columns from `at` on: the numbers of two successive lines across k. */
LS_TURN __m512i gather_16(const void *const *line, int step, int64_t at)
{
    __m256i even = _mm256_loadu_si256((const __m256i *)((const uint16_t *)line[2 * step] + at));
    __m256i odd = _mm256_loadu_si256((const __m256i *)((const uint16_t *)line[2 * step + 1] + at));
    return _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

/* Units of 32 columns from `at` on, a cache line of each of two successive lines across k: *low gets the first four of
 * every eight columns, *high the others. */
LS_TURN void gather_32(const void *const *line, int step, int64_t at, __m512i *low, __m512i *high)
{
    __m512i even = _mm512_loadu_si512((const uint16_t *)line[2 * step] + at);
    __m512i odd = _mm512_loadu_si512((const uint16_t *)line[2 * step + 1] + at);
    *low = _mm512_unpacklo_epi16(even, odd);
    *high = _mm512_unpackhi_epi16(even, odd);
}

/* Panels of A are a multiple of 32 wide. */
LS_TURN void across_a_bf16(uint32_t *to, int64_t panel_stride, const void *const *line, int64_t count, int rows)
{
    for (int64_t at = 0; at < count * rows; at += rows, to += panel_stride / 2) {
        for (int i = 0; i < rows; i += 32) {
            __m512i low[16], high[16];
            LS_TURN_EACH(s, 16) gather_32(line, s, at + i, &low[s], &high[s]);
            turn_16(low);
            LS_TURN_EACH(j, 16) _mm512_storeu_si512(to + (i + j / 4 * 8 + j % 4) * 16, low[j]);
            turn_16(high);
            LS_TURN_EACH(j, 16) _mm512_storeu_si512(to + (i + j / 4 * 8 + j % 4 + 4) * 16, high[j]);
        }
    }
}

LS_TURN void along_b_bf16(uint32_t *to, const void *const *line, int64_t k, int columns)
{
    for (int64_t u = 0; u < k / 2; u += 16) {
        for (int c = 0; c < columns; c += 16, to += 16 * 16) {
            __m512i block[16];
            LS_TURN_EACH(j, 16) block[j] = _mm512_loadu_si512((const uint32_t *)line[c + j] + u);
            turn_16(block);
            LS_TURN_EACH(s, 16) _mm512_storeu_si512(to + s * 16, block[s]);
        }
    }
}

/* Panels of B are 16 wide or a multiple of 32. */
LS_TURN void across_b_bf16(uint32_t *to, int64_t panel_stride, const void *const *line, int64_t count, int columns)
{
    const __m512i left = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
    const __m512i right = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    for (int64_t at = 0; at < count * columns; at += columns, to += panel_stride / 2) {
        if (columns == 16) {
            LS_TURN_EACH(s, 16) _mm512_storeu_si512(to + s * 16, gather_16(line, s, at));
        }
        for (int c = 0; c + 32 <= columns; c += 32) {
            LS_TURN_EACH(s, 16)
            {
                __m512i low, high;
                gather_32(line, s, at + c, &low, &high);
                _mm512_storeu_si512(to + (c + s) * 16, _mm512_permutex2var_epi64(low, left, high));
                _mm512_storeu_si512(to + (c + 16 + s) * 16, _mm512_permutex2var_epi64(low, right, high));
            }
        }
    }
}

#endif
