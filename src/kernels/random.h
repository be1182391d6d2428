/* random.h - random numbers with a distribution, from the words of base/rng.h.
 *
 * One portable form, built from additions, multiplications, divisions and square roots in f32, which every CPU rounds
 * identically: a seed gives the same numbers on every machine. */
#ifndef LOCKSTEP_KERNELS_RANDOM_H
#define LOCKSTEP_KERNELS_RANDOM_H

#include <stdint.h>

/* n random words to standard normal numbers, in pairs: words 2 i and 2 i + 1 make numbers 2 i and 2 i + 1. n is a
 * multiple of 8. */
void ls_random_normal(int64_t n, float *out, const uint32_t *word);

#endif
