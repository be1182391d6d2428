/* simd_philox.h - Philox 4x32-10 on vectors: the bits of ls_philox() in base/rng.h, several blocks at once. */
#ifndef LOCKSTEP_KERNELS_SIMD_PHILOX_H
#define LOCKSTEP_KERNELS_SIMD_PHILOX_H

#include "base/rng.h"
#include "kernels/simd.h"

/* 4 * LS_VF_LANES random words, in element order: the lanes of the block at `counter`, then of the next, ... */
typedef struct ls_vphilox {
    ls_vu word[4];
} ls_vphilox;

LS_SIMD ls_vphilox ls_vu_philox(uint64_t seed, uint64_t counter)
{
    ls_vu step = {0}, c0, c1, c2 = {0}, c3 = {0};
    for (int i = 0; i < LS_VF_LANES; i++) step[i] = (uint32_t)i;
    c0 = (uint32_t)counter + step;
    c1 = (uint32_t)(counter >> 32) - (ls_vu)(c0 < step); /* a carry where the low word wrapped: minus all-ones */
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        ls_vu high0, high1;
        ls_vu low0 = ls_vu_mul_wide(c0, ls_vu_set(0xD2511F53u), &high0);
        ls_vu low1 = ls_vu_mul_wide(c2, ls_vu_set(0xCD9E8D57u), &high1);
        c0 = high1 ^ c1 ^ k0;
        c2 = high0 ^ c3 ^ k1;
        c1 = low1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    ls_vphilox blocks = {{c0, c1, c2, c3}};
    ls_vu_interleave4(blocks.word);
    return blocks;
}

/* [0, 1) with 24 bits, as ls_uniform_from_bits. */
LS_SIMD ls_vf ls_vu_uniform(ls_vu bits)
{
    return ls_vi_to_vf((ls_vi)(bits >> 8)) * 0x1p-24f;
}

#endif
