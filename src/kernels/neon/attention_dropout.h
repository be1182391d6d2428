/* attention_dropout.h - which weights dropout keeps, for tiles of 4 x 4 scores at a time.
 *
 * A block of Philox serves four neighbouring keys of one query. Here a vector is one word of the blocks of four queries, so
 * the four words of the vectors are four keys. When the number of keys is no multiple of four, or counters pass 2^32
 * within the problem, elements are asked for one by one. */
#ifndef LOCKSTEP_KERNELS_NEON_ATTENTION_DROPOUT_H
#define LOCKSTEP_KERNELS_NEON_ATTENTION_DROPOUT_H

#include "kernels/attention.h"

#include <arm_neon.h>

typedef struct dropout {
    const ls_attention *problem;
    bool by_blocks;
    uint32_t below;
    uint32_t key[20]; /* of each round, two */
    uint32_t low2, high2;
} dropout;

enum { DROPOUT_GROUPS = 6 };

static dropout start_dropout(const ls_attention *p)
{
    dropout d = {.problem = p, .below = p->drop_below};
    if (!p->drop_below) return d;
    uint32_t k0 = (uint32_t)p->seed, k1 = (uint32_t)(p->seed >> 32);
    for (int round = 0; round < 10; round++) {
        d.key[2 * round] = k0;
        d.key[2 * round + 1] = k1;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    uint64_t elements = (uint64_t)(p->group * p->queries * p->keys) + 64 * (uint64_t)p->keys;
    uint64_t begin = p->offset + p->first / 4, end = p->offset + (p->first + elements) / 4;
    d.by_blocks = p->keys % 4 == 0 && p->first % 4 == 0 && begin >> 32 == end >> 32;
    /* The first rounds of blocks that differ in the lowest word only: word 0 after round 1 is the same for all. */
    uint64_t product = (uint64_t)0xD2511F53u * ((uint32_t)(begin >> 32) ^ d.key[0]);
    d.low2 = (uint32_t)product;
    d.high2 = (uint32_t)(product >> 32) ^ d.key[3];
    return d;
}

static inline __attribute__((always_inline)) uint32x4_t multiply_wide(uint32x4_t a, uint32x4_t b, uint32x4_t *high)
{
    uint32x4_t lower = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(a), vget_low_u32(b)));
    uint32x4_t upper = vreinterpretq_u32_u64(vmull_high_u32(a, b));
    *high = vuzp2q_u32(lower, upper);
    return vuzp1q_u32(lower, upper);
}

/* word[g][j]: all ones where key j of the four of group g is kept; a lane per query. counter[g]: of the four queries. */
static inline __attribute__((always_inline)) void
draw_groups(const dropout *d, const uint32x4_t counter[DROPOUT_GROUPS], uint32x4_t word[DROPOUT_GROUPS][4])
{
    uint32x4_t m0 = vdupq_n_u32(0xD2511F53u), m1 = vdupq_n_u32(0xCD9E8D57u), below = vdupq_n_u32(d->below);
#pragma GCC unroll 8
    for (int g = 0; g < DROPOUT_GROUPS; g++) {
        uint32x4_t high, low = multiply_wide(counter[g], m0, &high);
        word[g][1] = multiply_wide(veorq_u32(high, vdupq_n_u32(d->key[1])), m1, &high);
        word[g][0] = veorq_u32(high, vdupq_n_u32(d->key[2]));
        word[g][2] = veorq_u32(low, vdupq_n_u32(d->high2));
        word[g][3] = vdupq_n_u32(d->low2);
    }
#pragma GCC unroll 8
    for (int round = 2; round < 10; round++) {
        uint32x4_t k0 = vdupq_n_u32(d->key[2 * round]), k1 = vdupq_n_u32(d->key[2 * round + 1]);
#pragma GCC unroll 8
        for (int g = 0; g < DROPOUT_GROUPS; g++) {
            uint32x4_t high0, high1;
            uint32x4_t low0 = multiply_wide(word[g][0], m0, &high0), low1 = multiply_wide(word[g][2], m1, &high1);
            word[g][0] = veorq_u32(high1, veorq_u32(word[g][1], k0));
            word[g][2] = veorq_u32(high0, veorq_u32(word[g][3], k1));
            word[g][1] = low1;
            word[g][3] = low0;
        }
    }
#pragma GCC unroll 8
    for (int g = 0; g < DROPOUT_GROUPS; g++)
#pragma GCC unroll 8
        for (int j = 0; j < 4; j++) word[g][j] = vcgeq_u32(word[g][j], below);
}

/* Counters of four queries at one group of four keys. */
static inline uint32x4_t counters_of(const dropout *d, int64_t head, int64_t query, int64_t key)
{
    static const uint32_t ramp[4] = {0, 1, 2, 3};
    uint64_t first = d->problem->offset + ls_attention_element(d->problem, head, query, key) / 4;
    return vmlaq_n_u32(vdupq_n_u32((uint32_t)first), vld1q_u32(ramp), (uint32_t)(d->problem->keys / 4));
}

#endif
