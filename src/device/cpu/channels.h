/* channels.h - vectors of one number per channel: their elements, and the moments that batch norms go by. */
#ifndef LOCKSTEP_DEVICE_CPU_CHANNELS_H
#define LOCKSTEP_DEVICE_CPU_CHANNELS_H

#include "kernels/element.h"

#include <lockstep/plugin.h>

/* Element i of a vector of any type, or `absent` without a vector. */
static inline double ls_channel_get(const ls_operand *vector, int64_t i, double absent)
{
    return vector ? ls_get(vector->dtype, vector->data, i * vector->stride[0]) : absent;
}

static inline void ls_channel_set(const ls_operand *vector, int64_t i, double value)
{
    if (vector) ls_put(vector->dtype, vector->data, i * vector->stride[0], value);
}

/* Merge the means, and sums of squared deviations from them, of `seen` elements of each channel with those of n more,
 * by Chan's rule. */
void ls_moments_merge(double *restrict mean, double *restrict m2, int64_t seen, const double *restrict more_mean,
                      const double *restrict more_m2, int64_t n, int64_t channels);

/* batch_norm.c: mean and (biased) variance [C] of each channel of x [N,C,...]; 0 of no elements. */
ls_status ls_batch_moments(const ls_operand *x, const ls_operand *mean, const ls_operand *var, ls_message *why);

/* Running statistics [C]?, which move towards those of a batch by `momentum`. */
typedef struct ls_running {
    const ls_operand *mean, *var;
    double momentum;
} ls_running;

/* Move channel i, given the moments of `elements` elements; the variance becomes the unbiased one. */
void ls_running_move(const ls_running *running, int64_t i, double mean, double m2, int64_t elements);

#endif
