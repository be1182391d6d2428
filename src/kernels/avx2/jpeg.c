/* jpeg.c - the JPEG decoder's arithmetic with AVX2. */
#include "kernels/jpeg.h"

#include <immintrin.h>

#include "kernels/simd_rows.h"

/* ---- Samples ---- */

/* Two factors, repeated for pairs of 16-bit values. */
LS_SIMD __m256i factors(int a, int b)
{
    return _mm256_set1_epi32((int)((uint32_t)(uint16_t)a | (uint32_t)b << 16));
}

/* Pairs of eight columns: 0 to 3 in the lower half, 4 to 7 in the upper. */
LS_SIMD __m256i paired(__m128i a, __m128i b)
{
    return _mm256_set_m128i(_mm_unpackhi_epi16(a, b), _mm_unpacklo_epi16(a, b));
}

/* a * fa + b * fb in 32 bits, of all columns. */
LS_SIMD __m256i products(__m256i ab, int fa, int fb)
{
    return _mm256_madd_epi16(ab, factors(fa, fb));
}

LS_SIMD __m128i shifted(__m256i sum, int shift)
{
    sum = _mm256_srai_epi32(sum, shift);
    return _mm_packs_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
}

/* Eight transforms, one in each column. */
LS_SIMD void columns(__m128i x[8], int shift)
{
    const __m256i half = _mm256_set1_epi32(1 << (shift - 1));
    __m256i x04 = paired(x[0], x[4]), x26 = paired(x[2], x[6]), x17 = paired(x[1], x[7]), x35 = paired(x[3], x[5]);
    __m256i st = paired(_mm_add_epi16(x[7], x[3]), _mm_add_epi16(x[5], x[1]));
    __m256i plus = _mm256_add_epi32(products(x04, 1 << LS_DCT_BITS, 1 << LS_DCT_BITS), half);
    __m256i minus = _mm256_add_epi32(products(x04, 1 << LS_DCT_BITS, -(1 << LS_DCT_BITS)), half);
    __m256i e1 = products(x26, LS_DCT_A, LS_DCT_B), e2 = products(x26, LS_DCT_B, -LS_DCT_C);
    __m256i p = products(st, -LS_DCT_D, LS_DCT_E), q = products(st, LS_DCT_E, LS_DCT_F);
    __m256i even[4] = {_mm256_add_epi32(plus, e1), _mm256_add_epi32(minus, e2), _mm256_sub_epi32(minus, e2),
                       _mm256_sub_epi32(plus, e1)};
    __m256i odd[4] = {_mm256_add_epi32(products(x17, LS_DCT_I, -LS_DCT_H), q),
                      _mm256_add_epi32(products(x35, LS_DCT_L, -LS_DCT_K), p),
                      _mm256_add_epi32(products(x35, -LS_DCT_K, -LS_DCT_J), q),
                      _mm256_add_epi32(products(x17, -LS_DCT_H, -LS_DCT_G), p)};
    LS_UNROLL for (int i = 0; i < 4; i++)
    {
        x[i] = shifted(_mm256_add_epi32(even[i], odd[i]), shift);
        x[7 - i] = shifted(_mm256_sub_epi32(even[i], odd[i]), shift);
    }
}

LS_SIMD void transpose(__m128i x[8])
{
    __m128i a[8], b[8];
    LS_UNROLL for (int i = 0; i < 4; i++)
    {
        a[2 * i] = _mm_unpacklo_epi16(x[2 * i], x[2 * i + 1]);
        a[2 * i + 1] = _mm_unpackhi_epi16(x[2 * i], x[2 * i + 1]);
    }
    LS_UNROLL for (int i = 0; i < 8; i += 4) LS_UNROLL for (int k = 0; k < 2; k++)
    {
        b[i + 2 * k] = _mm_unpacklo_epi32(a[i + k], a[i + k + 2]);
        b[i + 2 * k + 1] = _mm_unpackhi_epi32(a[i + k], a[i + k + 2]);
    }
    LS_UNROLL for (int i = 0; i < 4; i++)
    {
        x[2 * i] = _mm_unpacklo_epi64(b[i], b[i + 4]);
        x[2 * i + 1] = _mm_unpackhi_epi64(b[i], b[i + 4]);
    }
}

static void samples(uint8_t *to, size_t pitch, const int16_t *coefficients, const int16_t *steps, int used)
{
    (void)used; /* all columns fit one vector: skipping some would not be faster */
    __m128i x[8];
    LS_UNROLL for (int i = 0; i < 8; i++) x[i] = _mm_mullo_epi16(
        _mm_loadu_si128((const __m128i *)(coefficients + 8 * i)), _mm_loadu_si128((const __m128i *)(steps + 8 * i)));
    columns(x, LS_DCT_COLUMN_SHIFT);
    transpose(x);
    columns(x, LS_DCT_ROW_SHIFT);
    transpose(x);
    LS_UNROLL for (int i = 0; i < 8; i++)
    {
        __m128i bytes = _mm_xor_si128(_mm_packs_epi16(x[i], x[i]), _mm_set1_epi8((char)0x80));
        _mm_storel_epi64((__m128i *)(to + (size_t)i * pitch), bytes);
    }
}

/* ---- Pixels ---- */

LS_SIMD __m256i words(const uint8_t *p)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
}

/* 16 words to bytes, in order. */
LS_SIMD __m128i bytes_of(__m256i w)
{
    return _mm_packus_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
}

LS_SIMD void store_pairs(uint8_t *y, __m256i first, __m256i second)
{
    /* Both fit into a byte: the second goes into the upper one. */
    _mm256_storeu_si256((__m256i *)y, _mm256_or_si256(first, _mm256_slli_epi16(second, 8)));
}

static void widen(uint8_t *y, const uint8_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        __m256i thrice = _mm256_mullo_epi16(words(x + i), _mm256_set1_epi16(3));
        __m256i before = _mm256_add_epi16(words(x + i - 1), _mm256_set1_epi16(1));
        __m256i after = _mm256_add_epi16(words(x + i + 1), _mm256_set1_epi16(2));
        store_pairs(y + 2 * i, _mm256_srli_epi16(_mm256_add_epi16(thrice, before), 2),
                    _mm256_srli_epi16(_mm256_add_epi16(thrice, after), 2));
    }
}

/* 3 near + far, of sixteen samples. */
LS_SIMD __m256i of_rows(const uint8_t *near, const uint8_t *far)
{
    return _mm256_add_epi16(_mm256_mullo_epi16(words(near), _mm256_set1_epi16(3)), words(far));
}

static void enlarge(uint8_t *y, const uint8_t *near, const uint8_t *far, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        __m256i thrice = _mm256_mullo_epi16(of_rows(near + i, far + i), _mm256_set1_epi16(3));
        __m256i before = _mm256_add_epi16(of_rows(near + i - 1, far + i - 1), _mm256_set1_epi16(8));
        __m256i after = _mm256_add_epi16(of_rows(near + i + 1, far + i + 1), _mm256_set1_epi16(7));
        store_pairs(y + 2 * i, _mm256_srli_epi16(_mm256_add_epi16(thrice, before), 4),
                    _mm256_srli_epi16(_mm256_add_epi16(thrice, after), 4));
    }
}

/* (a * fa + b * fb + 1/2) in units of 2^16, of sixteen samples. */
LS_SIMD __m256i upper(__m256i a, __m256i b, int fa, int fb)
{
    const __m256i f = factors(fa, fb), half = _mm256_set1_epi32(1 << 15);
    __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), f);
    __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), f);
    return _mm256_packs_epi32(_mm256_srai_epi32(_mm256_add_epi32(low, half), 16),
                              _mm256_srai_epi32(_mm256_add_epi32(high, half), 16));
}

/* Interleave three times 16 bytes: red green blue, red green blue. */
LS_SIMD void store_pixels(uint8_t *rgb, __m128i r, __m128i g, __m128i b)
{
    static const int8_t spread[3][3][16] = {
        /* which byte of red, green and blue goes where in the first, second and third 16 bytes */
        {{0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5},
         {-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1},
         {-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1}},
        {{-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1},
         {5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10},
         {-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1}},
        {{-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1},
         {-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1},
         {10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15}},
    };
    LS_UNROLL for (int i = 0; i < 3; i++)
    {
        const __m128i *s = (const __m128i *)(const void *)spread[i];
        __m128i part =
            _mm_or_si128(_mm_shuffle_epi8(r, _mm_loadu_si128(s)), _mm_shuffle_epi8(g, _mm_loadu_si128(s + 1)));
        part = _mm_or_si128(part, _mm_shuffle_epi8(b, _mm_loadu_si128(s + 2)));
        _mm_storeu_si128((__m128i *)(void *)(rgb + 16 * i), part);
    }
}

/* Only the fractional part of each factor is multiplied, so that it fits into 16 bits. */
static void pixels(uint8_t *rgb, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int64_t n)
{
    const __m256i middle = _mm256_set1_epi16(128);
    for (int64_t i = 0; i < n; i += 16, rgb += 48) {
        __m256i level = words(y + i), b = _mm256_sub_epi16(words(cb + i), middle);
        __m256i r = _mm256_sub_epi16(words(cr + i), middle);
        __m256i of_r = upper(b, r, 0, 91881 - 65536), of_b = upper(b, r, 116130 - 2 * 65536, 0);
        __m256i of_g = upper(b, r, -22554, 65536 - 46802);
        __m256i red = _mm256_add_epi16(level, _mm256_add_epi16(r, of_r));
        __m256i green = _mm256_add_epi16(level, _mm256_sub_epi16(of_g, r));
        __m256i blue = _mm256_add_epi16(level, _mm256_add_epi16(_mm256_add_epi16(b, b), of_b));
        store_pixels(rgb, bytes_of(red), bytes_of(green), bytes_of(blue));
    }
}

const ls_jpeg_table ls_jpeg_avx2 = {.samples = samples, .widen = widen, .enlarge = enlarge, .pixels = pixels};
