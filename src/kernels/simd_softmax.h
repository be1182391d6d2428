/* simd_softmax.h - the exponential of softmax and cross entropy: as cheap as its accuracy allows. */
#ifndef LOCKSTEP_KERNELS_SIMD_SOFTMAX_H
#define LOCKSTEP_KERNELS_SIMD_SOFTMAX_H

#include "kernels/simd.h"

/* exp(x) for x < 88, to (2 + |x|) units in the last place of f32. Below the normal numbers (x < -87.3) it fades to exactly
 * 0 at -88.03; -infinity gives 0. NaN gives NaN, unless it is one with an unusual payload. */
LS_SIMD ls_vf ls_vf_exp_fast(ls_vf x)
{
    const float magic = 0x1.8p23f; /* adding it rounds to a whole number, which is left in the lowest bits */
    ls_vf t = ls_vf_max(ls_vf_set(-127.0f), x * 1.44269504f); /* 2^t */
    ls_vf shifted = t + magic, f = t - (shifted - magic);
    ls_vf p = ls_vf_fma(ls_vf_set(0.00132647273f), f, ls_vf_set(0.00967151299f));
    p = ls_vf_fma(p, f, ls_vf_set(0.0555073358f));
    p = ls_vf_fma(p, f, ls_vf_set(0.240222424f));
    p = ls_vf_fma(p, f, ls_vf_set(0.693147004f));
    p = ls_vf_fma(p, f, ls_vf_set(1.0f));
    return (ls_vf)((ls_vu)p + ((ls_vu)shifted << 23)); /* at t = -127, f is 0 and p is 1: nothing is left of them */
}

#endif
