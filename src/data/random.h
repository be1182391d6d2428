/* random.h - random numbers for data: each purpose has its own key, so that none affects another. */
#ifndef LOCKSTEP_DATA_RANDOM_H
#define LOCKSTEP_DATA_RANDOM_H

#include "base/rng.h"

typedef enum ls_random_purpose {
    LS_RANDOM_ORDER = 1, /* order of an epoch */
    LS_RANDOM_SPLIT,
    LS_RANDOM_SAMPLE,    /* drawn by a dataset for a sample */
    LS_RANDOM_TRANSFORM, /* drawn by an image transform for a sample */
} ls_random_purpose;

static inline uint64_t ls_mix64(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static inline uint64_t ls_random_key(uint64_t seed, uint64_t epoch, ls_random_purpose purpose)
{
    return ls_mix64(ls_mix64(ls_mix64(seed) + epoch) + (uint64_t)purpose);
}

/* Number i of a key: 64 random bits. */
static inline uint64_t ls_random_bits(uint64_t key, uint64_t i)
{
    ls_philox4 block = ls_philox(key, i >> 1);
    const uint32_t *half = block.lane + 2 * (i & 1);
    return (uint64_t)half[1] << 32 | half[0];
}

/* Map bits to 0 .. n-1: the upper word of bits * n. The bias is below n / 2^64. */
static inline uint64_t ls_random_below(uint64_t bits, uint64_t n)
{
    uint64_t low = (bits & 0xffffffffu) * (n & 0xffffffffu);
    uint64_t cross = (bits >> 32) * (n & 0xffffffffu) + (low >> 32);
    uint64_t other = (bits & 0xffffffffu) * (n >> 32) + (cross & 0xffffffffu);
    return (bits >> 32) * (n >> 32) + (cross >> 32) + (other >> 32);
}

/* [0, 1) with 53 random bits. */
static inline double ls_random_unit(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

/* Shuffle a list. */
static inline void ls_random_shuffle(uint64_t key, int64_t n, int64_t *list)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)ls_random_below(ls_random_bits(key, (uint64_t)i), (uint64_t)i + 1);
        int64_t swap = list[i];
        list[i] = list[j];
        list[j] = swap;
    }
}

#endif
