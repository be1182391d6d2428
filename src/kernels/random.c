/* random.c - normally distributed numbers by the Box-Muller method, four pairs at a time on vectors that every compiler
 * can map to its baseline. No fused multiply-add: results must not depend on whether the CPU has one. */
#include "kernels/random.h"

#include <string.h>

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef uint32_t vu __attribute__((vector_size(16)));

static inline vf select(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

/* Natural logarithm of normal numbers in (0, 1]. */
static inline vf log_of(vf x)
{
    /* x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)) */
    vi bits = (vi)x - 0x3f3504f3;
    vf n = __builtin_convertvector(bits >> 23, vf);
    vf f = (vf)((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
    vf p = f * -0.0785984471f + 0.128817633f;
    p = p * f - 0.131287113f;
    p = p * f + 0.141811714f;
    p = p * f - 0.166245565f;
    p = p * f + 0.200022876f;
    p = p * f - 0.250008106f;
    p = p * f + 0.333333164f;
    vf square = f * f;
    return n * 0x1.62e4p-1f + (f + (square * (f * p - 0.5f) + n * 0x1.7f7d1cp-20f));
}

/* sin and cos of turn * 2 pi for turn in [0, 1): of the angle to the nearest quarter turn, then swapped and signed. */
static inline void sine_cosine(vf turn, vf *sine, vf *cosine)
{
    vi quarter = __builtin_convertvector(turn * 4.0f + 0.5f, vi);
    vf r = (turn * 4.0f - __builtin_convertvector(quarter, vf)) * 1.57079637f; /* within [-pi/4, pi/4] */
    vf rr = r * r;
    vf s = ((rr * -0.000195175613f + 0.00833218079f) * rr - 0.166666552f) * rr * r + r;
    vf c = ((rr * 2.44394469e-05f - 0.00138873782f) * rr + 0.0416666456f) * (rr * rr) + (1.0f - 0.5f * rr);
    vi swapped = -(quarter & 1);
    vi sine_sign = (quarter & 2) << 30, cosine_sign = ((quarter + 1) & 2) << 30;
    *sine = (vf)((vi)select(swapped, c, s) ^ sine_sign);
    *cosine = (vf)((vi)select(swapped, s, c) ^ cosine_sign);
}

void ls_random_normal(int64_t n, float *out, const uint32_t *word)
{
    for (int64_t i = 0; i < n; i += 8) {
        vu low, high;
        memcpy(&low, word + i, sizeof low);
        memcpy(&high, word + i + 4, sizeof high);
        vu first = __builtin_shufflevector(low, high, 0, 2, 4, 6);
        vu second = __builtin_shufflevector(low, high, 1, 3, 5, 7);
        vf above_zero = __builtin_convertvector((vi)(first >> 8) + 1, vf) * 0x1p-24f; /* (0, 1]: so that the logarithm
                                                                                       * is finite */
        vf turn = __builtin_convertvector((vi)(second >> 8), vf) * 0x1p-24f;
        vf square = log_of(above_zero) * -2.0f, radius, sine, cosine;
        for (int lane = 0; lane < 4; lane++) radius[lane] = __builtin_sqrtf(square[lane]);
        sine_cosine(turn, &sine, &cosine);
        vf even = radius * cosine, odd = radius * sine;
        vf z[2] = {__builtin_shufflevector(even, odd, 0, 4, 1, 5), __builtin_shufflevector(even, odd, 2, 6, 3, 7)};
        memcpy(out + i, z, sizeof z);
    }
}
