/* simd_exp2.h - powers of two with AVX-512, which splits a number at its integer part, and scales by a power of two, in
 * an instruction each. Included by kernels/simd_softmax.h only. */
#ifndef LOCKSTEP_KERNELS_AVX512_SIMD_EXP2_H
#define LOCKSTEP_KERNELS_AVX512_SIMD_EXP2_H

#include "kernels/simd.h"

/* x - floor(x); 0 for infinities. */
LS_SIMD ls_vf ls_vf_fraction(ls_vf x)
{
    return (ls_vf)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

/* x 2^floor(t) for x in [1, 2), but 0 where t < -126: results that are not normal numbers would take hundreds of
 * cycles. */
LS_SIMD ls_vf ls_vf_exp2_scale(ls_vf x, ls_vf t)
{
    __mmask16 normal = _mm512_cmp_ps_mask((__m512)t, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ); /* or NaN */
    return (ls_vf)_mm512_maskz_scalef_ps(normal, (__m512)x, (__m512)t);
}

/* In eight instructions rather than twelve. */
LS_SIMD void ls_vf_exp2_fast4(ls_vf *t, int count)
{
    ls_vf f[4], p[4];
#define STEP(statement) LS_UNROLL for (int k = 0; k < count; k++) statement
    STEP(f[k] = ls_vf_fraction(t[k]));
    STEP(p[k] = ls_vf_fma(ls_vf_set(0.0018671302f), f[k], ls_vf_set(0.00901703f)));
    STEP(p[k] = ls_vf_fma(p[k], f[k], ls_vf_set(0.055799913f)));
    STEP(p[k] = ls_vf_fma(p[k], f[k], ls_vf_set(0.24016444f)));
    STEP(p[k] = ls_vf_fma(p[k], f[k], ls_vf_set(0.6931513f)));
    STEP(p[k] = ls_vf_fma(p[k], f[k], ls_vf_set(1.0f)));
    STEP(t[k] = ls_vf_exp2_scale(p[k], t[k]));
#undef STEP
}

/* The same to 8e-5, for results that are rounded to bf16, which loses up to 4e-3: in six. */
LS_SIMD void ls_vf_exp2_half4(ls_vf *t, int count)
{
    ls_vf f[4], p[4];
#define STEP(statement) LS_UNROLL for (int k = 0; k < count; k++) statement
    STEP(f[k] = ls_vf_fraction(t[k]));
    STEP(p[k] = ls_vf_fma(ls_vf_set(0.0780245215f), f[k], ls_vf_set(0.226067156f)));
    STEP(p[k] = ls_vf_fma(p[k], f[k], ls_vf_set(0.695833564f)));
    STEP(p[k] = ls_vf_fma(p[k], f[k], ls_vf_set(0.999925196f)));
    STEP(t[k] = ls_vf_exp2_scale(p[k], t[k]));
#undef STEP
}

#endif
