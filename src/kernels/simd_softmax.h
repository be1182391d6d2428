/* simd_softmax.h - the exponential of softmax and cross entropy: as cheap as its accuracy allows. */
#ifndef LOCKSTEP_KERNELS_SIMD_SOFTMAX_H
#define LOCKSTEP_KERNELS_SIMD_SOFTMAX_H

#include "kernels/simd_rows.h"

/* exp(x) for x < 88, to (2 + |x|) units in the last place of f32, of `count` vectors in place. Below the normal numbers
 * (x < -87.3) it fades to exactly 0 at -88.03; -infinity gives 0. NaN gives NaN, unless its payload is unusual.
 * Several are computed side by side to hide the latency of each one's dependent steps. */
LS_SIMD void ls_vf_exp_fast4(ls_vf *x, int count)
{
    const float magic = 0x1.8p23f; /* adding it rounds to an integer, left in the low bits */
    ls_vf t[4], shifted[4], f[4], ff[4], p[4], q[4], r[4];
#define STEP(statement) LS_UNROLL for (int k = 0; k < count; k++) statement
    STEP(t[k] = ls_vf_max(ls_vf_set(-127.0f), x[k] * 1.44269504f)); /* 2^t */
    STEP(shifted[k] = t[k] + magic);
    STEP(f[k] = t[k] - (shifted[k] - magic));
    STEP(ff[k] = f[k] * f[k]);
    STEP(p[k] = ls_vf_fma(ls_vf_set(0.00132647273f), f[k], ls_vf_set(0.00967151299f)));
    STEP(q[k] = ls_vf_fma(ls_vf_set(0.0555073358f), f[k], ls_vf_set(0.240222424f)));
    STEP(r[k] = ls_vf_fma(ls_vf_set(0.693147004f), f[k], ls_vf_set(1.0f)));
    STEP(p[k] = ls_vf_fma(p[k], ff[k], q[k]));
    STEP(p[k] = ls_vf_fma(p[k], ff[k], r[k]));
    STEP(x[k] = (ls_vf)((ls_vu)p[k] + ((ls_vu)shifted[k] << 23))); /* at t = -127, f is 0 and p is 1: the result is 0 */
#undef STEP
}

/* The same of one vector. */
LS_SIMD ls_vf ls_vf_exp_fast(ls_vf x)
{
    ls_vf_exp_fast4(&x, 1);
    return x;
}

#endif
