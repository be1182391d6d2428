/* simd_philox.h - Philox 4x32-10 on vectors: the bits of ls_philox() in base/rng.h, several blocks at once. */
#ifndef LOCKSTEP_KERNELS_SIMD_PHILOX_H
#define LOCKSTEP_KERNELS_SIMD_PHILOX_H

#include "base/rng.h"
#include "kernels/simd.h"

#include <string.h>

/* Random words in element order: the four of the block at `counter`, then of the next, ... They are generated for four
 * vectors of counters at a time, which hides the latency of ten dependent rounds. */
#ifdef LS_SIMD_PHILOX_COUNTERS /* the ISA has a faster version, for this many counters at a time */
#define LS_PHILOX_VECTORS (4 * 4 * LS_SIMD_PHILOX_COUNTERS / LS_VF_LANES)
#else
#define LS_PHILOX_VECTORS 16
#endif
enum { LS_PHILOX_WORDS = LS_PHILOX_VECTORS * LS_VF_LANES };
typedef struct ls_vphilox {
    ls_vu word[LS_PHILOX_VECTORS];
} ls_vphilox;

/* The keys of all rounds. */
typedef struct ls_philox_keys {
    uint32_t round[10][2];
} ls_philox_keys;

static inline ls_philox_keys ls_philox_keys_of(uint64_t seed)
{
    ls_philox_keys keys = {{{(uint32_t)seed, (uint32_t)(seed >> 32)}}};
    for (int i = 1; i < 10; i++) {
        keys.round[i][0] = keys.round[i - 1][0] + 0x9E3779B9u;
        keys.round[i][1] = keys.round[i - 1][1] + 0xBB67AE85u;
    }
    return keys;
}

/* The bits of a vector of elements starting at element i; vectors of four share a byte, and must be put in order. */
static inline void ls_bits_put(uint8_t *bits, int64_t i, uint32_t of_vector)
{
    if (LS_VF_LANES >= 8) memcpy(bits + i / 8, &of_vector, LS_VF_LANES / 8);
    else bits[i / 8] = (uint8_t)(i % 8 ? bits[i / 8] | of_vector << i % 8 : of_vector);
}

static inline uint32_t ls_bits_get(const uint8_t *bits, int64_t i)
{
    uint32_t of_vector = 0;
    if (LS_VF_LANES >= 8) memcpy(&of_vector, bits + i / 8, LS_VF_LANES / 8);
    else of_vector = (uint32_t)bits[i / 8] >> i % 8 & ((1u << LS_VF_LANES % 8) - 1);
    return of_vector;
}

#ifdef LS_SIMD_PHILOX_COUNTERS

/* All rounds of four times as many counters. */
LS_SIMD void ls_philox_pairs(const ls_philox_keys *keys, uint64_t counter, __m512i ramp, __m512i pair[4][2])
{
    enum { STEP = LS_SIMD_PHILOX_COUNTERS };
    __m512i c[4][4];
    if (__builtin_expect((uint32_t)counter <= UINT32_MAX - 4 * STEP, 1)) {
        ls_philox_begin_2(c, counter, ramp, keys->round);
    } else {
        LS_UNROLL for (int i = 0; i < 4; i++) ls_philox_begin(c[i], counter + (uint64_t)i * STEP, ramp);
        for (int round = 0; round < 2; round++)
            LS_UNROLL for (int i = 0; i < 4; i++) ls_philox_round(c[i], keys->round[round]);
    }
    for (int round = 2; round < 9; round++)
        LS_UNROLL for (int i = 0; i < 4; i++) ls_philox_round(c[i], keys->round[round]);
    LS_UNROLL for (int i = 0; i < 4; i++) ls_philox_end(c[i], keys->round[9], pair[i]);
}

LS_SIMD ls_vphilox ls_vu_philox(const ls_philox_keys *keys, uint64_t counter)
{
    ls_vphilox drawn;
    __m512i pair[4][2];
    ls_philox_pairs(keys, counter, ls_philox_ramp_of_words(), pair);
    LS_UNROLL for (int i = 0; i < 4; i++) ls_philox_words(pair[i], drawn.word + i * LS_PHILOX_VECTORS / 4);
    return drawn;
}

/* A bit for each of these words, set where it is at least `least`. */
LS_SIMD void ls_philox_bits(const ls_philox_keys *keys, uint64_t counter, uint32_t least, uint8_t *bits)
{
    __m512i pair[4][2];
    ls_philox_pairs(keys, counter, ls_philox_ramp_of_bits(), pair);
    LS_UNROLL for (int i = 0; i < 4; i++)
    {
        uint32_t of_pair = ls_philox_least_bits(pair[i], least);
        memcpy(bits + 4 * i, &of_pair, sizeof of_pair);
    }
}

#else

/* The four words of each counter from `counter` on. */
LS_SIMD void ls_vu_philox_begin(ls_vu c[4], uint64_t counter)
{
    ls_vu step = {0};
    for (int i = 0; i < LS_VF_LANES; i++) step[i] = (uint32_t)i;
    c[0] = (uint32_t)counter + step;
    c[1] = (uint32_t)(counter >> 32) - (ls_vu)(c[0] < step); /* a carry where the low word wrapped: minus all-ones */
    c[2] = c[3] = (ls_vu){0};
}

LS_SIMD void ls_vu_philox_round(ls_vu c[4], ls_vu k0, ls_vu k1)
{
    ls_vu high0, high1;
    ls_vu low0 = ls_vu_mul_wide(c[0], ls_vu_set(0xD2511F53u), &high0);
    ls_vu low1 = ls_vu_mul_wide(c[2], ls_vu_set(0xCD9E8D57u), &high1);
    c[0] = high1 ^ (c[1] ^ k0); /* the inner xor need not wait for the product */
    c[2] = high0 ^ (c[3] ^ k1);
    c[1] = low1;
    c[3] = low0;
}

LS_SIMD ls_vphilox ls_vu_philox(const ls_philox_keys *keys, uint64_t counter)
{
    ls_vu a[4], b[4], c[4], d[4];
    ls_vu_philox_begin(a, counter);
    ls_vu_philox_begin(b, counter + LS_VF_LANES);
    ls_vu_philox_begin(c, counter + 2 * LS_VF_LANES);
    ls_vu_philox_begin(d, counter + 3 * LS_VF_LANES);
    for (int round = 0; round < 10; round++) {
        ls_vu k0 = ls_vu_set(keys->round[round][0]), k1 = ls_vu_set(keys->round[round][1]);
        ls_vu_philox_round(a, k0, k1);
        ls_vu_philox_round(b, k0, k1);
        ls_vu_philox_round(c, k0, k1);
        ls_vu_philox_round(d, k0, k1);
    }
    ls_vu_interleave4(a);
    ls_vu_interleave4(b);
    ls_vu_interleave4(c);
    ls_vu_interleave4(d);
    return (ls_vphilox){
        {a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3], c[0], c[1], c[2], c[3], d[0], d[1], d[2], d[3]}};
}

/* A bit for each of these words, set where it is at least `least`. */
LS_SIMD void ls_philox_bits(const ls_philox_keys *keys, uint64_t counter, uint32_t least, uint8_t *bits)
{
    ls_vphilox drawn = ls_vu_philox(keys, counter);
    for (int i = 0; i < LS_PHILOX_WORDS; i += LS_VF_LANES)
        ls_bits_put(bits, i, ls_vu_least_bits(drawn.word[i / LS_VF_LANES], least));
}

#endif

/* [0, 1) with 24 bits, as ls_uniform_from_bits. */
LS_SIMD ls_vf ls_vu_uniform(ls_vu bits)
{
    return ls_vi_to_vf((ls_vi)(bits >> 8)) * 0x1p-24f;
}

#endif
