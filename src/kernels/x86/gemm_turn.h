/* gemm_turn.h - panels filled with AVX-512, whole registers at a time where gemm_panels.inc transposes four by four
 * units: those of pairs of bf16 whose slices are 16 units deep, and those of f32 whose slices are four deep. The same
 * functions under the same names.
 *
 * A store to a line that is not in L1 takes ten cycles, unless that line is requested in time. */
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

/* Store 64 bytes, and request those that will be stored `ahead` units later. */
LS_TURN void put_line(void *to, int64_t ahead, __m512i units)
{
    __builtin_prefetch((const uint32_t *)to + ahead, 1);
    _mm512_storeu_si512(to, units);
}

/* ---- pairs of bf16 ----------------------------------------------------------------------------------------------- */

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

LS_TURN void along_a_bf16(uint32_t *to, const void *const *line, int64_t k, int rows)
{
    for (int64_t u = 0; u < k / 2; u += 16)
        for (int i = 0; i < rows; i++, to += 16)
            put_line(to, rows * 16, _mm512_loadu_si512((const uint32_t *)line[i] + u));
}

/* Units from a slice of panel i of `count` to what is filled after it: that slice of the next panel, or the next slice
 * of the first. */
LS_TURN int64_t to_next_block(int64_t panel_stride, int64_t i, int64_t count, int width)
{
    return i + 1 < count ? panel_stride : width * 16 - i * panel_stride;
}

/* Panels of A are a multiple of 32 wide. */
LS_TURN void across_a_bf16(uint32_t *to, int64_t panel_stride, const void *const *line, int64_t count, int rows)
{
    for (int64_t at = 0; at < count * rows; at += rows, to += panel_stride / 2) {
        const int64_t ahead = to_next_block(panel_stride / 2, at / rows, count, rows);
        for (int i = 0; i < rows; i += 32) {
            __m512i low[16], high[16];
            LS_TURN_EACH(s, 16) gather_32(line, s, at + i, &low[s], &high[s]);
            turn_16(low);
            LS_TURN_EACH(j, 16) put_line(to + (i + j / 4 * 8 + j % 4) * 16, ahead, low[j]);
            turn_16(high);
            LS_TURN_EACH(j, 16) put_line(to + (i + j / 4 * 8 + j % 4 + 4) * 16, ahead, high[j]);
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
        const int64_t ahead = to_next_block(panel_stride / 2, at / columns, count, columns);
        if (columns == 16) {
            LS_TURN_EACH(s, 16) put_line(to + s * 16, ahead, gather_16(line, s, at));
        }
        for (int c = 0; c + 32 <= columns; c += 32) {
            LS_TURN_EACH(s, 16)
            {
                __m512i low, high;
                gather_32(line, s, at + c, &low, &high);
                put_line(to + (c + s) * 16, ahead, _mm512_permutex2var_epi64(low, left, high));
                put_line(to + (c + 16 + s) * 16, ahead, _mm512_permutex2var_epi64(low, right, high));
            }
        }
    }
}

/* ---- f32 --------------------------------------------------------------------------------------------------------- */

/* Transpose 4 rows of 16 numbers: column[j] gets columns 4 j to 4 j + 3, one after the other. */
LS_TURN void turn_4_by_16(const __m512 row[4], __m512 column[4])
{
    const __m512i first_eight = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i first_pairs = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
    LS_TURN_EACH(half, 2)
    {
        __m512i numbers = _mm512_add_epi32(first_eight, _mm512_set1_epi32(8 * half));
        __m512d even = _mm512_castps_pd(_mm512_permutex2var_ps(row[0], numbers, row[1]));
        __m512d odd = _mm512_castps_pd(_mm512_permutex2var_ps(row[2], numbers, row[3]));
        LS_TURN_EACH(part, 2)
        {
            __m512i pairs = _mm512_add_epi64(first_pairs, _mm512_set1_epi64(4 * part));
            column[2 * half + part] = _mm512_castpd_ps(_mm512_permutex2var_pd(even, pairs, odd));
        }
    }
}

/* Quarters of 4 rows among registers: quarter j of all rows goes to row[j]. */
LS_TURN void turn_quarters(__m512 row[4])
{
    __m512 even_01 = _mm512_shuffle_f32x4(row[0], row[1], 0x88), odd_01 = _mm512_shuffle_f32x4(row[0], row[1], 0xdd);
    __m512 even_23 = _mm512_shuffle_f32x4(row[2], row[3], 0x88), odd_23 = _mm512_shuffle_f32x4(row[2], row[3], 0xdd);
    row[0] = _mm512_shuffle_f32x4(even_01, even_23, 0x88);
    row[1] = _mm512_shuffle_f32x4(odd_01, odd_23, 0x88);
    row[2] = _mm512_shuffle_f32x4(even_01, even_23, 0xdd);
    row[3] = _mm512_shuffle_f32x4(odd_01, odd_23, 0xdd);
}

/* Transpose 4 numbers of 4 lines, to rows `distance` apart. */
LS_TURN void turn_4_by_4(const void *const *line, int64_t at, float *to, int distance)
{
    __m128 row[4];
    LS_TURN_EACH(j, 4) row[j] = _mm_loadu_ps((const float *)line[j] + at);
    _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
    LS_TURN_EACH(j, 4) _mm_storeu_ps(to + j * distance, row[j]);
}

LS_TURN void along_a_f32(float *to, const void *const *line, int64_t k, int rows)
{
    int64_t whole = k / 16 * 16;
    for (int64_t u = 0; u < whole; u += 16) {
        LS_TURN_EACH(group, rows / 4)
        {
            __m512 block[4];
            LS_TURN_EACH(j, 4) block[j] = _mm512_loadu_ps((const float *)line[4 * group + j] + u);
            turn_quarters(block);
            LS_TURN_EACH(slice, 4)
            {
                put_line(to + (u + 4 * slice) * rows + 16 * group, rows * 16, _mm512_castps_si512(block[slice]));
            }
        }
    }
    for (int64_t u = whole; u < k; u += 4)
        for (int i = 0; i < rows; i++) _mm_storeu_ps(to + u * rows + 4 * i, _mm_loadu_ps((const float *)line[i] + u));
}

/* Panels of A are 12 or 24 wide. */
LS_TURN void across_a_f32(float *to, int64_t panel_stride, const void *const *line, int64_t count, int rows)
{
    enum { AT_ONCE = 48 };
    int64_t at = 0;
    for (; at + AT_ONCE <= count * rows; at += AT_ONCE, to += AT_ONCE / rows * panel_stride) {
        __m512 column[AT_ONCE / 4];
        LS_TURN_EACH(part, AT_ONCE / 16)
        {
            __m512 row[4];
            LS_TURN_EACH(j, 4) row[j] = _mm512_loadu_ps((const float *)line[j] + at + 16 * part);
            turn_4_by_16(row, column + 4 * part);
        }
        LS_TURN_EACH(i, AT_ONCE / 4)
        {
            float *slice = to + 4 * i / rows * panel_stride;
            put_line(slice + 4 * i % rows * 4, rows * 4, _mm512_castps_si512(column[i]));
        }
    }
    for (; at < count * rows; at += rows, to += panel_stride)
        for (int i = 0; i < rows; i += 4) turn_4_by_4(line, at + i, to + i * 4, 4);
}

LS_TURN void along_b_f32(float *to, const void *const *line, int64_t k, int columns)
{
    int64_t whole = k / 16 * 16;
    for (int64_t u = 0; u < whole; u += 16) {
        for (int c = 0; c < columns; c += 16) {
            __m512i block[16];
            LS_TURN_EACH(j, 16) block[j] = _mm512_loadu_si512((const float *)line[c + j] + u);
            turn_16(block);
            LS_TURN_EACH(s, 16) _mm512_storeu_si512(to + (u + s / 4 * 4) * columns + 4 * c + s % 4 * 16, block[s]);
        }
    }
    for (int64_t u = whole; u < k; u += 4)
        for (int c = 0; c < columns; c += 4) turn_4_by_4(line + c, u, to + u * columns + c / 16 * 64 + c % 16, 16);
}

#endif
