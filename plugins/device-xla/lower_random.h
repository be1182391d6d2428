/* lower_random.h - random numbers within a program, for operators that draw. */
#ifndef LOCKSTEP_XLA_LOWER_RANDOM_H
#define LOCKSTEP_XLA_LOWER_RANDOM_H

#include "lower.h"

/* Where the random numbers of a call begin. */
typedef struct xla_drawing {
    shlo *s;
    shlo_value seed, counter; /* ui64 */
    shlo_value zero;          /* ui32: 0, which the compiler does not know */
    bool by_element;          /* each element computes the block that it is of, and keeps nothing else */
} xla_drawing;

/* `seed` and `offset` of the call's attributes, to which its live values are added. */
xla_drawing xla_draw(xla_lowering *l, uint64_t seed, uint64_t offset);
/* The words of n elements: ui32 [n]. */
shlo_value xla_words(const xla_drawing *d, int64_t n);
/* i1: the elements of a tensor that dropout with probability p keeps. */
shlo_value xla_is_kept(const xla_drawing *d, shlo_dims dims, double p);
/* x / (1 - p) where kept, else 0. */
shlo_value xla_dropped(shlo *s, shlo_value x, shlo_value kept, double p);

#endif
