/* image.c - rows of pictures with NEON. */
#include "kernels/image.h"

#include <arm_neon.h>
#include <string.h>

#include "kernels/simd_rows.h"

#define HALF (1 << (LS_IMAGE_WEIGHT_BITS - 1))

/* Shuffles that spread pixel k of 16 bytes into 32-bit lanes: red, green, blue, 0. */
static const uint8_t lanes_of_pixel[LS_IMAGE_TAPS][16] = {
#define LANES(b)                                                                                                       \
    {                                                                                                                  \
        (b), 255, 255, 255, (b) + 1, 255, 255, 255, (b) + 2, 255, 255, 255, 255, 255, 255, 255                         \
    }
    LANES(0), LANES(3), LANES(6), LANES(9)
#undef LANES
};

/* Sums to bytes: shifted and clamped. */
LS_SIMD uint8x8_t levels(int32x4_t a, int32x4_t b)
{
    uint16x8_t words = vqshrun_high_n_s32(vqshrun_n_s32(a, 16), b, 16);
    return vqshrn_n_u16(words, LS_IMAGE_WEIGHT_BITS - 16);
}

/* One pixel's sums. */
LS_SIMD int32x4_t pixel_across(const uint8_t *x, const int32_t *weight, int64_t taps,
                               const uint8x16_t lanes[LS_IMAGE_TAPS])
{
    int32x4_t sum = vdupq_n_s32(HALF);
    for (int64_t k = 0; k < taps; k += LS_IMAGE_TAPS, x += 3 * LS_IMAGE_TAPS) {
        uint8x16_t bytes = vld1q_u8(x);
        int32x4_t w = vld1q_s32(weight + k);
        sum = vmlaq_laneq_s32(sum, vreinterpretq_s32_u8(vqtbl1q_u8(bytes, lanes[0])), w, 0);
        sum = vmlaq_laneq_s32(sum, vreinterpretq_s32_u8(vqtbl1q_u8(bytes, lanes[1])), w, 1);
        sum = vmlaq_laneq_s32(sum, vreinterpretq_s32_u8(vqtbl1q_u8(bytes, lanes[2])), w, 2);
        sum = vmlaq_laneq_s32(sum, vreinterpretq_s32_u8(vqtbl1q_u8(bytes, lanes[3])), w, 3);
    }
    return sum;
}

/* If `taps` is a small constant, the loops over it disappear. */
LS_SIMD void pixels_across(uint8_t *y, const uint8_t *x, const int32_t *first, const int32_t *weight, int64_t taps,
                           int64_t n)
{
    static const uint8_t close_up[16] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 255, 255, 255, 255};
    uint8x16_t lanes[LS_IMAGE_TAPS], packed = vld1q_u8(close_up);
    for (int k = 0; k < LS_IMAGE_TAPS; k++) lanes[k] = vld1q_u8(lanes_of_pixel[k]);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4, y += 12, weight += 4 * taps) {
        int32x4_t a = pixel_across(x + first[i], weight, taps, lanes);
        int32x4_t b = pixel_across(x + first[i + 1], weight + taps, taps, lanes);
        int32x4_t c = pixel_across(x + first[i + 2], weight + 2 * taps, taps, lanes);
        int32x4_t d = pixel_across(x + first[i + 3], weight + 3 * taps, taps, lanes);
        vst1q_u8(y, vqtbl1q_u8(vcombine_u8(levels(a, b), levels(c, d)), packed));
    }
    for (; i < n; i++, y += 3, weight += taps) {
        int32x4_t a = pixel_across(x + first[i], weight, taps, lanes);
        uint8_t pixel[8];
        vst1_u8(pixel, levels(a, a));
        memcpy(y, pixel, 3);
    }
}

static void across(uint8_t *y, const uint8_t *x, const int32_t *first, const int32_t *weight, int64_t taps, int64_t n)
{
    if (taps == 4) pixels_across(y, x, first, weight, 4, n);
    else if (taps == 8) pixels_across(y, x, first, weight, 8, n);
    else pixels_across(y, x, first, weight, taps, n);
}

/* Shuffles that spread each quarter of 16 bytes into 32-bit lanes. */
static const uint8_t lanes_of_bytes[4][16] = {
#define LANES(b)                                                                                                       \
    {                                                                                                                  \
        (b), 255, 255, 255, (b) + 1, 255, 255, 255, (b) + 2, 255, 255, 255, (b) + 3, 255, 255, 255                     \
    }
    LANES(0), LANES(4), LANES(8), LANES(12)
#undef LANES
};

/* 16 columns. */
LS_SIMD void columns_down(uint8_t *y, const uint8_t *const *row, const int32_t *weight, int64_t taps, int64_t at)
{
    uint8x16_t lanes[4];
    int32x4_t sum[4];
    LS_UNROLL for (int i = 0; i < 4; i++)
    {
        lanes[i] = vld1q_u8(lanes_of_bytes[i]);
        sum[i] = vdupq_n_s32(HALF);
    }
    for (int64_t k = 0; k < taps; k++) {
        uint8x16_t bytes = vld1q_u8(row[k] + at);
        int32x4_t w = vdupq_n_s32(weight[k]);
        LS_UNROLL for (int i = 0; i < 4; i++) sum[i] =
            vmlaq_s32(sum[i], vreinterpretq_s32_u8(vqtbl1q_u8(bytes, lanes[i])), w);
    }
    vst1q_u8(y, vcombine_u8(levels(sum[0], sum[1]), levels(sum[2], sum[3])));
}

static void down(uint8_t *y, const uint8_t *const *row, const int32_t *weight, int64_t taps, int64_t n)
{
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) columns_down(y + i, row, weight, taps, i);
    if (i < n) {
        uint8_t rest[16];
        columns_down(rest, row, weight, taps, i);
        memcpy(y + i, rest, (size_t)(n - i));
    }
}

/* x / 255 from the rounded inverse: the remainder corrects the first guess to the nearest float. */
LS_SIMD float32x4_t over_255(uint32x4_t x)
{
    const float32x4_t inverse = vdupq_n_f32(1.0f / 255), all = vdupq_n_f32(255);
    float32x4_t v = vcvtq_f32_u32(x), guess = vmulq_f32(v, inverse);
    return vfmaq_f32(guess, vfmsq_f32(v, guess, all), inverse);
}

static void to_float(float *y, const uint8_t *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        uint8x16_t bytes = vld1q_u8(x + i);
        uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_high_u8(bytes);
        vst1q_f32(y + i, over_255(vmovl_u16(vget_low_u16(low))));
        vst1q_f32(y + i + 4, over_255(vmovl_high_u16(low)));
        vst1q_f32(y + i + 8, over_255(vmovl_u16(vget_low_u16(high))));
        vst1q_f32(y + i + 12, over_255(vmovl_high_u16(high)));
    }
    for (; i < n; i++) y[i] = (float)x[i] / 255;
}

const ls_image_table ls_image_neon = {.across = across, .down = down, .to_float = to_float};
