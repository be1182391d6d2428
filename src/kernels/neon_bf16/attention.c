/* attention.c - attention of bf16 on BFMMLA tiles.
 *
 * A tile is 12 x 8, in registers of 2 x 2: two neighbours of the wide side times two of the narrow side,
 *     [w0 n0, w0 n1, w1 n0, w1 n1],     register 4 * (w / 2) + n / 2
 * and a wide panel lies [depth / 4][12][4]. So two registers that are neighbours on the narrow side, narrowed and
 * shuffled, are one register of the wide panel that is summed over the narrow side. */
#include "kernels/attention.h"

#include "base/half.h"
#include "kernels/gemm.h"
#include "kernels/neon/attention_dropout.h"

#include <arm_neon.h>
#include <float.h>
#include <math.h>
#include <string.h>

#define NUMBER uint16_t
#define DTYPE LS_BF16
#define TALL (ls_gemm_neon_bf16.bf16[0])
#include "kernels/attention.inc"

static int score_place(int wide, int narrow)
{
    return (wide / 2 * 4 + narrow / 2) * 4 + wide % 2 * 2 + narrow % 2;
}

static int sum_place(int wide, int narrow)
{
    return score_place(wide, narrow);
}

static void score_tile(int64_t deep, const NUMBER *wide, const NUMBER *narrow, const float *from, float *to)
{
    TALL->tile(deep, wide, narrow, from, to, 0);
}

/* 2^x for x <= 0, to 2^-18; 0 below 2^-126. 2^n is put in by hand: n are the low bits of x + magic. */
static inline float32x4_t power_of_2(float32x4_t x)
{
    float32x4_t magic = vdupq_n_f32(0x1.8p23f);
    x = vmaxq_f32(x, vdupq_n_f32(-127));
    float32x4_t n = vaddq_f32(x, magic), f = vsubq_f32(x, vsubq_f32(n, magic));
    float32x4_t p = vfmaq_f32(vdupq_n_f32(0.0559064247f), f, vdupq_n_f32(0.00958285311f));
    p = vfmaq_f32(vdupq_n_f32(0.240240986f), f, p);
    p = vfmaq_f32(vdupq_n_f32(0.693124193f), f, p);
    p = vfmaq_f32(vdupq_n_f32(1), f, p);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), vshlq_n_s32(vreinterpretq_s32_f32(n), 23)));
}

/* Two registers of sums to one of bf16, as they lie. */
static inline uint8x16_t narrowed(float32x4_t a, float32x4_t b)
{
    return vreinterpretq_u8_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(a), b));
}

static inline float32x4_t kept_of(const uint32_t *kept, float32x4_t x)
{
    return vreinterpretq_f32_u32(vandq_u32(vld1q_u32(kept), vreinterpretq_u32_f32(x)));
}

/* Two neighbours of the narrow side, [w0 n01, w1 n01, w0 n23, w1 n23], to [w0 n0123, w1 n0123]. */
static const uint8_t to_wide[16] = {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15};
/* Two neighbours of the wide side, [w0 n01, w1 n01, w2 n01, w3 n01], to [n0 w0123, n1 w0123]. */
static const uint8_t to_narrow[16] = {0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15};

static void store_row(NUMBER *to, const float *from, int64_t n, float factor)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        vst1q_u8((uint8_t *)(to + i),
                 narrowed(vmulq_n_f32(vld1q_f32(from + i), factor), vmulq_n_f32(vld1q_f32(from + i + 4), factor)));
    for (; i < n; i++) to[i] = ls_bf16_from_f32(from[i] * factor);
}

static float row_product(const NUMBER *a, const NUMBER *b, int64_t n)
{
    float32x4_t sum[2] = {vdupq_n_f32(0), vdupq_n_f32(0)};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint16x8_t x = vld1q_u16(a + i), y = vld1q_u16(b + i);
        sum[0] = vfmaq_f32(sum[0], vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(x), 16)),
                           vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(y), 16)));
        sum[1] = vfmaq_f32(sum[1], vreinterpretq_f32_u32(vshll_high_n_u16(x, 16)),
                           vreinterpretq_f32_u32(vshll_high_n_u16(y, 16)));
    }
    float product = vaddvq_f32(vaddq_f32(sum[0], sum[1]));
    for (; i < n; i++) product += ls_bf16_to_f32(a[i]) * ls_bf16_to_f32(b[i]);
    return product;
}

/* ---- forward ------------------------------------------------------------------------------------------------------ */

static void largest_of(const float *scores, int64_t tiles, float largest[WIDE])
{
    float32x4_t top[6];
#pragma GCC unroll 8
    for (int w = 0; w < 6; w++) top[w] = vdupq_n_f32(-INFINITY);
    for (const float *s = scores; s < scores + tiles * TILE; s += TILE)
#pragma GCC unroll 8
        for (int w = 0; w < 6; w++)
#pragma GCC unroll 8
            for (int n = 0; n < 4; n++) top[w] = vmaxq_f32(top[w], vld1q_f32(s + 16 * w + 4 * n));
#pragma GCC unroll 8
    for (int w = 0; w < 6; w++) {
        float32x2_t pair = vpmax_f32(vget_low_f32(top[w]), vget_high_f32(top[w]));
        vst1_f32(largest + 2 * w, vmax_f32(vld1_f32(largest + 2 * w), pair));
    }
}

/* Masks of a tile of forward: queries wide, keys narrow. */
static void draw_forward(const dropout *d, int64_t query, int64_t key, uint32_t kept[TILE])
{
    if (!d->by_blocks) {
        for (int i = 0; i < WIDE; i++)
            for (int j = 0; j < NARROW; j++)
                kept[score_place(i, j)] =
                    ls_attention_keeps(d->problem, ls_attention_element(d->problem, 0, query + i, key + j)) ? UINT32_MAX
                                                                                                            : 0;
        return;
    }
    uint32x4_t counter[DROPOUT_GROUPS], word[DROPOUT_GROUPS][4];
#pragma GCC unroll 8
    for (int g = 0; g < 6; g++) counter[g] = counters_of(d, 0, query + g / 2 * 4, key + g % 2 * 4);
    draw_groups(d, counter, word);
#pragma GCC unroll 8
    for (int g = 0; g < 6; g++) {
        uint32_t *at = kept + g / 2 * 32 + g % 2 * 8;
        vst1q_u32(at, vzip1q_u32(word[g][0], word[g][1]));
        vst1q_u32(at + 4, vzip1q_u32(word[g][2], word[g][3]));
        vst1q_u32(at + 16, vzip2q_u32(word[g][0], word[g][1]));
        vst1q_u32(at + 20, vzip2q_u32(word[g][2], word[g][3]));
    }
}

static void weigh(const attention_walk *walk, const float *scores, int64_t tiles, int64_t query, int64_t key,
                  const float top[WIDE], float sum[WIDE], NUMBER *weights)
{
    uint8x16_t shuffle = vld1q_u8(to_wide);
    float32x4_t total[6];
    uint32_t kept[TILE];
#pragma GCC unroll 8
    for (int w = 0; w < 6; w++) total[w] = vdupq_n_f32(0);
    for (int64_t t = 0; t < tiles; t++, scores += TILE, weights += TILE) {
        if (walk->drop.below) draw_forward(&walk->drop, query, key + t * NARROW, kept);
#pragma GCC unroll 8
        for (int w = 0; w < 6; w++) {
            float32x4_t m = vcombine_f32(vdup_n_f32(top[2 * w]), vdup_n_f32(top[2 * w + 1]));
#pragma GCC unroll 8
            for (int n = 0; n < 4; n += 2) {
                const float *s = scores + 16 * w + 4 * n;
                float32x4_t a = power_of_2(vmulq_n_f32(vsubq_f32(vld1q_f32(s), m), walk->c));
                float32x4_t b = power_of_2(vmulq_n_f32(vsubq_f32(vld1q_f32(s + 4), m), walk->c));
                total[w] = vaddq_f32(total[w], vaddq_f32(a, b));
                if (walk->drop.below) {
                    a = kept_of(kept + 16 * w + 4 * n, a);
                    b = kept_of(kept + 16 * w + 4 * n + 4, b);
                }
                vst1q_u8((uint8_t *)(weights + 24 * n + 8 * w), vqtbl1q_u8(narrowed(a, b), shuffle));
            }
        }
    }
#pragma GCC unroll 8
    for (int w = 0; w < 6; w++) vst1_f32(sum + 2 * w, vpadd_f32(vget_low_f32(total[w]), vget_high_f32(total[w])));
}

/* ---- backward ----------------------------------------------------------------------------------------------------- */

/* Masks of a tile of backward: keys wide, queries narrow. */
static void draw_backward(const dropout *d, int64_t head, int64_t query, int64_t key, uint32_t kept[TILE])
{
    if (!d->by_blocks) {
        for (int j = 0; j < WIDE; j++)
            for (int i = 0; i < NARROW; i++)
                kept[score_place(j, i)] =
                    ls_attention_keeps(d->problem, ls_attention_element(d->problem, head, query + i, key + j))
                        ? UINT32_MAX
                        : 0;
        return;
    }
    uint32x4_t counter[DROPOUT_GROUPS], word[DROPOUT_GROUPS][4];
#pragma GCC unroll 8
    for (int g = 0; g < 6; g++) counter[g] = counters_of(d, head, query + g % 2 * 4, key + g / 2 * 4);
    draw_groups(d, counter, word);
#pragma GCC unroll 8
    for (int g = 0; g < 6; g++)
#pragma GCC unroll 8
        for (int j = 0; j < 4; j += 2) {
            uint64_t *at = (uint64_t *)(void *)(kept + g / 2 * 32 + j * 8 + g % 2 * 8);
            uint64x2_t even = vreinterpretq_u64_u32(word[g][j]), odd = vreinterpretq_u64_u32(word[g][j + 1]);
            vst1q_u64(at, vtrn1q_u64(even, odd));
            vst1q_u64(at + 2, vtrn2q_u64(even, odd));
        }
}

/* Where pair n of the queries of a tile lies in the panels by query. */
static NUMBER *pair_by_query(const grade_target *to, int n)
{
    int64_t pair = to->query / 2 + n;
    return to->by_query + pair / 6 * to->panel_stride + pair % 6 * 8;
}

static void grade(const attention_walk *walk, int64_t head, int64_t query, int64_t key, const float *score,
                  const float *dweight, const float lse[NARROW], const float delta[NARROW], const grade_target *to)
{
    uint8x16_t wide = vld1q_u8(to_wide), narrow = vld1q_u8(to_narrow);
    float32x4_t keep_scale = vdupq_n_f32((float)walk->problem->keep_scale);
    uint32_t kept[TILE];
    if (walk->drop.below) draw_backward(&walk->drop, head, query, key, kept);
    NUMBER *by_query[4];
    for (int n = 0; n < 4 && to->by_query; n++) by_query[n] = pair_by_query(to, n);

#pragma GCC unroll 8
    for (int n = 0; n < 4; n += 2) {
        float32x4_t l[2], minus_delta[2];
#pragma GCC unroll 8
        for (int i = 0; i < 2; i++) {
            l[i] = vreinterpretq_f32_f64(vld1q_dup_f64((const double *)(const void *)(lse + 2 * (n + i))));
            minus_delta[i] =
                vnegq_f32(vreinterpretq_f32_f64(vld1q_dup_f64((const double *)(const void *)(delta + 2 * (n + i)))));
        }
#pragma GCC unroll 8
        for (int w = 0; w < 6; w += 2) {
            uint64x2_t ds[2];
#pragma GCC unroll 8
            for (int j = 0; j < 2; j++) {
                float32x4_t p[2], d[2];
#pragma GCC unroll 8
                for (int i = 0; i < 2; i++) {
                    int at = 16 * (w + j) + 4 * (n + i);
                    p[i] = power_of_2(vmulq_n_f32(vsubq_f32(vld1q_f32(score + at), l[i]), walk->c));
                    d[i] = vld1q_f32(dweight + at);
                    if (walk->drop.below) d[i] = kept_of(kept + at, d[i]);
                    d[i] = vmulq_f32(p[i], vfmaq_f32(minus_delta[i], d[i], keep_scale));
                    if (walk->drop.below) p[i] = kept_of(kept + at, p[i]);
                }
                uint8x16_t narrow_ds = narrowed(d[0], d[1]);
                ds[j] = vreinterpretq_u64_u8(narrow_ds);
                vst1q_u8((uint8_t *)(to->weights + 24 * n + 8 * (w + j)), vqtbl1q_u8(narrowed(p[0], p[1]), wide));
                vst1q_u8((uint8_t *)(to->dscores + 24 * n + 8 * (w + j)), vqtbl1q_u8(narrow_ds, wide));
            }
            if (!to->by_query) continue;
            vst1q_u8((uint8_t *)(by_query[n] + 24 * w),
                     vqtbl1q_u8(vreinterpretq_u8_u64(vtrn1q_u64(ds[0], ds[1])), narrow));
            vst1q_u8((uint8_t *)(by_query[n + 1] + 24 * w),
                     vqtbl1q_u8(vreinterpretq_u8_u64(vtrn2q_u64(ds[0], ds[1])), narrow));
        }
    }
}

static void grade_hidden(const grade_target *to)
{
    memset(to->weights, 0, TILE * sizeof(NUMBER));
    memset(to->dscores, 0, TILE * sizeof(NUMBER));
    for (int n = 0; n < 4 && to->by_query; n++)
#pragma GCC unroll 8
        for (int w = 0; w < 6; w += 2) memset(pair_by_query(to, n) + 24 * w, 0, 8 * sizeof(NUMBER));
}

static const ls_attention_kernel kernel = {forward_scratch, backward_scratch, forward, backward};

const ls_attention_table ls_attention_neon_bf16 = {.bf16 = &kernel};
