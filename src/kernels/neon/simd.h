/* simd.h - NEON instructions behind the vocabulary of kernels/simd.h. Included by it only. */
#ifndef LOCKSTEP_KERNELS_NEON_SIMD_H
#define LOCKSTEP_KERNELS_NEON_SIMD_H

#include <arm_neon.h>

LS_SIMD ls_vf ls_vf_fma(ls_vf a, ls_vf b, ls_vf c)
{
    return (ls_vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}

LS_SIMD ls_vf ls_vf_max(ls_vf a, ls_vf b)
{
    return (ls_vf)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
}

LS_SIMD ls_vf ls_vf_min(ls_vf a, ls_vf b)
{
    return (ls_vf)vminq_f32((float32x4_t)a, (float32x4_t)b);
}

LS_SIMD ls_vf ls_vf_sqrt(ls_vf x)
{
    return (ls_vf)vsqrtq_f32((float32x4_t)x);
}

LS_SIMD ls_vf ls_vf_round(ls_vf x)
{
    return (ls_vf)vrndnq_f32((float32x4_t)x);
}

LS_SIMD ls_vf ls_vf_floor(ls_vf x)
{
    return (ls_vf)vrndmq_f32((float32x4_t)x);
}

LS_SIMD ls_vf ls_vf_ceil(ls_vf x)
{
    return (ls_vf)vrndpq_f32((float32x4_t)x);
}

LS_SIMD ls_vi ls_vf_to_vi(ls_vf x)
{
    return (ls_vi)vcvtnq_s32_f32((float32x4_t)x);
}

LS_SIMD ls_vf ls_vf_select(ls_vi mask, ls_vf a, ls_vf b)
{
    return (ls_vf)vbslq_f32((uint32x4_t)mask, (float32x4_t)a, (float32x4_t)b);
}

LS_SIMD float ls_vf_sum(ls_vf x)
{
    return vaddvq_f32((float32x4_t)x);
}

LS_SIMD float ls_vf_hmax(ls_vf x)
{
    return vmaxvq_f32((float32x4_t)x);
}

LS_SIMD ls_vf ls_vf_load_f16(const uint16_t *p)
{
    return (ls_vf)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

LS_SIMD void ls_vf_store_f16(uint16_t *p, ls_vf x)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x)));
}

LS_SIMD ls_vf ls_vf_load_bf16(const uint16_t *p)
{
    return (ls_vf)vshll_n_u16(vld1_u16(p), 16);
}

LS_SIMD void ls_vf_store_bf16(uint16_t *p, ls_vf x)
{
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    vst1_u16(p, vreinterpret_u16_bf16(vcvt_bf16_f32((float32x4_t)x)));
#else
    vst1_u16(p, vmovn_u32((uint32x4_t)ls_vf_bf16_bits(x)));
#endif
}

LS_SIMD ls_vi ls_vi_load_u8(const uint8_t *p)
{
    uint32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    uint16x8_t words = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(bytes)));
    return (ls_vi)vmovl_u16(vget_low_u16(words));
}

LS_SIMD uint32_t ls_vi_bits(ls_vi mask)
{
    const ls_vi lane = {1, 2, 4, 8};
    return vaddvq_u32((uint32x4_t)(mask & lane));
}

LS_SIMD ls_vi ls_vi_from_bits(uint32_t bits)
{
    const ls_vi lane = {1, 2, 4, 8};
    return (ls_vi)vtstq_u32(vdupq_n_u32(bits), (uint32x4_t)lane);
}

LS_SIMD void ls_vi_store_bool4(uint8_t *p, ls_vi a, ls_vi b, ls_vi c, ls_vi d)
{
    uint16x8_t low = vuzp1q_u16((uint16x8_t)a, (uint16x8_t)b), high = vuzp1q_u16((uint16x8_t)c, (uint16x8_t)d);
    vst1q_u8(p, vandq_u8(vuzp1q_u8((uint8x16_t)low, (uint8x16_t)high), vdupq_n_u8(1)));
}

/* Bit masks of four vectors, sixteen bits at once: each lane has its own bit. */
#define LS_SIMD_BITS4

#define LS_BITS_OF_VECTOR(v)                                                                                           \
    ((uint32x4_t){1u << 4 * (v), 2u << 4 * (v), 4u << 4 * (v), 8u << 4 * (v)}) /* of the sixteen */

LS_SIMD void ls_vi_load_bits4(const uint8_t *p, ls_vi mask[4])
{
    uint16_t sixteen;
    memcpy(&sixteen, p, sizeof sixteen);
    uint32x4_t bits = vdupq_n_u32(sixteen);
    mask[0] = (ls_vi)vtstq_u32(bits, LS_BITS_OF_VECTOR(0));
    mask[1] = (ls_vi)vtstq_u32(bits, LS_BITS_OF_VECTOR(1));
    mask[2] = (ls_vi)vtstq_u32(bits, LS_BITS_OF_VECTOR(2));
    mask[3] = (ls_vi)vtstq_u32(bits, LS_BITS_OF_VECTOR(3));
}

LS_SIMD void ls_vi_store_bits4(uint8_t *p, const ls_vi mask[4])
{
    uint32x4_t bits = (uint32x4_t)mask[0]; /* select in each vector the bit of its lane */
    bits = vsliq_n_u32(bits, (uint32x4_t)mask[1], 4);
    bits = vsliq_n_u32(bits, (uint32x4_t)mask[2], 8);
    bits = vsliq_n_u32(bits, (uint32x4_t)mask[3], 12);
    uint16_t sixteen = (uint16_t)vaddvq_u32(bits & (uint32x4_t){0x1111, 0x2222, 0x4444, 0x8888});
    memcpy(p, &sixteen, sizeof sixteen);
}

/* Two vectors with one load or store. */
#define LS_SIMD_BF16_PAIRS

LS_SIMD void ls_vf_load2_bf16(const uint16_t *p, ls_vf v[2])
{
    uint16x8_t both = vld1q_u16(p);
    v[0] = (ls_vf)vshll_n_u16(vget_low_u16(both), 16);
    v[1] = (ls_vf)vshll_high_n_u16(both, 16);
}

LS_SIMD void ls_vf_store2_bf16(uint16_t *p, const ls_vf v[2])
{
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    bfloat16x8_t low = vcvtq_low_bf16_f32((float32x4_t)v[0]);
    vst1q_u16(p, vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(low, (float32x4_t)v[1])));
#else
    uint16x4_t low = vmovn_u32((uint32x4_t)ls_vf_bf16_bits(v[0]));
    vst1q_u16(p, vmovn_high_u32(low, (uint32x4_t)ls_vf_bf16_bits(v[1])));
#endif
}

/* Most cores have four pipes for zips but two for shifts. */
LS_SIMD void ls_vf_split_bf16(ls_vu x, ls_vf v[2])
{
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    v[0] = (ls_vf)vzip1q_u16(vdupq_n_u16(0), (uint16x8_t)x);
    v[1] = (ls_vf)vzip2q_u16(vdupq_n_u16(0), (uint16x8_t)x);
#else
    ls_vf_split_even_odd(x, v);
#endif
}

LS_SIMD ls_vu ls_vf_join_bf16(const ls_vf v[2])
{
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    bfloat16x8_t low = vcvtq_low_bf16_f32((float32x4_t)v[0]);
    return (ls_vu)vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(low, (float32x4_t)v[1]));
#else
    return ls_vf_join_even_odd(v);
#endif
}

LS_SIMD ls_vu ls_vu_mul_wide(ls_vu a, ls_vu b, ls_vu *high)
{
    uint32x4_t x = (uint32x4_t)a, y = (uint32x4_t)b;
    uint32x4_t lower = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(x), vget_low_u32(y)));
    uint32x4_t upper = vreinterpretq_u32_u64(vmull_high_u32(x, y));
    *high = (ls_vu)vuzp2q_u32(lower, upper);
    return (ls_vu)vuzp1q_u32(lower, upper);
}

LS_SIMD void ls_vu_interleave4(ls_vu v[4])
{
    uint32x4_t a = (uint32x4_t)v[0], b = (uint32x4_t)v[1], c = (uint32x4_t)v[2], d = (uint32x4_t)v[3];
    uint32x4_t ac0 = vzip1q_u32(a, c), ac1 = vzip2q_u32(a, c), bd0 = vzip1q_u32(b, d), bd1 = vzip2q_u32(b, d);
    v[0] = (ls_vu)vzip1q_u32(ac0, bd0);
    v[1] = (ls_vu)vzip2q_u32(ac0, bd0);
    v[2] = (ls_vu)vzip1q_u32(ac1, bd1);
    v[3] = (ls_vu)vzip2q_u32(ac1, bd1);
}

LS_SIMD ls_vd ls_vf_widen_low(ls_vf x)
{
    return (ls_vd)vcvt_f64_f32(vget_low_f32((float32x4_t)x));
}

LS_SIMD ls_vd ls_vf_widen_high(ls_vf x)
{
    return (ls_vd)vcvt_high_f64_f32((float32x4_t)x);
}

LS_SIMD ls_vd ls_vd_fma(ls_vd a, ls_vd b, ls_vd c)
{
    return (ls_vd)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}

LS_SIMD ls_vd ls_vd_sqrt(ls_vd x)
{
    return (ls_vd)vsqrtq_f64((float64x2_t)x);
}

#endif
