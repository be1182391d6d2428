/* image.c - rows of pictures with AVX2. */
#include "kernels/image.h"

#include <immintrin.h>
#include <string.h>

#include "kernels/simd.h"

#define HALF (1 << (LS_IMAGE_WEIGHT_BITS - 1))

/* Weighted sums of two pixels, one in each half: of the pixels at a and b, with `taps` weights each. */
LS_SIMD __m256i two_pixels_across(const uint8_t *a, const uint8_t *b, const int32_t *weight_a, const int32_t *weight_b,
                                  int64_t taps)
{
    /* Shuffle that spreads pixel k of 16 bytes into 32-bit lanes: red, green, blue, 0. */
    const __m256i pixel0 =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, -1, -1, -1, -1));
    const __m256i next = _mm256_broadcastsi128_si256(_mm_setr_epi8(3, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0));
    const __m256i pixel1 = _mm256_add_epi8(pixel0, next), pixel2 = _mm256_add_epi8(pixel1, next);
    const __m256i pixel3 = _mm256_add_epi8(pixel2, next);
    __m256i sum = _mm256_set1_epi32(HALF);
    for (int64_t k = 0; k < taps; k += LS_IMAGE_TAPS, a += 3 * LS_IMAGE_TAPS, b += 3 * LS_IMAGE_TAPS) {
        __m256i x = _mm256_loadu2_m128i((const __m128i *)b, (const __m128i *)a);
        __m256i w = _mm256_loadu2_m128i((const __m128i *)(weight_b + k), (const __m128i *)(weight_a + k));
#define TAP(k) _mm256_mullo_epi32(_mm256_shuffle_epi8(x, pixel##k), _mm256_shuffle_epi32(w, 0x55 * k))
        sum =
            _mm256_add_epi32(sum, _mm256_add_epi32(_mm256_add_epi32(TAP(0), TAP(1)), _mm256_add_epi32(TAP(2), TAP(3))));
#undef TAP
    }
    return _mm256_srai_epi32(sum, LS_IMAGE_WEIGHT_BITS);
}

static void across(uint8_t *y, const uint8_t *x, const int32_t *first, const int32_t *weight, int64_t taps, int64_t n)
{
    const __m128i packed = _mm_setr_epi8(0, 1, 2, 8, 9, 10, 4, 5, 6, 12, 13, 14, -1, -1, -1, -1);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4, y += 12, weight += 4 * taps) {
        __m256i ab = two_pixels_across(x + first[i], x + first[i + 1], weight, weight + taps, taps);
        __m256i cd = two_pixels_across(x + first[i + 2], x + first[i + 3], weight + 2 * taps, weight + 3 * taps, taps);
        __m256i words = _mm256_packs_epi32(ab, cd); /* a c in the lower half, b d in the upper */
        __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm_storeu_si128((__m128i *)y, _mm_shuffle_epi8(bytes, packed));
    }
    for (; i < n; i++, y += 3, weight += taps) {
        __m256i sums = two_pixels_across(x + first[i], x + first[i], weight, weight, taps);
        __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(sums), _mm256_castsi256_si128(sums));
        int32_t pixel = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
        memcpy(y, &pixel, 3);
    }
}

/* 32 columns. */
LS_SIMD void columns_down(uint8_t *y, const uint8_t *const *row, const int32_t *weight, int64_t taps, int64_t at)
{
    __m256i sum[4];
    for (int i = 0; i < 4; i++) sum[i] = _mm256_set1_epi32(HALF);
    for (int64_t k = 0; k < taps; k++) {
        __m256i w = _mm256_set1_epi32(weight[k]);
        for (int i = 0; i < 4; i++) {
            __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(row[k] + at + 8 * i)));
            sum[i] = _mm256_add_epi32(sum[i], _mm256_mullo_epi32(bytes, w));
        }
    }
    for (int i = 0; i < 4; i++) sum[i] = _mm256_srai_epi32(sum[i], LS_IMAGE_WEIGHT_BITS);
    __m256i low = _mm256_packs_epi32(sum[0], sum[1]), high = _mm256_packs_epi32(sum[2], sum[3]);
    __m256i bytes = _mm256_packus_epi16(low, high); /* groups of 4: 0 2 4 6 of the lower halves, 1 3 5 7 of the upper */
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)y, bytes);
}

static void down(uint8_t *y, const uint8_t *const *row, const int32_t *weight, int64_t taps, int64_t n)
{
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) columns_down(y + i, row, weight, taps, i);
    if (i < n) {
        uint8_t rest[32];
        columns_down(rest, row, weight, taps, i);
        memcpy(y + i, rest, (size_t)(n - i));
    }
}

/* x / 255 from the rounded inverse: the remainder corrects the first guess to the nearest float. */
static void to_float(float *y, const uint8_t *x, int64_t n)
{
    const ls_vf inverse = ls_vf_set(1.0f / 255), minus_all = ls_vf_set(-255);
    int64_t i = 0;
    for (; i + LS_VF_LANES <= n; i += LS_VF_LANES) {
        ls_vf v = ls_vi_to_vf(ls_vi_load_u8(x + i)), guess = v * inverse;
        ls_vf_store(y + i, ls_vf_fma(ls_vf_fma(guess, minus_all, v), inverse, guess));
    }
    for (; i < n; i++) y[i] = (float)x[i] / 255;
}

const ls_image_table ls_image_avx2 = {.across = across, .down = down, .to_float = to_float};
