/* attention_dropout.h - which weights dropout keeps, a tile of scores at a time: the first two rounds of Philox.
 *
 * A Philox block serves four adjacent keys of one query. A group is the blocks of four queries at the same four keys.
 * The counters of one problem mostly differ only in their lowest word, which makes the first two rounds cheap. If the
 * number of keys drawn for is not a multiple of four, or counters pass 2^32 within the problem, elements are drawn one
 * by one. */
#ifndef LOCKSTEP_KERNELS_NEON_ATTENTION_DROPOUT_H
#define LOCKSTEP_KERNELS_NEON_ATTENTION_DROPOUT_H

#include "kernels/attention.h"

#include <arm_neon.h>

#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u

typedef struct dropout {
    const ls_attention_task *problem;
    uint32_t below; /* 0: no dropout */
    bool by_groups;
    uint32_t step;        /* between counters of successive queries */
    uint32_t key[20];     /* two for each round */
    uint32_t low2, high2; /* product of word 0 in round 2, and the key for word 2: the same for all blocks */
} dropout;

static dropout start_dropout(const ls_attention_task *p)
{
    dropout d = {.problem = p, .below = p->drop_below, .step = (uint32_t)(p->drawn_row / 4)};
    if (!p->drop_below) return d;
    uint32_t k0 = (uint32_t)p->seed, k1 = (uint32_t)(p->seed >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        d.key[2 * round] = k0;
        d.key[2 * round + 1] = k1;
    }
    /* Tiles may reach beyond the last query and key. */
    uint64_t elements = (uint64_t)(p->group * p->drawn_head + 12 * p->drawn_row + 12);
    uint64_t begin = p->offset + p->first / 4, end = p->offset + (p->first + elements) / 4;
    bool aligned = p->drawn_row % 4 == 0 && p->drawn_head % 4 == 0 && p->first % 4 == 0;
    d.by_groups = aligned && begin >> 32 == end >> 32;
    uint64_t product = (uint64_t)PHILOX_M0 * ((uint32_t)(begin >> 32) ^ d.key[0]);
    d.low2 = (uint32_t)product;
    d.high2 = (uint32_t)(product >> 32) ^ d.key[3];
    return d;
}

/* The counter of a query at a group of keys. */
static inline uint32_t counter_of(const dropout *d, int64_t head, int64_t query, int64_t key)
{
    return (uint32_t)(d->problem->offset + ls_attention_element(d->problem, head, query, key) / 4);
}

static inline uint32x4_t multiply_wide(uint32x4_t a, uint32_t b, uint32x4_t *high)
{
    uint32x4_t lower = vreinterpretq_u32_u64(vmull_n_u32(vget_low_u32(a), b));
    uint32x4_t upper = vreinterpretq_u32_u64(vmull_high_n_u32(a, b));
    *high = vuzp2q_u32(lower, upper);
    return vuzp1q_u32(lower, upper);
}

/* Inputs of rounds 1 and 2 that the whole problem shares, in all lanes. */
typedef struct dropout_start {
    uint32x4_t key1, key2, high2;
} dropout_start;

static inline dropout_start rounds_start(const dropout *d)
{
    return (dropout_start){vdupq_n_u32(d->key[1]), vdupq_n_u32(d->key[2]), vdupq_n_u32(d->high2)};
}

/* Rounds 1 and 2 of the blocks of a group: word[j] is word j of all of them; word 3 is low2. */
static inline void begin_group(dropout_start start, uint32x4_t counters, uint32x4_t word[3])
{
    uint32x4_t high, low = multiply_wide(counters, PHILOX_M0, &high);
    word[1] = multiply_wide(veorq_u32(high, start.key1), PHILOX_M1, &high);
    word[0] = veorq_u32(high, start.key2);
    word[2] = veorq_u32(low, start.high2);
}

#endif
