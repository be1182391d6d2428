/* attention.c - attention of f32 on FMLA tiles.
 *
 * Tiles of scores are 8 x 12, one row per element of the narrow side, and so are the slices of a wide panel that is
 * summed over the narrow side: weights computed from a tile of scores can stay in place. */
#include "kernels/attention.h"

#include "kernels/gemm.h"
#include "kernels/neon/attention_dropout.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* First element of a tile. */
typedef struct attention_place {
    int64_t head, query, key;
} attention_place;

typedef struct attention_frame {
    float score[96], dweight[96];
    uint32_t kept[96]; /* masks of either direction */
} attention_frame;

#define NUMBER float
#define DTYPE LS_F32
#define TALL (ls_gemm_neon.f32[0])
#define FLAT (ls_gemm_neon.f32[1])
#include "kernels/attention.inc"

static void start_frame(attention_walk *walk, int queries)
{
    (void)walk;
    (void)queries;
}

static int score_place(int wide, int narrow)
{
    return narrow * WIDE + wide;
}

static int sum_place(int wide, int narrow)
{
    return wide * NARROW + narrow;
}

static void score_tile(int64_t deep, const NUMBER *wide, const NUMBER *narrow, const float *from, float *to)
{
    FLAT->tile(deep, narrow, wide, from, to, 0);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* For loops over vectors that must be fully unrolled, so that their arrays stay in registers. */
#define UNROLL _Pragma("GCC unroll 8")
#define INLINE static inline __attribute__((always_inline))

enum { LOT = 6 }; /* vectors computed side by side to hide latency */

/* c as the sum of two floats. */
typedef struct exact_c {
    float high, low;
} exact_c;

static exact_c split_c(const attention_walk *walk)
{
    double c = walk->problem->scale * 1.44269504088896340736;
    return (exact_c){(float)c, (float)(c - (double)(float)c)};
}

/* 2^f = 1 + f (P1 + f (P2 + ...)) for |f| <= 1/2, to 2^-28. */
#define P1 0.693147203f
#define P2 0.240226479f
#define P3 0.0555033247f
#define P4 0.00961843736f
#define P5 0.00133988746f
#define P6 0.000153533613f

/* x = 2^(c x) for c x < 127; 0 below 2^-126. With c x = n + f, 2^n is made by shifting the low bits of c x + magic,
 * which are n + 127, into the exponent. */
INLINE void powers_of_2(float32x4_t x[LOT], exact_c c)
{
    float32x4_t magic = vdupq_n_f32(0x1.8p23f + 127), low = vdupq_n_f32(-127 / c.high), whole[LOT], f[LOT], p[LOT];
    UNROLL for (int i = 0; i < LOT; i++) x[i] = vmaxq_f32(x[i], low);
    UNROLL for (int i = 0; i < LOT; i++) whole[i] = vfmaq_n_f32(magic, x[i], c.high);
    UNROLL for (int i = 0; i < LOT; i++) f[i] = vsubq_f32(magic, whole[i]);
    UNROLL for (int i = 0; i < LOT; i++) f[i] = vfmaq_n_f32(f[i], x[i], c.high);
    UNROLL for (int i = 0; i < LOT; i++) f[i] = vfmaq_n_f32(f[i], x[i], c.low);
    UNROLL for (int i = 0; i < LOT; i++) x[i] = vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(whole[i]), 23));
    UNROLL for (int i = 0; i < LOT; i++) p[i] = vfmaq_f32(vdupq_n_f32(P5), f[i], vdupq_n_f32(P6));
    UNROLL for (int i = 0; i < LOT; i++) p[i] = vfmaq_f32(vdupq_n_f32(P4), f[i], p[i]);
    UNROLL for (int i = 0; i < LOT; i++) p[i] = vfmaq_f32(vdupq_n_f32(P3), f[i], p[i]);
    UNROLL for (int i = 0; i < LOT; i++) p[i] = vfmaq_f32(vdupq_n_f32(P2), f[i], p[i]);
    UNROLL for (int i = 0; i < LOT; i++) p[i] = vfmaq_f32(vdupq_n_f32(P1), f[i], p[i]);
    UNROLL for (int i = 0; i < LOT; i++) f[i] = vmulq_f32(f[i], x[i]);
    UNROLL for (int i = 0; i < LOT; i++) x[i] = vfmaq_f32(x[i], f[i], p[i]);
}

INLINE float32x4_t kept_of(const uint32_t *kept, float32x4_t x)
{
    return vreinterpretq_f32_u32(vandq_u32(vld1q_u32(kept), vreinterpretq_u32_f32(x)));
}

static void store_row(NUMBER *to, const float *from, int64_t n, float factor)
{
    for (int64_t i = 0; i < n; i++) to[i] = from[i] * factor;
}

static float row_product(const NUMBER *a, const NUMBER *b, int64_t n)
{
    float32x4_t sum[2] = {vdupq_n_f32(0), vdupq_n_f32(0)};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        sum[0] = vfmaq_f32(sum[0], vld1q_f32(a + i), vld1q_f32(b + i));
        sum[1] = vfmaq_f32(sum[1], vld1q_f32(a + i + 4), vld1q_f32(b + i + 4));
    }
    float product = vaddvq_f32(vaddq_f32(sum[0], sum[1]));
    for (; i < n; i++) product += a[i] * b[i];
    return product;
}

/* ---- dropout ----------------------------------------------------------------------------------------------------- */

/* A tile has six groups of 4 x 4. word[g][j]: all ones in the lanes of the queries of group g that keep its key j.
 * Group g begins at query_of[g] and key_of[g] of the tile. */
INLINE void draw_groups(const attention_walk *walk, attention_place at, const int query_of[6], const int key_of[6],
                        uint32x4_t word[6][4])
{
    static const uint32_t ramp[4] = {0, 1, 2, 3};
    const dropout *d = &walk->drop;
    dropout_start start = rounds_start(d);
    uint32x4_t below = vdupq_n_u32(d->below), steps = vmulq_n_u32(vld1q_u32(ramp), d->step);
    UNROLL for (int g = 0; g < 6; g++)
    {
        uint32_t first = counter_of(d, at.head, at.query + query_of[g], at.key + key_of[g]);
        begin_group(start, vaddq_u32(vdupq_n_u32(first), steps), word[g]);
        word[g][3] = vdupq_n_u32(d->low2);
    }
    UNROLL for (int round = 2; round < 10; round++)
    {
        uint32x4_t k0 = vdupq_n_u32(d->key[2 * round]), k1 = vdupq_n_u32(d->key[2 * round + 1]);
        UNROLL for (int g = 0; g < 6; g++)
        {
            uint32x4_t high0, high1, low0 = multiply_wide(word[g][0], PHILOX_M0, &high0);
            uint32x4_t low1 = multiply_wide(word[g][2], PHILOX_M1, &high1);
            word[g][0] = veorq_u32(high1, veorq_u32(word[g][1], k0));
            word[g][2] = veorq_u32(high0, veorq_u32(word[g][3], k1));
            word[g][1] = low1;
            word[g][3] = low0;
        }
    }
    UNROLL for (int g = 0; g < 6; g++) UNROLL for (int j = 0; j < 4; j++) word[g][j] = vcgeq_u32(word[g][j], below);
}

/* Element by element; queries are the wide side in forward, the narrow one in backward. */
static void draw_singly(const attention_walk *walk, attention_place at, bool queries_wide)
{
    const ls_attention_task *p = walk->drop.problem;
    for (int i = 0; i < TILE; i++) {
        int wide = i % WIDE, narrow = i / WIDE, query = queries_wide ? wide : narrow,
            key = queries_wide ? narrow : wide;
        uint64_t element = ls_attention_element(p, at.head, at.query + query, at.key + key);
        walk->frame->kept[i] = ls_attention_keeps(p, element) ? UINT32_MAX : 0;
    }
}

static void draw_forward(const attention_walk *walk, attention_place at, attention_place next)
{
    (void)next;
    if (!walk->drop.below) return;
    if (!walk->drop.by_groups) {
        draw_singly(walk, at, true);
        return;
    }
    static const int query_of[6] = {0, 4, 8, 0, 4, 8}, key_of[6] = {0, 0, 0, 4, 4, 4};
    uint32x4_t word[6][4];
    draw_groups(walk, at, query_of, key_of, word);
    UNROLL for (int g = 0; g < 6; g++) UNROLL for (int j = 0; j < 4; j++)
        vst1q_u32(walk->frame->kept + (key_of[g] + j) * WIDE + query_of[g], word[g][j]);
}

/* Transpose a block of 4 x 4. */
INLINE void transpose(uint32x4_t v[4])
{
    uint64x2_t a = vreinterpretq_u64_u32(vtrn1q_u32(v[0], v[1])), b = vreinterpretq_u64_u32(vtrn2q_u32(v[0], v[1]));
    uint64x2_t c = vreinterpretq_u64_u32(vtrn1q_u32(v[2], v[3])), d = vreinterpretq_u64_u32(vtrn2q_u32(v[2], v[3]));
    v[0] = vreinterpretq_u32_u64(vtrn1q_u64(a, c));
    v[1] = vreinterpretq_u32_u64(vtrn1q_u64(b, d));
    v[2] = vreinterpretq_u32_u64(vtrn2q_u64(a, c));
    v[3] = vreinterpretq_u32_u64(vtrn2q_u64(b, d));
}

static void draw_backward(const attention_walk *walk, attention_place at, attention_place next)
{
    (void)next;
    if (!walk->drop.below) return;
    if (!walk->drop.by_groups) {
        draw_singly(walk, at, false);
        return;
    }
    static const int query_of[6] = {0, 4, 0, 4, 0, 4}, key_of[6] = {0, 0, 4, 4, 8, 8};
    uint32x4_t word[6][4];
    draw_groups(walk, at, query_of, key_of, word);
    UNROLL for (int g = 0; g < 6; g++)
    {
        transpose(word[g]);
        UNROLL for (int i = 0; i < 4; i++)
            vst1q_u32(walk->frame->kept + (query_of[g] + i) * WIDE + key_of[g], word[g][i]);
    }
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static void update_largest(const float *scores, int64_t tiles, float largest[WIDE])
{
    float32x4_t top[3] = {vld1q_f32(largest), vld1q_f32(largest + 4), vld1q_f32(largest + 8)};
    for (int64_t row = 0; row < tiles * NARROW; row++)
        UNROLL for (int i = 0; i < 3; i++) top[i] = vmaxq_f32(top[i], vld1q_f32(scores + row * WIDE + 4 * i));
    UNROLL for (int i = 0; i < 3; i++) vst1q_f32(largest + 4 * i, top[i]);
}

static float query_sum(const float sums[2 * WIDE], int query)
{
    return sums[query] + sums[WIDE + query];
}

static void weigh(const attention_walk *walk, float sums[2 * WIDE], NUMBER *weights)
{
    const attention_frame *f = walk->frame;
    exact_c c = split_c(walk);
    bool drop = walk->drop.below;
    for (int at = 0; at < TILE; at += 4 * LOT) { /* two keys */
        float32x4_t x[LOT];
        UNROLL for (int i = 0; i < LOT; i++) x[i] = vld1q_f32(f->score + at + 4 * i);
        powers_of_2(x, c);
        UNROLL for (int i = 0; i < LOT; i++) vst1q_f32(sums + 4 * i, vaddq_f32(vld1q_f32(sums + 4 * i), x[i]));
        if (drop) UNROLL for (int i = 0; i < LOT; i++) x[i] = kept_of(f->kept + at + 4 * i, x[i]);
        UNROLL for (int i = 0; i < LOT; i++) vst1q_f32(weights + at + 4 * i, x[i]);
    }
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static void fill_query_lanes(query_lanes *to, const float lse[NARROW], const float delta[NARROW])
{
    for (int n = 0; n < NARROW; n++) {
        to->delta[n] = delta[n];
        UNROLL for (int i = 0; i < 3; i++) vst1q_f32(to->minus_lse + n * WIDE + 4 * i, vdupq_n_f32(-lse[n]));
    }
}

static void grad_tile(const attention_walk *walk, const query_lanes *queries, const grad_target *to)
{
    const attention_frame *f = walk->frame;
    exact_c c = split_c(walk);
    bool drop = walk->drop.below;
    for (int n = 0; n < NARROW; n += 2) { /* two queries */
        float32x4_t x[LOT], d[LOT];
        UNROLL for (int i = 0; i < LOT; i++) x[i] = vld1q_f32(f->score + n * WIDE + 4 * i);
        powers_of_2(x, c);
        UNROLL for (int i = 0; i < LOT; i++) d[i] = vmulq_n_f32(x[i], queries->delta[n + i / 3]);
        if (drop) UNROLL for (int i = 0; i < LOT; i++) x[i] = kept_of(f->kept + n * WIDE + 4 * i, x[i]);
        UNROLL for (int i = 0; i < LOT; i++)
        {
            d[i] = vfmsq_f32(d[i], x[i], vld1q_f32(f->dweight + n * WIDE + 4 * i));
            vst1q_f32(to->weights + n * WIDE + 4 * i, x[i]);
            vst1q_f32(to->dscores + n * WIDE + 4 * i, d[i]);
        }
    }
    /* Four queries adjacent in a tile are adjacent in a panel. */
    for (int n = 0; n < NARROW; n += 4) {
        NUMBER *panel = to->by_query + (to->query + n) / WIDE * to->panel_stride + (to->query + n) % WIDE;
        for (int w = 0; w < WIDE; w += 4) {
            uint32x4_t block[4];
            UNROLL for (int i = 0; i < 4; i++) block[i] =
                vreinterpretq_u32_f32(vld1q_f32(to->dscores + (n + i) * WIDE + w));
            transpose(block);
            UNROLL for (int i = 0; i < 4; i++) vst1q_f32(panel + (w + i) * WIDE, vreinterpretq_f32_u32(block[i]));
        }
    }
}

static void grad_hidden(const grad_target *to)
{
    memset(to->weights, 0, TILE * sizeof(NUMBER));
    memset(to->dscores, 0, TILE * sizeof(NUMBER));
    for (int n = 0; n < NARROW; n += 4) {
        NUMBER *panel = to->by_query + (to->query + n) / WIDE * to->panel_stride + (to->query + n) % WIDE;
        for (int w = 0; w < WIDE; w++) memset(panel + w * WIDE, 0, 4 * sizeof(NUMBER));
    }
}

static const ls_attention_kernel kernel = {forward_scratch, backward_scratch, forward, backward};

const ls_attention_table ls_attention_neon = {.f32 = &kernel};
