/* simd_philox.h - Philox 4x32-10 on vectors: the bits of ls_philox() in base/rng.h, several blocks at once. */
#ifndef LOCKSTEP_KERNELS_SIMD_PHILOX_H
#define LOCKSTEP_KERNELS_SIMD_PHILOX_H

#include "base/rng.h"
#include "kernels/simd.h"

/* Random words in element order: the four of the block at `counter`, then of the next, ... They are generated for four
 * vectors of counters at a time, which hides the latency of ten dependent rounds. */
#ifdef LS_SIMD_PHILOX_COUNTERS /* the ISA has a faster version, for this many counters at a time */
#define LS_PHILOX_VECTORS (4 * 4 * LS_SIMD_PHILOX_COUNTERS / LS_VF_LANES)
#else
#define LS_PHILOX_VECTORS 16
#endif
typedef struct ls_vphilox {
    ls_vu word[LS_PHILOX_VECTORS];
} ls_vphilox;

#ifdef LS_SIMD_PHILOX_COUNTERS

/* A round of all counters; keys are those of the next one then. */
LS_SIMD void ls_philox_round_all(__m512i c[4][4], uint32_t key[2])
{
    LS_UNROLL for (int i = 0; i < 4; i++) ls_philox_round(c[i], key[0], key[1]);
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
}

LS_SIMD ls_vphilox ls_vu_philox(uint64_t seed, uint64_t counter)
{
    enum { STEP = LS_SIMD_PHILOX_COUNTERS, VECTORS = LS_PHILOX_VECTORS / 4 };
    ls_vphilox drawn;
    __m512i c[4][4];
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    if (__builtin_expect((uint32_t)counter <= UINT32_MAX - 4 * STEP, 1)) {
        ls_philox_begin_2(c, counter, key);
    } else {
        LS_UNROLL for (int i = 0; i < 4; i++) ls_philox_begin(c[i], counter + (uint64_t)i * STEP);
        ls_philox_round_all(c, key);
        ls_philox_round_all(c, key);
    }
    for (int round = 2; round < 10; round += 2) {
        ls_philox_round_all(c, key);
        ls_philox_round_all(c, key);
    }
    LS_UNROLL for (int i = 0; i < 4; i++) ls_philox_end(c[i], drawn.word + i * VECTORS);
    return drawn;
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

LS_SIMD ls_vphilox ls_vu_philox(uint64_t seed, uint64_t counter)
{
    ls_vu a[4], b[4], c[4], d[4];
    ls_vu_philox_begin(a, counter);
    ls_vu_philox_begin(b, counter + LS_VF_LANES);
    ls_vu_philox_begin(c, counter + 2 * LS_VF_LANES);
    ls_vu_philox_begin(d, counter + 3 * LS_VF_LANES);
    ls_vu k0 = ls_vu_set((uint32_t)seed), k1 = ls_vu_set((uint32_t)(seed >> 32));
    for (int round = 0; round < 10; round++) {
        ls_vu_philox_round(a, k0, k1);
        ls_vu_philox_round(b, k0, k1);
        ls_vu_philox_round(c, k0, k1);
        ls_vu_philox_round(d, k0, k1);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    ls_vu_interleave4(a);
    ls_vu_interleave4(b);
    ls_vu_interleave4(c);
    ls_vu_interleave4(d);
    return (ls_vphilox){
        {a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3], c[0], c[1], c[2], c[3], d[0], d[1], d[2], d[3]}};
}

#endif

/* [0, 1) with 24 bits, as ls_uniform_from_bits. */
LS_SIMD ls_vf ls_vu_uniform(ls_vu bits)
{
    return ls_vi_to_vf((ls_vi)(bits >> 8)) * 0x1p-24f;
}

#endif
