/* attention.c - attention of bf16 on BFMMLA tiles.
 *
 * A tile is 12 x 8, in registers of 2 x 2: two neighbours of the wide side times two of the narrow side,
 *     [w0 n0, w0 n1, w1 n0, w1 n1],     register 4 * (w / 2) + n / 2
 * and a wide panel lies [depth / 4][12][4]. So two adjacent registers on the narrow side, narrowed to bf16 and
 * shuffled, make one register of the wide panel that is summed over the narrow side. */
#include "kernels/attention.h"

#include "base/half.h"
#include "kernels/gemm.h"
#include "kernels/neon/attention_dropout.h"
#include "kernels/neon_bf16/attention_asm.h"

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

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* For loops over vectors that must be fully unrolled, so that their arrays stay in registers. */
#define UNROLL _Pragma("GCC unroll 8")
#define INLINE static inline __attribute__((always_inline))

#define P1 0.693282928f
#define P2 0.242210969f
#define P3 0.0550089328f
#define MAGIC (0x1.8p23f + 127)

enum { LOT = 8 }; /* vectors computed side by side to hide latency */

/* x = 2^(c x) for c x < 127, to 2^-13 of itself, 16 times finer than bf16; 0 below 2^-126. With c x = n + f, 2^n is
 * made by shifting the low bits of c x + magic, which are n + 127, into the exponent. */
INLINE void powers_of_2(float32x4_t x[LOT], float c)
{
    float32x4_t magic = vdupq_n_f32(MAGIC), low = vdupq_n_f32(-127 / c), whole[LOT], f[LOT], p[LOT];
    UNROLL for (int i = 0; i < LOT; i++) x[i] = vmaxq_f32(x[i], low);
    UNROLL for (int i = 0; i < LOT; i++) whole[i] = vfmaq_n_f32(magic, x[i], c);
    UNROLL for (int i = 0; i < LOT; i++) f[i] = vsubq_f32(magic, whole[i]);
    UNROLL for (int i = 0; i < LOT; i++) f[i] = vfmaq_n_f32(f[i], x[i], c);
    UNROLL for (int i = 0; i < LOT; i++) x[i] = vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(whole[i]), 23));
    UNROLL for (int i = 0; i < LOT; i++) p[i] = vfmaq_f32(vdupq_n_f32(P2), f[i], vdupq_n_f32(P3));
    UNROLL for (int i = 0; i < LOT; i++) p[i] = vfmaq_f32(vdupq_n_f32(P1), f[i], p[i]);
    UNROLL for (int i = 0; i < LOT; i++) f[i] = vmulq_f32(f[i], x[i]);
    UNROLL for (int i = 0; i < LOT; i++) x[i] = vfmaq_f32(x[i], f[i], p[i]);
}

/* Two registers of sums to one of bf16, in the same order. */
static inline uint8x16_t narrowed(float32x4_t a, float32x4_t b)
{
    return vreinterpretq_u8_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(a), b));
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

static void start_frame(attention_walk *walk, int queries)
{
    attention_frame *f = walk->frame;
    const float numbers[4] = {P2, P1, -127 / walk->c, MAGIC};
    const uint32_t multipliers[2] = {PHILOX_M0, PHILOX_M1};
    f->lanes[0] = walk->c;
    f->lanes[1] = P3;
    memcpy(f->lanes + 2, multipliers, sizeof multipliers);
    for (int i = 0; i < 16; i++) f->numbers[i / 4][i % 4] = numbers[i / 4];
    memcpy(f->shuffle[0], to_wide, sizeof to_wide);
    memcpy(f->shuffle[1], to_narrow, sizeof to_narrow);
    for (int round = 0; round < 8; round++)
        for (int i = 0; i < 2; i++) {
            f->key[round][i] = walk->drop.key[4 + 2 * round + i];
            vst1q_u32(f->vector_key[round] + 4 * i, vdupq_n_u32(f->key[round][i]));
        }
    vst1q_u32(f->low2, vdupq_n_u32(walk->drop.low2));
    for (int i = 0; i < 24; i++) /* groups of queries first, then of keys */
        f->ramp[i / 4][i % 4] = (uint32_t)(i % queries) * walk->drop.step + (uint32_t)(i / queries);
    f->drawn = (attention_place){-1, 0, 0};
}

/* ---- dropout ----------------------------------------------------------------------------------------------------- */

/* Start to draw the tile at a place: rounds 1 and 2. */
INLINE void begin_drawing(const attention_walk *walk, attention_place at)
{
    const dropout *d = &walk->drop;
    attention_frame *f = walk->frame;
    uint32_t first = counter_of(d, at.head, at.query, at.key), key1 = d->key[1], key2 = d->key[2], high2 = d->high2;
    dropout_start start = rounds_start(d);
    UNROLL for (int g = 0; g < 4; g++)
    {
        uint32x4_t word[3];
        begin_group(start, vaddq_u32(vdupq_n_u32(first), vld1q_u32(f->ramp[g])), word);
        UNROLL for (int j = 0; j < 3; j++) vst1q_u32(f->vector[g][j], word[j]);
    }
    UNROLL for (int i = 0; i < 8; i++)
    {
        uint32_t *word = f->scalar[i / 4][i % 4];
        uint64_t p0 = (uint64_t)PHILOX_M0 * (first + f->ramp[4 + i / 4][i % 4]);
        uint64_t p1 = (uint64_t)PHILOX_M1 * ((uint32_t)(p0 >> 32) ^ key1);
        word[0] = (uint32_t)(p1 >> 32) ^ key2;
        word[1] = (uint32_t)p1;
        word[2] = (uint32_t)p0 ^ high2;
    }
    f->drawn = at;
}

/* kept.val[j]: all ones in the lanes of the queries of group g that keep key j of the group. */
INLINE uint32x4x4_t kept_in_group(const attention_frame *f, int g, uint32x4_t below)
{
    uint32x4x4_t kept;
    if (g < 4) UNROLL for (int j = 0; j < 4; j++) kept.val[j] = vld1q_u32(f->vector[g][j]);
    else kept = vld4q_u32(f->scalar[g - 4][0]);
    UNROLL for (int j = 0; j < 4; j++) kept.val[j] = vcgeq_u32(kept.val[j], below);
    return kept;
}

static bool is_drawn(const attention_walk *walk, attention_place at)
{
    attention_place drawn = walk->frame->drawn;
    return drawn.head == at.head && drawn.query == at.query && drawn.key == at.key;
}

/* Finish the rounds of the tile that was begun. The weights computed on the way are discarded. */
static void finish_rounds(const attention_walk *walk)
{
    static const float nothing[16];
    uint16_t rubbish[TILE + 3 * 96];
    grad_and_draw(walk->frame, nothing, rubbish, rubbish, rubbish, rubbish);
}

static bool keeps(const attention_walk *walk, attention_place at, int query, int key)
{
    const ls_attention_task *p = walk->drop.problem;
    return ls_attention_keeps(p, ls_attention_element(p, at.head, at.query + query, at.key + key));
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static void update_largest(const float *scores, int64_t tiles, float largest[WIDE])
{
    float32x4_t top[6];
    UNROLL for (int w = 0; w < 6; w++) top[w] = vdupq_n_f32(-INFINITY);
    for (const float *s = scores; s < scores + tiles * TILE; s += TILE)
        UNROLL for (int w = 0; w < 6; w++) UNROLL for (int n = 0; n < 4; n++) top[w] =
            vmaxq_f32(top[w], vld1q_f32(s + 16 * w + 4 * n));
    UNROLL for (int w = 0; w < 6; w++)
    {
        float32x2_t pair = vpmax_f32(vget_low_f32(top[w]), vget_high_f32(top[w]));
        vst1_f32(largest + 2 * w, vmax_f32(vld1_f32(largest + 2 * w), pair));
    }
}

static float query_sum(const float sums[2 * WIDE], int query)
{
    return sums[2 * query] + sums[2 * query + 1];
}

/* Masks for the panel of weights of a tile. */
static void mask_weights(const attention_walk *walk, attention_place at)
{
    attention_frame *f = walk->frame;
    uint16_t *kept = (uint16_t *)f->kept;
    uint32x4_t below = vdupq_n_u32(walk->drop.below);
    if (!walk->drop.by_groups) {
        for (int i = 0; i < TILE; i++) kept[i] = keeps(walk, at, i % 48 / 4, i / 48 * 4 + i % 4) ? UINT16_MAX : 0;
        return;
    }
    if (!is_drawn(walk, at)) {
        begin_drawing(walk, at);
        finish_rounds(walk);
    }
    UNROLL for (int g = 0; g < 6; g++)
    {
        uint32x4x4_t word = kept_in_group(f, g, below);
        uint16x8_t k01 = vuzp1q_u16(vreinterpretq_u16_u32(word.val[0]), vreinterpretq_u16_u32(word.val[1]));
        uint16x8_t k23 = vuzp1q_u16(vreinterpretq_u16_u32(word.val[2]), vreinterpretq_u16_u32(word.val[3]));
        uint16x8_t k02 = vzip1q_u16(k01, k23), k13 = vzip2q_u16(k01, k23);
        vst1q_u16(kept + g / 3 * 48 + g % 3 * 16, vzip1q_u16(k02, k13));
        vst1q_u16(kept + g / 3 * 48 + g % 3 * 16 + 8, vzip2q_u16(k02, k13));
    }
}

static void draw_forward(const attention_walk *walk, attention_place at, attention_place next)
{
    if (!walk->drop.below) return;
    mask_weights(walk, at);
    begin_drawing(walk, next);
}

/* Without dropout. */
static void weigh_all(const attention_walk *walk, float *sums, NUMBER *weights)
{
    uint8x16_t shuffle = vld1q_u8(to_wide);
    const float *score = walk->frame->score;
    float c = walk->c;
    UNROLL for (int w = 0; w < 6; w += 2)
    {
        float32x4_t x[LOT];
        UNROLL for (int i = 0; i < LOT; i++) x[i] = vld1q_f32(score + 16 * w + 4 * i);
        powers_of_2(x, c);
        UNROLL for (int i = 0; i < 2; i++)
        {
            float32x4_t sum = vaddq_f32(vaddq_f32(x[4 * i], x[4 * i + 1]), vaddq_f32(x[4 * i + 2], x[4 * i + 3]));
            vst1q_f32(sums + 4 * (w + i), vaddq_f32(vld1q_f32(sums + 4 * (w + i)), sum));
        }
        UNROLL for (int i = 0; i < LOT; i += 2) vst1q_u8((uint8_t *)(weights + i % 4 * 24 + 8 * (w + i / 4)),
                                                         vqtbl1q_u8(narrowed(x[i], x[i + 1]), shuffle));
    }
}

static void weigh(const attention_walk *walk, float sums[2 * WIDE], NUMBER *weights)
{
    if (walk->drop.below) weigh_and_draw(walk->frame, sums, weights);
    else weigh_all(walk, sums, weights);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static void fill_query_lanes(query_lanes *to, const float lse[NARROW], const float delta[NARROW])
{
    UNROLL for (int n = 0; n < 4; n++)
    {
        float32x2_t l = vneg_f32(vld1_f32(lse + 2 * n)), d = vld1_f32(delta + 2 * n);
        vst1q_f32(to->delta + 4 * n, vcombine_f32(d, d));
        UNROLL for (int w = 0; w < 6; w++) vst1q_f32(to->minus_lse + 16 * w + 4 * n, vcombine_f32(l, l));
    }
}

/* Masks of a tile, in the layout of scores. */
static void mask_scores(const attention_walk *walk, attention_place at)
{
    attention_frame *f = walk->frame;
    uint32_t *kept = f->kept;
    uint32x4_t below = vdupq_n_u32(walk->drop.below);
    if (!walk->drop.by_groups) {
        for (int i = 0; i < TILE; i++)
            kept[score_place(i / NARROW, i % NARROW)] = keeps(walk, at, i % NARROW, i / NARROW) ? UINT32_MAX : 0;
        return;
    }
    if (!is_drawn(walk, at)) {
        begin_drawing(walk, at);
        finish_rounds(walk);
    }
    UNROLL for (int g = 0; g < 6; g++)
    {
        uint32x4x4_t word = kept_in_group(f, g, below);
        UNROLL for (int j = 0; j < 4; j += 2)
        {
            uint64x2_t even = vreinterpretq_u64_u32(word.val[j]), odd = vreinterpretq_u64_u32(word.val[j + 1]);
            vst1q_u32(kept + g / 2 * 32 + j * 8 + g % 2 * 8, vreinterpretq_u32_u64(vtrn1q_u64(even, odd)));
            vst1q_u32(kept + g / 2 * 32 + j * 8 + g % 2 * 8 + 4, vreinterpretq_u32_u64(vtrn2q_u64(even, odd)));
        }
    }
}

static void draw_backward(const attention_walk *walk, attention_place at, attention_place next)
{
    if (!walk->drop.below) return;
    mask_scores(walk, at);
    begin_drawing(walk, next);
}

/* Where pair n of the queries of a tile lies in the panels by query. */
INLINE NUMBER *pair_by_query(const grad_target *to, int n)
{
    int64_t pair = to->query / 2 + n;
    return to->by_query + pair / 6 * to->panel_stride + pair % 6 * 8;
}

/* Without dropout. */
static void grad_all(const attention_walk *walk, const float *delta, const grad_target *to)
{
    uint8x16_t wide = vld1q_u8(to_wide), narrow = vld1q_u8(to_narrow);
    const float *score = walk->frame->score, *dweight = walk->frame->dweight;
    NUMBER *weights = to->weights, *dscores = to->dscores;
    NUMBER *by_query[4] = {pair_by_query(to, 0), pair_by_query(to, 1), pair_by_query(to, 2), pair_by_query(to, 3)};
    float c = walk->c;
    UNROLL for (int w = 0; w < 6; w += 2)
    { /* x[4 j + n] is pair w + j of keys with pair n of queries */
        float32x4_t x[LOT], d[LOT];
        UNROLL for (int i = 0; i < LOT; i++) x[i] = vld1q_f32(score + 16 * w + 4 * i);
        powers_of_2(x, c);
        UNROLL for (int i = 0; i < LOT; i++) d[i] = vmulq_f32(x[i], vld1q_f32(delta + i % 4 * 4));
        UNROLL for (int i = 0; i < LOT; i++) d[i] = vfmsq_f32(d[i], x[i], vld1q_f32(dweight + 16 * w + 4 * i));

        UNROLL for (int i = 0; i < LOT; i += 2)
            vst1q_u8((uint8_t *)(weights + i % 4 * 24 + 8 * (w + i / 4)), vqtbl1q_u8(narrowed(x[i], x[i + 1]), wide));
        uint8x16_t half[4];
        UNROLL for (int i = 0; i < 4; i++) half[i] = narrowed(d[2 * i], d[2 * i + 1]);
        UNROLL for (int i = 0; i < 4; i++)
            vst1q_u8((uint8_t *)(dscores + i % 2 * 48 + 8 * (w + i / 2)), vqtbl1q_u8(half[i], wide));
        UNROLL for (int n = 0; n < 2; n++)
        {
            uint64x2_t low = vreinterpretq_u64_u8(half[n]), high = vreinterpretq_u64_u8(half[n + 2]);
            vst1q_u8((uint8_t *)(by_query[2 * n] + 24 * w),
                     vqtbl1q_u8(vreinterpretq_u8_u64(vtrn1q_u64(low, high)), narrow));
            vst1q_u8((uint8_t *)(by_query[2 * n + 1] + 24 * w),
                     vqtbl1q_u8(vreinterpretq_u8_u64(vtrn2q_u64(low, high)), narrow));
        }
    }
}

static void grad_tile(const attention_walk *walk, const query_lanes *queries, const grad_target *to)
{
    /* Pairs 0 and 1 are adjacent in the same panel, and so are 2 and 3. */
    if (walk->drop.below)
        grad_and_draw(walk->frame, queries->delta, to->weights, to->dscores, pair_by_query(to, 0),
                      pair_by_query(to, 2));
    else grad_all(walk, queries->delta, to);
}

static void grad_hidden(const grad_target *to)
{
    memset(to->weights, 0, TILE * sizeof(NUMBER));
    memset(to->dscores, 0, TILE * sizeof(NUMBER));
    for (int n = 0; n < 4; n++)
        for (int w = 0; w < 6; w += 2) memset(pair_by_query(to, n) + 24 * w, 0, 8 * sizeof(NUMBER));
}

static const ls_attention_kernel kernel = {forward_scratch, backward_scratch, forward, backward};

const ls_attention_table ls_attention_neon_bf16 = {.bf16 = &kernel};
