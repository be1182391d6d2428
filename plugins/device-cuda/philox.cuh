/* philox.cuh - the library's random numbers, Philox 4x32-10: equal to the CPU's bit for bit (src/base/rng.h). */
#ifndef LOCKSTEP_CUDA_PHILOX_CUH
#define LOCKSTEP_CUDA_PHILOX_CUH

#include <stdint.h>

/* The keys of the ten rounds. The host adds them up, once in a call: kernels read them as constants. */
typedef struct philox_keys {
    uint32_t low[10], high[10];
} philox_keys;

static inline philox_keys philox_keys_of(uint64_t seed)
{
    philox_keys keys;
    for (uint32_t round = 0; round < 10; round++) {
        keys.low[round] = (uint32_t)seed + round * 0x9E3779B9u;
        keys.high[round] = (uint32_t)(seed >> 32) + round * 0xBB67AE85u;
    }
    return keys;
}

/* The block at a counter: element i of a tensor drawn at `offset` uses lane i % 4 of the block at offset + i / 4.
 * part: the upper half of the counter. Seven rounds, the fewest that the authors of Philox found to pass all tests of
 * BigCrush, give other numbers than the CPU's ten. */
template <int ROUNDS = 10>
static __device__ __forceinline__ uint4 philox(const philox_keys &keys, uint64_t counter, uint64_t part = 0)
{
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = (uint32_t)part, c3 = (uint32_t)(part >> 32);
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        /* Wide products: one instruction where the halves would be two, of which the upper is slow. */
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ keys.low[round], c2 = (uint32_t)(p0 >> 32) ^ c3 ^ keys.high[round];
        c1 = (uint32_t)p1, c3 = (uint32_t)p0;
    }
    return make_uint4(c0, c1, c2, c3);
}

/* Threshold t such that u = word >> 8, which has 24 bits, satisfies u / 2^24 >= p exactly if u >= t. */
static inline uint32_t philox_threshold(double p)
{
    double scaled = p * 16777216.0;
    uint32_t whole = (uint32_t)scaled;
    return whole + (scaled > whole);
}

#endif
