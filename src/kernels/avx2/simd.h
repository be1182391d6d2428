/* simd.h - AVX2, FMA and F16C instructions behind the vocabulary of kernels/simd.h. Included by it only. */
#ifndef LOCKSTEP_KERNELS_AVX2_SIMD_H
#define LOCKSTEP_KERNELS_AVX2_SIMD_H

#include <immintrin.h>

LS_SIMD ls_vf ls_vf_fma(ls_vf a, ls_vf b, ls_vf c)
{
    return (ls_vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

LS_SIMD ls_vf ls_vf_max(ls_vf a, ls_vf b)
{
    return (ls_vf)_mm256_max_ps((__m256)a, (__m256)b);
}

LS_SIMD ls_vf ls_vf_min(ls_vf a, ls_vf b)
{
    return (ls_vf)_mm256_min_ps((__m256)a, (__m256)b);
}

LS_SIMD ls_vf ls_vf_sqrt(ls_vf x)
{
    return (ls_vf)_mm256_sqrt_ps((__m256)x);
}

LS_SIMD ls_vf ls_vf_round(ls_vf x)
{
    return (ls_vf)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

LS_SIMD ls_vf ls_vf_floor(ls_vf x)
{
    return (ls_vf)_mm256_floor_ps((__m256)x);
}

LS_SIMD ls_vf ls_vf_ceil(ls_vf x)
{
    return (ls_vf)_mm256_ceil_ps((__m256)x);
}

LS_SIMD ls_vi ls_vf_to_vi(ls_vf x)
{
    return (ls_vi)_mm256_cvtps_epi32((__m256)x);
}

LS_SIMD ls_vf ls_vf_select(ls_vi mask, ls_vf a, ls_vf b)
{
    return (ls_vf)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)mask);
}

LS_SIMD float ls_vf_sum(ls_vf x)
{
    __m128 v = _mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    v = _mm_add_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)));
}

LS_SIMD float ls_vf_hmax(ls_vf x)
{
    __m128 v = _mm_max_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    v = _mm_max_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_max_ss(v, _mm_movehdup_ps(v)));
}

LS_SIMD ls_vf ls_vf_load_f16(const uint16_t *p)
{
    return (ls_vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

LS_SIMD void ls_vf_store_f16(uint16_t *p, ls_vf x)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
}

LS_SIMD ls_vf ls_vf_load_bf16(const uint16_t *p)
{
    return (ls_vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16);
}

LS_SIMD void ls_vf_store_bf16(uint16_t *p, ls_vf x)
{
    __m256i bits = (__m256i)ls_vf_bf16_bits(x);
    __m128i low = _mm256_castsi256_si128(bits), high = _mm256_extracti128_si256(bits, 1);
    _mm_storeu_si128((__m128i *)p, _mm_packus_epi32(low, high));
}

LS_SIMD void ls_vf_split_bf16(ls_vu x, ls_vf v[2])
{
    ls_vf_split_even_odd(x, v);
}

LS_SIMD ls_vu ls_vf_join_bf16(const ls_vf v[2])
{
    return ls_vf_join_even_odd(v);
}

LS_SIMD ls_vi ls_vi_load_u8(const uint8_t *p)
{
    return (ls_vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

LS_SIMD uint32_t ls_vi_bits(ls_vi mask)
{
    return (uint32_t)_mm256_movemask_ps((__m256)mask);
}

LS_SIMD ls_vi ls_vi_from_bits(uint32_t bits)
{
    const ls_vi lane = {1, 2, 4, 8, 16, 32, 64, 128};
    return (((int32_t)bits + (ls_vi){0}) & lane) != 0;
}

LS_SIMD void ls_vi_store_bool4(uint8_t *p, ls_vi a, ls_vi b, ls_vi c, ls_vi d)
{
    __m256i low = _mm256_packs_epi32((__m256i)a, (__m256i)b), high = _mm256_packs_epi32((__m256i)c, (__m256i)d);
    __m256i bytes = _mm256_packs_epi16(low, high); /* groups of 4: a b c d of the lower lanes, then of the upper */
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)p, _mm256_and_si256(bytes, _mm256_set1_epi8(1)));
}

LS_SIMD ls_vu ls_vu_mul_wide(ls_vu a, ls_vu b, ls_vu *high)
{
    __m256i x = (__m256i)a, y = (__m256i)b;
    __m256i even = _mm256_mul_epu32(x, y);
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(y, 32));
    *high = (ls_vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    return (ls_vu)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

LS_SIMD void ls_vu_interleave4(ls_vu v[4])
{
    __m256i ab0 = _mm256_unpacklo_epi32((__m256i)v[0], (__m256i)v[1]);
    __m256i ab1 = _mm256_unpackhi_epi32((__m256i)v[0], (__m256i)v[1]);
    __m256i cd0 = _mm256_unpacklo_epi32((__m256i)v[2], (__m256i)v[3]);
    __m256i cd1 = _mm256_unpackhi_epi32((__m256i)v[2], (__m256i)v[3]);
    __m256i at04 = _mm256_unpacklo_epi64(ab0, cd0), at15 = _mm256_unpackhi_epi64(ab0, cd0);
    __m256i at26 = _mm256_unpacklo_epi64(ab1, cd1), at37 = _mm256_unpackhi_epi64(ab1, cd1);
    v[0] = (ls_vu)_mm256_permute2x128_si256(at04, at15, 0x20);
    v[1] = (ls_vu)_mm256_permute2x128_si256(at26, at37, 0x20);
    v[2] = (ls_vu)_mm256_permute2x128_si256(at04, at15, 0x31);
    v[3] = (ls_vu)_mm256_permute2x128_si256(at26, at37, 0x31);
}

LS_SIMD ls_vd ls_vf_widen_low(ls_vf x)
{
    return (ls_vd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x));
}

LS_SIMD ls_vd ls_vf_widen_high(ls_vf x)
{
    return (ls_vd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1));
}

LS_SIMD ls_vd ls_vd_fma(ls_vd a, ls_vd b, ls_vd c)
{
    return (ls_vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}

LS_SIMD ls_vd ls_vd_sqrt(ls_vd x)
{
    return (ls_vd)_mm256_sqrt_pd((__m256d)x);
}

#endif
