/* philox.cuh - the library's random numbers, Philox 4x32-10: equal to the CPU's bit for bit (src/base/rng.h). */
#ifndef LOCKSTEP_CUDA_PHILOX_CUH
#define LOCKSTEP_CUDA_PHILOX_CUH

#include <stdint.h>

/* The block at a counter: element i of a tensor drawn at `offset` uses lane i % 4 of the block at offset + i / 4. */
static __device__ __forceinline__ uint4 philox(uint64_t seed, uint64_t counter)
{
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = 0, c3 = 0;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint32_t n0 = __umulhi(0xCD9E8D57u, c2) ^ c1 ^ k0, n2 = __umulhi(0xD2511F53u, c0) ^ c3 ^ k1;
        c1 = 0xCD9E8D57u * c2;
        c3 = 0xD2511F53u * c0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
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
