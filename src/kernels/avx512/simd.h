/* simd.h - AVX-512 (F, BW, DQ, VL) instructions behind the vocabulary of kernels/simd.h. Included by it only. */
#ifndef LOCKSTEP_KERNELS_AVX512_SIMD_H
#define LOCKSTEP_KERNELS_AVX512_SIMD_H

#include <immintrin.h>

LS_SIMD ls_vf ls_vf_fma(ls_vf a, ls_vf b, ls_vf c)
{
    return (ls_vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

LS_SIMD ls_vf ls_vf_max(ls_vf a, ls_vf b)
{
    return (ls_vf)_mm512_max_ps((__m512)a, (__m512)b);
}

LS_SIMD ls_vf ls_vf_min(ls_vf a, ls_vf b)
{
    return (ls_vf)_mm512_min_ps((__m512)a, (__m512)b);
}

LS_SIMD ls_vf ls_vf_sqrt(ls_vf x)
{
    return (ls_vf)_mm512_sqrt_ps((__m512)x);
}

LS_SIMD ls_vf ls_vf_round(ls_vf x)
{
    return (ls_vf)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

LS_SIMD ls_vf ls_vf_floor(ls_vf x)
{
    return (ls_vf)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

LS_SIMD ls_vf ls_vf_ceil(ls_vf x)
{
    return (ls_vf)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}

LS_SIMD ls_vi ls_vf_to_vi(ls_vf x)
{
    return (ls_vi)_mm512_cvtps_epi32((__m512)x);
}

LS_SIMD ls_vf ls_vf_select(ls_vi mask, ls_vf a, ls_vf b)
{
    return (ls_vf)_mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)mask), (__m512)b, (__m512)a);
}

LS_SIMD float ls_vf_sum(ls_vf x)
{
    return _mm512_reduce_add_ps((__m512)x);
}

LS_SIMD float ls_vf_hmax(ls_vf x)
{
    return _mm512_reduce_max_ps((__m512)x);
}

LS_SIMD ls_vf ls_vf_load_f16(const uint16_t *p)
{
    return (ls_vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

LS_SIMD void ls_vf_store_f16(uint16_t *p, ls_vf x)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT));
}

LS_SIMD ls_vf ls_vf_load_bf16(const uint16_t *p)
{
    return (ls_vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16);
}

#ifdef __AVX512BF16__

/* VCVTNEPS2BF16 flushes subnormals to zero: if there are any, the bits are rounded in integer code instead. */
LS_SIMD bool ls_vf_has_subnormal(ls_vf a, ls_vf b)
{
    enum { SUBNORMAL = 0x20 };
    return !_mm512_kortestz(_mm512_fpclass_ps_mask((__m512)a, SUBNORMAL), _mm512_fpclass_ps_mask((__m512)b, SUBNORMAL));
}

/* Two vectors as one of bf16, in reading order. */
LS_SIMD __m512i ls_vf_pair_bf16(const ls_vf v[2])
{
    if (__builtin_expect(!ls_vf_has_subnormal(v[0], v[1]), 1))
        return (__m512i)_mm512_cvtne2ps_pbh((__m512)v[1], (__m512)v[0]);
    __m512i low = _mm512_castsi256_si512(_mm512_cvtepi32_epi16((__m512i)ls_vf_bf16_bits(v[0])));
    return _mm512_inserti64x4(low, _mm512_cvtepi32_epi16((__m512i)ls_vf_bf16_bits(v[1])), 1);
}

LS_SIMD void ls_vf_store_bf16(uint16_t *p, ls_vf x)
{
    __m256i half = __builtin_expect(!ls_vf_has_subnormal(x, x), 1) ? (__m256i)_mm512_cvtneps_pbh((__m512)x)
                                                                   : _mm512_cvtepi32_epi16((__m512i)ls_vf_bf16_bits(x));
    _mm256_storeu_si256((__m256i *)p, half);
}

#define LS_SIMD_BF16_PAIRS

LS_SIMD void ls_vf_load2_bf16(const uint16_t *p, ls_vf v[2])
{
    v[0] = ls_vf_load_bf16(p);
    v[1] = ls_vf_load_bf16(p + LS_VF_LANES);
}

LS_SIMD void ls_vf_store2_bf16(uint16_t *p, const ls_vf v[2])
{
    _mm512_storeu_si512(p, ls_vf_pair_bf16(v));
}

#define LS_SIMD_BF16_FLUSH

LS_SIMD void ls_vf_flush2_bf16(uint16_t *p, const ls_vf v[2])
{
    _mm512_storeu_si512(p, (__m512i)_mm512_cvtne2ps_pbh((__m512)v[1], (__m512)v[0]));
}

LS_SIMD void ls_halves_store_pairs(uint16_t *p, __m512bh both)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    _mm512_storeu_si512(p, _mm512_permutexvar_epi16(order, (__m512i)both));
}

LS_SIMD void ls_vf_flush_pairs_bf16(uint16_t *p, ls_vf a, ls_vf b)
{
    ls_halves_store_pairs(p, _mm512_cvtne2ps_pbh((__m512)b, (__m512)a));
}

LS_SIMD void ls_vf_flush2_bits_bf16(uint16_t *p, const ls_vf v[2], uint32_t bits)
{
    _mm512_storeu_si512(p, (__m512i)_mm512_maskz_cvtne2ps_pbh(bits, (__m512)v[1], (__m512)v[0]));
}

LS_SIMD void ls_vf_flush_pairs_bits_bf16(uint16_t *p, ls_vf a, ls_vf b, uint32_t bits)
{
    ls_halves_store_pairs(p, _mm512_maskz_cvtne2ps_pbh(bits, (__m512)b, (__m512)a));
}

#define LS_SIMD_STREAM

LS_SIMD void ls_vf_stream(float *p, ls_vf x)
{
    _mm512_stream_ps(p, (__m512)x);
}

LS_SIMD void ls_vf_stream2_bf16(uint16_t *p, const ls_vf v[2])
{
    _mm512_stream_si512((__m512i *)(void *)p, ls_vf_pair_bf16(v));
}

LS_SIMD void ls_stream_end(void)
{
    _mm_sfence();
}

#else

LS_SIMD void ls_vf_store_bf16(uint16_t *p, ls_vf x)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16((__m512i)ls_vf_bf16_bits(x)));
}

#endif

LS_SIMD void ls_vf_split_bf16(ls_vu x, ls_vf v[2])
{
    ls_vf_split_even_odd(x, v);
}

LS_SIMD ls_vu ls_vf_join_bf16(const ls_vf v[2])
{
#ifdef __AVX512BF16__
    if (__builtin_expect(!ls_vf_has_subnormal(v[0], v[1]), 1)) {
        __m512i even = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)v[0]));
        __m512i odd = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)v[1]));
        return (ls_vu)even | ((ls_vu)odd << 16);
    }
#endif
    return ls_vf_join_even_odd(v);
}

LS_SIMD ls_vi ls_vi_load_u8(const uint8_t *p)
{
    return (ls_vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}

LS_SIMD uint32_t ls_vi_bits(ls_vi mask)
{
    return _mm512_movepi32_mask((__m512i)mask);
}

LS_SIMD ls_vi ls_vi_from_bits(uint32_t bits)
{
    return (ls_vi)_mm512_movm_epi32((__mmask16)bits);
}

#define LS_SIMD_MASKS

LS_SIMD ls_vf ls_vf_keep_bits(uint32_t bits, ls_vf x)
{
    return (ls_vf)_mm512_maskz_mov_ps((__mmask16)bits, (__m512)x);
}

LS_SIMD ls_vf ls_vf_fma_bits(uint32_t bits, ls_vf a, ls_vf b, ls_vf c)
{
    return (ls_vf)_mm512_mask3_fmadd_ps((__m512)a, (__m512)b, (__m512)c, (__mmask16)bits);
}

LS_SIMD uint32_t ls_vu_least_bits(ls_vu x, uint32_t least)
{
    return _mm512_cmpge_epu32_mask((__m512i)x, _mm512_set1_epi32((int)least));
}

LS_SIMD void ls_vi_store_bool4(uint8_t *p, ls_vi a, ls_vi b, ls_vi c, ls_vi d)
{
    const ls_vi mask[4] = {a & 1, b & 1, c & 1, d & 1};
    for (int i = 0; i < 4; i++) _mm_storeu_si128((__m128i *)p + i, _mm512_cvtepi32_epi8((__m512i)mask[i]));
}

LS_SIMD ls_vu ls_vu_mul_wide(ls_vu a, ls_vu b, ls_vu *high)
{
    __m512i x = (__m512i)a, y = (__m512i)b;
    __m512i even = _mm512_mul_epu32(x, y);
    __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), _mm512_srli_epi64(y, 32));
    *high = (ls_vu)_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
    return (ls_vu)_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
}

LS_SIMD void ls_vu_interleave4(ls_vu v[4])
{
    __m512i ab0 = _mm512_unpacklo_epi32((__m512i)v[0], (__m512i)v[1]);
    __m512i ab1 = _mm512_unpackhi_epi32((__m512i)v[0], (__m512i)v[1]);
    __m512i cd0 = _mm512_unpacklo_epi32((__m512i)v[2], (__m512i)v[3]);
    __m512i cd1 = _mm512_unpackhi_epi32((__m512i)v[2], (__m512i)v[3]);
    /* rows 0 4 8 12, then 1 5 9 13, ...: a 4 x 4 transpose of 128-bit lanes is left */
    __m512i r0 = _mm512_unpacklo_epi64(ab0, cd0), r1 = _mm512_unpackhi_epi64(ab0, cd0);
    __m512i r2 = _mm512_unpacklo_epi64(ab1, cd1), r3 = _mm512_unpackhi_epi64(ab1, cd1);
    __m512i low01 = _mm512_shuffle_i32x4(r0, r1, 0x44), high01 = _mm512_shuffle_i32x4(r0, r1, 0xee);
    __m512i low23 = _mm512_shuffle_i32x4(r2, r3, 0x44), high23 = _mm512_shuffle_i32x4(r2, r3, 0xee);
    v[0] = (ls_vu)_mm512_shuffle_i32x4(low01, low23, 0x88);
    v[1] = (ls_vu)_mm512_shuffle_i32x4(low01, low23, 0xdd);
    v[2] = (ls_vu)_mm512_shuffle_i32x4(high01, high23, 0x88);
    v[3] = (ls_vu)_mm512_shuffle_i32x4(high01, high23, 0xdd);
}

/* Philox on 64-bit lanes: a product leaves its high word where a shuffle finds it, and the upper half of a lane is
 * never read. `ramp` says which lane has which of eight counters. */
#define LS_SIMD_PHILOX_COUNTERS 8
#define LS_PHILOX_M0 _mm512_set1_epi64(0xD2511F53)
#define LS_PHILOX_M1 _mm512_set1_epi64(0xCD9E8D57)
enum { LS_PHILOX_XOR = 0x96 }; /* ternary logic: of all three */

LS_SIMD void ls_philox_begin(__m512i c[4], uint64_t counter, __m512i ramp)
{
    c[0] = _mm512_add_epi64(_mm512_set1_epi64((int64_t)counter), ramp);
    c[1] = _mm512_srli_epi64(c[0], 32);
    c[2] = c[3] = _mm512_setzero_si512();
}

LS_SIMD void ls_philox_round(__m512i c[4], const uint32_t key[2])
{
    __m512i first = _mm512_mul_epu32(c[0], LS_PHILOX_M0), second = _mm512_mul_epu32(c[2], LS_PHILOX_M1);
    __m512i high0 = _mm512_shuffle_epi32(first, _MM_PERM_DDBB), high1 = _mm512_shuffle_epi32(second, _MM_PERM_DDBB);
    c[0] = _mm512_ternarylogic_epi32(high1, c[1], _mm512_set1_epi32((int)key[0]), LS_PHILOX_XOR);
    c[2] = _mm512_ternarylogic_epi32(high0, c[3], _mm512_set1_epi32((int)key[1]), LS_PHILOX_XOR);
    c[1] = second;
    c[3] = first;
}

/* Four times eight counters with the same upper word after two rounds: of the four products of a counter one is zero
 * and another the same for all. */
LS_SIMD void ls_philox_begin_2(__m512i c[4][4], uint64_t counter, __m512i ramp, const uint32_t key[2][2])
{
    uint64_t shared = (uint64_t)((uint32_t)(counter >> 32) ^ key[0][0]) * 0xD2511F53;
    __m512i at = _mm512_add_epi64(_mm512_set1_epi64((int64_t)counter), ramp);
    LS_UNROLL for (int i = 0; i < 4; i++, at = _mm512_add_epi64(at, _mm512_set1_epi64(8)))
    {
        __m512i first = _mm512_mul_epu32(at, LS_PHILOX_M0);
        __m512i high0 = _mm512_shuffle_epi32(first, _MM_PERM_DDBB);
        __m512i second = _mm512_mul_epu32(_mm512_xor_si512(high0, _mm512_set1_epi32((int)key[0][1])), LS_PHILOX_M1);
        __m512i high1 = _mm512_shuffle_epi32(second, _MM_PERM_DDBB);
        c[i][0] = _mm512_xor_si512(high1, _mm512_set1_epi32((int)key[1][0]));
        c[i][1] = second;
        c[i][2] = _mm512_xor_si512(first, _mm512_set1_epi32((int)((uint32_t)(shared >> 32) ^ key[1][1])));
        c[i][3] = _mm512_set1_epi32((int)(uint32_t)shared);
    }
}

/* The last round: a lane has words 0 and 1 of its counter in pair[0], words 2 and 3 in pair[1]. */
LS_SIMD void ls_philox_end(const __m512i c[4], const uint32_t key[2], __m512i pair[2])
{
    __m512i first = _mm512_mul_epu32(c[0], LS_PHILOX_M0), second = _mm512_mul_epu32(c[2], LS_PHILOX_M1);
    pair[0] = _mm512_mask_ternarylogic_epi32(_mm512_shuffle_epi32(second, _MM_PERM_CDAB), 0x5555, c[1],
                                             _mm512_set1_epi32((int)key[0]), LS_PHILOX_XOR);
    pair[1] = _mm512_mask_ternarylogic_epi32(_mm512_shuffle_epi32(first, _MM_PERM_CDAB), 0x5555, c[3],
                                             _mm512_set1_epi32((int)key[1]), LS_PHILOX_XOR);
}

/* The words of eight counters in reading order, if the first four are in even lanes and the others in odd ones: then
 * the words of a counter end up in one quarter of a register. */
LS_SIMD __m512i ls_philox_ramp_of_words(void)
{
    return _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
}

LS_SIMD void ls_philox_words(const __m512i pair[2], ls_vu word[2])
{
    word[0] = (ls_vu)_mm512_unpacklo_epi64(pair[0], pair[1]);
    word[1] = (ls_vu)_mm512_unpackhi_epi64(pair[0], pair[1]);
}

/* The bits of these words where they are at least `least`, if counters are in the order of lanes. */
LS_SIMD __m512i ls_philox_ramp_of_bits(void)
{
    return _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
}

LS_SIMD uint32_t ls_philox_least_bits(const __m512i pair[2], uint32_t least)
{
    uint32_t front = ls_vu_least_bits((ls_vu)pair[0], least), back = ls_vu_least_bits((ls_vu)pair[1], least);
    return _pdep_u32(front, 0x33333333) | _pdep_u32(back, 0xcccccccc);
}

LS_SIMD ls_vd ls_vf_widen_low(ls_vf x)
{
    return (ls_vd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x));
}

LS_SIMD ls_vd ls_vf_widen_high(ls_vf x)
{
    return (ls_vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1));
}

LS_SIMD ls_vd ls_vd_fma(ls_vd a, ls_vd b, ls_vd c)
{
    return (ls_vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}

LS_SIMD ls_vd ls_vd_sqrt(ls_vd x)
{
    return (ls_vd)_mm512_sqrt_pd((__m512d)x);
}

#endif
