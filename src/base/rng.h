/* rng.h - counter-based random numbers: Philox 4x32-10.
 *
 * A random number is a pure function of (seed, counter), so results do not depend on ISA, thread count or device.
 * Element i of a random tensor drawn at `offset` uses lane i % 4 of the block at counter offset + i / 4. */
#ifndef LOCKSTEP_BASE_RNG_H
#define LOCKSTEP_BASE_RNG_H

#include <stdint.h>

typedef struct ls_philox4 {
    uint32_t lane[4];
} ls_philox4;

/* The block at a counter: key = seed (low, high word), counter words = (counter low, counter high, 0, 0). */
static inline ls_philox4 ls_philox(uint64_t seed, uint64_t counter)
{
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = 0, c3 = 0;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (ls_philox4){{c0, c1, c2, c3}};
}

/* [0, 1) with 24 random bits: every value is exact in f32. */
static inline float ls_uniform_from_bits(uint32_t bits)
{
    return (float)(bits >> 8) * 0x1p-24f;
}

#endif
