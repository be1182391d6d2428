/* ref/jpeg.c - the JPEG decoder's arithmetic in plain scalar C. */
#include "kernels/jpeg.h"

static uint8_t clamped(int32_t level)
{
    return (uint8_t)(level < 0 ? 0 : level > 255 ? 255 : level);
}

/* Transform 8 numbers, `stride` apart, in place; sums lose `shift` bits, rounded to nearest. Damaged files may hold any
 * value, hence 64 bits; a result that does not fit into 16 is meaningless. */
static void transform(int16_t *x, int stride, int shift)
{
#define X(i) ((int64_t)x[(i)*stride])
    int64_t e1 = LS_DCT_A * X(2) + LS_DCT_B * X(6), e2 = LS_DCT_B * X(2) - LS_DCT_C * X(6);
    int64_t s = X(7) + X(3), t = X(5) + X(1), p = LS_DCT_E * t - LS_DCT_D * s, q = LS_DCT_E * s + LS_DCT_F * t;
    int64_t half = 1 << (shift - 1);
    int64_t plus = (X(0) + X(4)) * (1 << LS_DCT_BITS) + half, minus = (X(0) - X(4)) * (1 << LS_DCT_BITS) + half;
    int64_t even[4] = {plus + e1, minus + e2, minus - e2, plus - e1};
    int64_t odd[4] = {LS_DCT_I * X(1) - LS_DCT_H * X(7) + q, LS_DCT_L * X(3) - LS_DCT_K * X(5) + p,
                      q - LS_DCT_J * X(5) - LS_DCT_K * X(3), p - LS_DCT_G * X(7) - LS_DCT_H * X(1)};
    for (int i = 0; i < 4; i++) {
        x[i * stride] = (int16_t)((even[i] + odd[i]) >> shift);
        x[(7 - i) * stride] = (int16_t)((even[i] - odd[i]) >> shift);
    }
#undef X
}

static void samples(uint8_t *out, size_t pitch, const int16_t *coefficients, const int16_t *steps, int used)
{
    (void)used;
    int16_t x[64];
    for (int i = 0; i < 64; i++) x[i] = (int16_t)(coefficients[i] * steps[i]);
    for (int i = 0; i < 8; i++) transform(x + i, 8, LS_DCT_COLUMN_SHIFT);
    for (int i = 0; i < 8; i++) {
        transform(x + 8 * i, 1, LS_DCT_ROW_SHIFT);
        for (int k = 0; k < 8; k++) out[(size_t)i * pitch + (size_t)k] = clamped(x[8 * i + k] + 128);
    }
}

/* Transforms of the first 4, 2 or 1 numbers: the same cosines, sampled at fewer points. */
static inline void short_transform(int16_t *x, int stride, int size, int shift)
{
    const int32_t half = 1 << (shift - 1), one = 1 << LS_DCT_BITS;
    if (size == 4) {
        int32_t x0 = x[0], x1 = x[stride], x2 = x[2 * stride], x3 = x[3 * stride];
        int32_t plus = (x0 + x2) * one + half, minus = (x0 - x2) * one + half;
        int32_t outer = LS_DCT_A * x1 + LS_DCT_B * x3, inner = LS_DCT_B * x1 - LS_DCT_A * x3;
        x[0] = (int16_t)((plus + outer) >> shift);
        x[stride] = (int16_t)((minus + inner) >> shift);
        x[2 * stride] = (int16_t)((minus - inner) >> shift);
        x[3 * stride] = (int16_t)((plus - outer) >> shift);
    } else if (size == 2) {
        int32_t x0 = x[0], x1 = x[stride];
        x[0] = (int16_t)(((x0 + x1) * one + half) >> shift);
        x[stride] = (int16_t)(((x0 - x1) * one + half) >> shift);
    } else {
        x[0] = (int16_t)((x[0] * one + half) >> shift);
    }
}

static inline void transform_few(uint8_t *to, size_t pitch, const int16_t *coefficients, const int16_t *steps, int size)
{
    int16_t x[4][4];
    for (int i = 0; i < size; i++)
        for (int k = 0; k < size; k++) x[i][k] = (int16_t)(coefficients[8 * i + k] * steps[8 * i + k]);
    for (int k = 0; k < size; k++) short_transform(&x[0][k], 4, size, LS_DCT_COLUMN_SHIFT);
    for (int i = 0; i < size; i++) {
        short_transform(x[i], 1, size, LS_DCT_ROW_SHIFT);
        for (int k = 0; k < size; k++) to[(size_t)i * pitch + (size_t)k] = clamped(x[i][k] + 128);
    }
}

static void few_samples(uint8_t *to, size_t pitch, const int16_t *coefficients, const int16_t *steps, int size)
{
    if (size == 4) transform_few(to, pitch, coefficients, steps, 4);
    else if (size == 2) transform_few(to, pitch, coefficients, steps, 2);
    else transform_few(to, pitch, coefficients, steps, 1);
}

static void widen(uint8_t *y, const uint8_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[2 * i] = (uint8_t)((3 * x[i] + x[i - 1] + 1) >> 2);
        y[2 * i + 1] = (uint8_t)((3 * x[i] + x[i + 1] + 2) >> 2);
    }
}

static void enlarge(uint8_t *y, const uint8_t *near, const uint8_t *far, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int before = 3 * near[i - 1] + far[i - 1], here = 3 * near[i] + far[i], after = 3 * near[i + 1] + far[i + 1];
        y[2 * i] = (uint8_t)((3 * here + before + 8) >> 4);
        y[2 * i + 1] = (uint8_t)((3 * here + after + 7) >> 4);
    }
}

/* With 16 fractional bits: 1.402 of red, 0.34414 and 0.71414 of green, 1.772 of blue. */
static void pixels(uint8_t *rgb, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int64_t n)
{
    for (int64_t i = 0; i < n; i++, rgb += 3) {
        int32_t b = cb[i] - 128, r = cr[i] - 128;
        rgb[0] = clamped(y[i] + ((91881 * r + 32768) >> 16));
        rgb[1] = clamped(y[i] + ((-22554 * b - 46802 * r + 32768) >> 16));
        rgb[2] = clamped(y[i] + ((116130 * b + 32768) >> 16));
    }
}

const ls_jpeg_table ls_jpeg_ref = {
    .samples = samples, .few_samples = few_samples, .widen = widen, .enlarge = enlarge, .pixels = pixels};
