/* simd_softmax.h - the exponential of softmax and cross entropy: as cheap as its accuracy allows. */
#ifndef LOCKSTEP_KERNELS_SIMD_SOFTMAX_H
#define LOCKSTEP_KERNELS_SIMD_SOFTMAX_H

#include "kernels/simd_rows.h"

/* 2^t for t < 127, to (2 + |t|) units in the last place of f32, of `count` vectors in place. Below the normal numbers
 * (t < -126) it is 0, or fades to exactly 0 at -127; -infinity gives 0. NaN gives NaN, unless its payload is unusual.
 * Several are computed side by side to hide the latency of each one's dependent steps. */
#if defined(__AVX512F__)
#include "kernels/avx512/simd_exp2.h"
#else
LS_SIMD void ls_vf_exp2_fast4(ls_vf *t, int count)
{
    const float magic = 0x1.8p23f; /* adding it rounds to an integer, left in the low bits */
    ls_vf shifted[4], f[4], ff[4], p[4], q[4], r[4];
#define STEP(statement) LS_UNROLL for (int k = 0; k < count; k++) statement
    STEP(t[k] = ls_vf_max(ls_vf_set(-127.0f), t[k]));
    STEP(shifted[k] = t[k] + magic);
    STEP(f[k] = t[k] - (shifted[k] - magic));
    STEP(ff[k] = f[k] * f[k]);
    STEP(p[k] = ls_vf_fma(ls_vf_set(0.00132647273f), f[k], ls_vf_set(0.00967151299f)));
    STEP(q[k] = ls_vf_fma(ls_vf_set(0.0555073358f), f[k], ls_vf_set(0.240222424f)));
    STEP(r[k] = ls_vf_fma(ls_vf_set(0.693147004f), f[k], ls_vf_set(1.0f)));
    STEP(p[k] = ls_vf_fma(p[k], ff[k], q[k]));
    STEP(p[k] = ls_vf_fma(p[k], ff[k], r[k]));
    STEP(t[k] = (ls_vf)((ls_vu)p[k] + ((ls_vu)shifted[k] << 23))); /* at t = -127, f is 0 and p is 1: the result is 0 */
#undef STEP
}

/* For results that are rounded to bf16. */
LS_SIMD void ls_vf_exp2_half4(ls_vf *t, int count)
{
    ls_vf_exp2_fast4(t, count);
}
#endif

#define LS_LOG2_E 1.44269504f

/* exp(x) for x < 88, with the same properties: it fades to 0 between -87.3 and -88.03. */
LS_SIMD void ls_vf_exp_fast4(ls_vf *x, int count)
{
    LS_UNROLL for (int k = 0; k < count; k++) x[k] *= LS_LOG2_E;
    ls_vf_exp2_fast4(x, count);
}

#endif
