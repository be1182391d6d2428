/* jpeg.c - the JPEG decoder's arithmetic with NEON. */
#include "kernels/jpeg.h"

#include <arm_neon.h>

#include "kernels/simd_rows.h"

/* ---- Samples ---- */

/* Constants of the transform, multiplied by lane. */
static const int16_t constants[3][4] = {{LS_DCT_A, LS_DCT_B, LS_DCT_C, LS_DCT_D},
                                        {LS_DCT_E, LS_DCT_F, LS_DCT_G, LS_DCT_H},
                                        {LS_DCT_I, LS_DCT_J, LS_DCT_K, LS_DCT_L}};

/* Sums of four transforms: outputs i and 7 - i are even[i] + odd[i] and even[i] - odd[i]. */
LS_SIMD void transform(const int16x4_t x[8], int16x4_t s, int16x4_t t, const int16x4_t c[3], int32x4_t even[4],
                       int32x4_t odd[4])
{
    int32x4_t plus = vshll_n_s16(vadd_s16(x[0], x[4]), LS_DCT_BITS);
    int32x4_t minus = vshll_n_s16(vsub_s16(x[0], x[4]), LS_DCT_BITS);
    int32x4_t e1 = vmlal_lane_s16(vmull_lane_s16(x[2], c[0], 0), x[6], c[0], 1);
    int32x4_t e2 = vmlsl_lane_s16(vmull_lane_s16(x[2], c[0], 1), x[6], c[0], 2);
    even[0] = vaddq_s32(plus, e1);
    even[1] = vaddq_s32(minus, e2);
    even[2] = vsubq_s32(minus, e2);
    even[3] = vsubq_s32(plus, e1);
    int32x4_t p = vmlsl_lane_s16(vmull_lane_s16(t, c[1], 0), s, c[0], 3);
    int32x4_t q = vmlal_lane_s16(vmull_lane_s16(s, c[1], 0), t, c[1], 1);
    odd[0] = vmlsl_lane_s16(vmlal_lane_s16(q, x[1], c[2], 0), x[7], c[1], 3);
    odd[1] = vmlsl_lane_s16(vmlal_lane_s16(p, x[3], c[2], 3), x[5], c[2], 2);
    odd[2] = vmlsl_lane_s16(vmlsl_lane_s16(q, x[5], c[2], 1), x[3], c[2], 2);
    odd[3] = vmlsl_lane_s16(vmlsl_lane_s16(p, x[7], c[1], 2), x[1], c[1], 3);
}

LS_SIMD void transpose(int16x8_t x[8])
{
    int16x8_t a[8], b[8];
    LS_UNROLL for (int i = 0; i < 8; i += 2)
    {
        a[i] = vtrn1q_s16(x[i], x[i + 1]);
        a[i + 1] = vtrn2q_s16(x[i], x[i + 1]);
    }
    LS_UNROLL for (int i = 0; i < 8; i += 4) LS_UNROLL for (int k = 0; k < 2; k++)
    {
        int32x4_t u = vreinterpretq_s32_s16(a[i + k]), v = vreinterpretq_s32_s16(a[i + k + 2]);
        b[i + k] = vreinterpretq_s16_s32(vtrn1q_s32(u, v));
        b[i + k + 2] = vreinterpretq_s16_s32(vtrn2q_s32(u, v));
    }
    LS_UNROLL for (int i = 0; i < 4; i++)
    {
        int64x2_t u = vreinterpretq_s64_s16(b[i]), v = vreinterpretq_s64_s16(b[i + 4]);
        x[i] = vreinterpretq_s16_s64(vtrn1q_s64(u, v));
        x[i + 4] = vreinterpretq_s16_s64(vtrn2q_s64(u, v));
    }
}

/* All eight columns at once, in two halves. */
LS_SIMD void columns(int16x8_t x[8], const int16x4_t c[3], bool last)
{
    int16x8_t s = vaddq_s16(x[7], x[3]), t = vaddq_s16(x[5], x[1]);
    int16x4_t in[2][8], out[2][8];
    int32x4_t even[4], odd[4];
    LS_UNROLL for (int i = 0; i < 8; i++)
    {
        in[0][i] = vget_low_s16(x[i]);
        in[1][i] = vget_high_s16(x[i]);
    }
    LS_UNROLL for (int half = 0; half < 2; half++)
    {
        transform(in[half], half ? vget_high_s16(s) : vget_low_s16(s), half ? vget_high_s16(t) : vget_low_s16(t), c,
                  even, odd);
        LS_UNROLL for (int i = 0; i < 4; i++)
        {
            if (last) { /* take the upper halves; two more bits are dropped, with rounding, when narrowing to bytes */
                out[half][i] = vaddhn_s32(even[i], odd[i]);
                out[half][7 - i] = vsubhn_s32(even[i], odd[i]);
            } else {
                out[half][i] = vrshrn_n_s32(vaddq_s32(even[i], odd[i]), LS_DCT_COLUMN_SHIFT);
                out[half][7 - i] = vrshrn_n_s32(vsubq_s32(even[i], odd[i]), LS_DCT_COLUMN_SHIFT);
            }
        }
    }
    LS_UNROLL for (int i = 0; i < 8; i++) x[i] = vcombine_s16(out[0][i], out[1][i]);
}

LS_SIMD void store_rows(uint8_t *to, size_t pitch, const int16x8_t x[8])
{
    LS_UNROLL for (int i = 0; i < 8; i++)
    {
        int8x8_t level = vqrshrn_n_s16(x[i], LS_DCT_ROW_SHIFT - 16);
        vst1_u8(to + (size_t)i * pitch, veor_u8(vreinterpret_u8_s8(level), vdup_n_u8(0x80)));
    }
}

/* Four transforms of four numbers each, the others being 0. */
LS_SIMD void corner_transform(const int16x4_t x[4], const int16x4_t c[3], int32x4_t even[4], int32x4_t odd[4])
{
    int32x4_t first = vshll_n_s16(x[0], LS_DCT_BITS);
    int32x4_t e1 = vmull_lane_s16(x[2], c[0], 0), e2 = vmull_lane_s16(x[2], c[0], 1);
    even[0] = vaddq_s32(first, e1);
    even[1] = vaddq_s32(first, e2);
    even[2] = vsubq_s32(first, e2);
    even[3] = vsubq_s32(first, e1);
    int32x4_t p = vmlsl_lane_s16(vmull_lane_s16(x[1], c[1], 0), x[3], c[0], 3);
    int32x4_t q = vmlal_lane_s16(vmull_lane_s16(x[3], c[1], 0), x[1], c[1], 1);
    odd[0] = vmlal_lane_s16(q, x[1], c[2], 0);
    odd[1] = vmlal_lane_s16(p, x[3], c[2], 3);
    odd[2] = vmlsl_lane_s16(q, x[3], c[2], 2);
    odd[3] = vmlsl_lane_s16(p, x[1], c[1], 3);
}

LS_SIMD void transpose4(int16x4_t x[4])
{
    int16x4_t a = vtrn1_s16(x[0], x[1]), b = vtrn2_s16(x[0], x[1]);
    int16x4_t c = vtrn1_s16(x[2], x[3]), d = vtrn2_s16(x[2], x[3]);
    x[0] = vreinterpret_s16_s32(vtrn1_s32(vreinterpret_s32_s16(a), vreinterpret_s32_s16(c)));
    x[1] = vreinterpret_s16_s32(vtrn1_s32(vreinterpret_s32_s16(b), vreinterpret_s32_s16(d)));
    x[2] = vreinterpret_s16_s32(vtrn2_s32(vreinterpret_s32_s16(a), vreinterpret_s32_s16(c)));
    x[3] = vreinterpret_s16_s32(vtrn2_s32(vreinterpret_s32_s16(b), vreinterpret_s32_s16(d)));
}

/* Coefficients in the upper left quarter only: four columns, then eight rows of four numbers. */
LS_SIMD void corner_samples(uint8_t *to, size_t pitch, const int16_t *coefficients, const int16_t *steps,
                            const int16x4_t c[3])
{
    int16x4_t x[4], rows[2][4], out[2][8];
    int32x4_t even[4], odd[4];
    LS_UNROLL for (int i = 0; i < 4; i++) x[i] = vmul_s16(vld1_s16(coefficients + 8 * i), vld1_s16(steps + 8 * i));
    corner_transform(x, c, even, odd);
    LS_UNROLL for (int i = 0; i < 4; i++)
    {
        rows[0][i] = vrshrn_n_s32(vaddq_s32(even[i], odd[i]), LS_DCT_COLUMN_SHIFT);
        rows[1][3 - i] = vrshrn_n_s32(vsubq_s32(even[i], odd[i]), LS_DCT_COLUMN_SHIFT);
    }
    LS_UNROLL for (int half = 0; half < 2; half++)
    {
        transpose4(rows[half]);
        corner_transform(rows[half], c, even, odd);
        LS_UNROLL for (int i = 0; i < 4; i++)
        {
            out[half][i] = vaddhn_s32(even[i], odd[i]);
            out[half][7 - i] = vsubhn_s32(even[i], odd[i]);
        }
    }
    int16x8_t y[8];
    LS_UNROLL for (int i = 0; i < 8; i++) y[i] = vcombine_s16(out[0][i], out[1][i]);
    transpose(y);
    store_rows(to, pitch, y);
}

static void samples(uint8_t *to, size_t pitch, const int16_t *coefficients, const int16_t *steps, int used)
{
    const int16x4_t c[3] = {vld1_s16(constants[0]), vld1_s16(constants[1]), vld1_s16(constants[2])};
    if (used <= LS_JPEG_CORNER) {
        corner_samples(to, pitch, coefficients, steps, c);
        return;
    }
    int16x8_t x[8];
    LS_UNROLL for (int i = 0; i < 8; i++) x[i] = vmulq_s16(vld1q_s16(coefficients + 8 * i), vld1q_s16(steps + 8 * i));
    columns(x, c, false);
    transpose(x);
    columns(x, c, true);
    transpose(x);
    store_rows(to, pitch, x);
}

/* Transforms of four numbers into four, in each of four columns. */
LS_SIMD void short_columns(int16x4_t x[4], int16x4_t c, bool last)
{
    int32x4_t plus = vshll_n_s16(vadd_s16(x[0], x[2]), LS_DCT_BITS);
    int32x4_t minus = vshll_n_s16(vsub_s16(x[0], x[2]), LS_DCT_BITS);
    int32x4_t outer = vmlal_lane_s16(vmull_lane_s16(x[1], c, 0), x[3], c, 1);
    int32x4_t inner = vmlsl_lane_s16(vmull_lane_s16(x[1], c, 1), x[3], c, 0);
    if (last) {
        x[0] = vaddhn_s32(plus, outer);
        x[1] = vaddhn_s32(minus, inner);
        x[2] = vsubhn_s32(minus, inner);
        x[3] = vsubhn_s32(plus, outer);
    } else {
        x[0] = vrshrn_n_s32(vaddq_s32(plus, outer), LS_DCT_COLUMN_SHIFT);
        x[1] = vrshrn_n_s32(vaddq_s32(minus, inner), LS_DCT_COLUMN_SHIFT);
        x[2] = vrshrn_n_s32(vsubq_s32(minus, inner), LS_DCT_COLUMN_SHIFT);
        x[3] = vrshrn_n_s32(vsubq_s32(plus, outer), LS_DCT_COLUMN_SHIFT);
    }
}

static void few_samples(uint8_t *to, size_t pitch, const int16_t *coefficients, const int16_t *steps, int size)
{
    if (size != 4) {
        ls_jpeg_ref.few_samples(to, pitch, coefficients, steps, size);
        return;
    }
    const int16x4_t c = vld1_s16(constants[0]);
    int16x4_t x[4];
    LS_UNROLL for (int i = 0; i < 4; i++) x[i] = vmul_s16(vld1_s16(coefficients + 8 * i), vld1_s16(steps + 8 * i));
    short_columns(x, c, false);
    transpose4(x);
    short_columns(x, c, true);
    transpose4(x);
    LS_UNROLL for (int i = 0; i < 4; i += 2)
    {
        uint8_t rows[8];
        int8x8_t level = vqrshrn_n_s16(vcombine_s16(x[i], x[i + 1]), LS_DCT_ROW_SHIFT - 16);
        vst1_u8(rows, veor_u8(vreinterpret_u8_s8(level), vdup_n_u8(0x80)));
        memcpy(to + (size_t)i * pitch, rows, 4);
        memcpy(to + (size_t)(i + 1) * pitch, rows + 4, 4);
    }
}

/* ---- Pixels ---- */

static void widen(uint8_t *y, const uint8_t *x, int64_t n)
{
    const uint8x16_t three = vdupq_n_u8(3);
    for (int64_t i = 0; i < n; i += 16) {
        uint8x16_t here = vld1q_u8(x + i), before = vld1q_u8(x + i - 1), after = vld1q_u8(x + i + 1);
        uint16x8_t low = vmull_u8(vget_low_u8(here), vget_low_u8(three)), high = vmull_high_u8(here, three);
        uint16x8_t one = vdupq_n_u16(1);
        uint8x16x2_t both;
        both.val[0] = vcombine_u8(vshrn_n_u16(vaddq_u16(vaddw_u8(low, vget_low_u8(before)), one), 2),
                                  vshrn_n_u16(vaddq_u16(vaddw_high_u8(high, before), one), 2));
        both.val[1] = vcombine_u8(vrshrn_n_u16(vaddw_u8(low, vget_low_u8(after)), 2),
                                  vrshrn_n_u16(vaddw_high_u8(high, after), 2));
        vst2q_u8(y + 2 * i, both);
    }
}

/* 3 near + far, of eight samples. */
LS_SIMD uint16x8_t of_rows(const uint8_t *near, const uint8_t *far)
{
    return vmlal_u8(vmovl_u8(vld1_u8(far)), vld1_u8(near), vdup_n_u8(3));
}

static void enlarge(uint8_t *y, const uint8_t *near, const uint8_t *far, int64_t n)
{
    const uint16x8_t seven = vdupq_n_u16(7);
    for (int64_t i = 0; i < n; i += 8) {
        uint16x8_t here = of_rows(near + i, far + i), thrice = vmulq_n_u16(here, 3);
        uint16x8_t before = of_rows(near + i - 1, far + i - 1), after = of_rows(near + i + 1, far + i + 1);
        uint8x8x2_t both;
        both.val[0] = vrshrn_n_u16(vaddq_u16(thrice, before), 4);
        both.val[1] = vshrn_n_u16(vaddq_u16(vaddq_u16(thrice, after), seven), 4);
        vst2_u8(y + 2 * i, both);
    }
}

/* Only the fractional part of each factor is multiplied, so that it fits into 16 bits: rounded upper halves. */
LS_SIMD int16x8_t upper(int32x4_t low, int32x4_t high)
{
    return vrshrn_high_n_s32(vrshrn_n_s32(low, 16), high, 16);
}

/* Red, green and blue of eight pixels. */
LS_SIMD uint8x8x3_t colors(uint8x8_t y, uint8x8_t cb, uint8x8_t cr)
{
    const int16_t red = 91881 - 65536, green_b = -22554, green_r = 65536 - 46802, blue = 116130 - 2 * 65536;
    int16x8_t level = vreinterpretq_s16_u16(vmovl_u8(y));
    int16x8_t b = vreinterpretq_s16_u16(vsubl_u8(cb, vdup_n_u8(128)));
    int16x8_t r = vreinterpretq_s16_u16(vsubl_u8(cr, vdup_n_u8(128)));
    int16x8_t of_r = upper(vmull_n_s16(vget_low_s16(r), red), vmull_high_n_s16(r, red));
    int16x8_t of_b = upper(vmull_n_s16(vget_low_s16(b), blue), vmull_high_n_s16(b, blue));
    int16x8_t of_g = upper(vmlal_n_s16(vmull_n_s16(vget_low_s16(b), green_b), vget_low_s16(r), green_r),
                           vmlal_high_n_s16(vmull_high_n_s16(b, green_b), r, green_r));
    uint8x8x3_t pixel;
    pixel.val[0] = vqmovun_s16(vaddq_s16(level, vaddq_s16(r, of_r)));
    pixel.val[1] = vqmovun_s16(vaddq_s16(level, vsubq_s16(of_g, r)));
    pixel.val[2] = vqmovun_s16(vaddq_s16(level, vaddq_s16(vaddq_s16(b, b), of_b)));
    return pixel;
}

static void pixels(uint8_t *rgb, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16, rgb += 48) {
        uint8x16_t level = vld1q_u8(y + i), b = vld1q_u8(cb + i), r = vld1q_u8(cr + i);
        uint8x8x3_t low = colors(vget_low_u8(level), vget_low_u8(b), vget_low_u8(r));
        uint8x8x3_t high = colors(vget_high_u8(level), vget_high_u8(b), vget_high_u8(r));
        uint8x16x3_t pixel;
        LS_UNROLL for (int c = 0; c < 3; c++) pixel.val[c] = vcombine_u8(low.val[c], high.val[c]);
        vst3q_u8(rgb, pixel);
    }
}

const ls_jpeg_table ls_jpeg_neon = {
    .samples = samples, .few_samples = few_samples, .widen = widen, .enlarge = enlarge, .pixels = pixels};
