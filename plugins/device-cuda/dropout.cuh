/* dropout.cuh - which elements dropout drops: those of the operator `dropout` on the CPU, by its random numbers. */
#ifndef LOCKSTEP_CUDA_DROPOUT_CUH
#define LOCKSTEP_CUDA_DROPOUT_CUH

#include "philox.cuh"

typedef struct dropping {
    philox_keys keys;
    uint64_t offset;
    uint32_t below; /* elements whose word is below are dropped; 0: no dropout */
    double scale;   /* of the others */
} dropping;

static inline dropping dropping_of(double p, uint64_t seed, uint64_t offset)
{
    dropping d = {philox_keys_of(seed), offset, 0, 1};
    if (p <= 0) return d;
    uint32_t below = philox_threshold(p); /* of 24 bits */
    bool keeps = below >> 24 == 0;
    d.below = keeps ? below << 8 : UINT32_MAX;
    d.scale = keeps ? 1 / (1 - p) : 0;
    return d;
}

static __device__ __forceinline__ bool drops(const dropping &d, uint64_t element)
{
    uint4 words = philox(d.keys, d.offset + element / 4);
    int lane = (int)(element % 4);
    return (lane == 0 ? words.x : lane == 1 ? words.y : lane == 2 ? words.z : words.w) < d.below;
}

/* Of four elements from a multiple of four on: bit i is set when element i is dropped. */
static __device__ __forceinline__ uint32_t drops_of_four(const dropping &d, uint64_t element)
{
    uint4 words = philox(d.keys, d.offset + element / 4);
    return (uint32_t)(words.x < d.below) | (uint32_t)(words.y < d.below) << 1 | (uint32_t)(words.z < d.below) << 2 |
           (uint32_t)(words.w < d.below) << 3;
}

#endif
