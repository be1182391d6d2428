/* simd.h - vectors as wide as the translation unit is compiled for, in one vocabulary for every ISA.
 *
 * A kernel body written once on top of this header (src/kernels/<family>.inc) is included by one file per ISA folder.
 * Types are GCC vector extensions, so + - * / < == & << work on them directly; the functions below do what these
 * operators cannot. Comparisons give all-ones or all-zeros lanes as ls_vi.
 *
 *     ls_vf x = ls_vf_load(p);
 *     ls_vf_store(q, ls_vf_select(x > 0.0f, x, x * slope));
 *
 * Nothing here needs alignment beyond that of the element. Fused multiply-add is always written out: all kernels are
 * compiled with -ffp-contract=off, so results do not depend on the compiler's choices.
 *
 * Each ISA folder's simd.h supplies, under the same names, the handful of operations that take an instruction:
 *   ls_vf_fma(a, b, c)        a * b + c, rounded once
 *   ls_vf_max, ls_vf_min      a NaN in the second operand comes out; one in the first may be lost
 *   ls_vf_sqrt, ls_vf_round (to nearest even), ls_vf_floor, ls_vf_ceil
 *   ls_vf_to_vi               to nearest even; lanes beyond int32_t and NaN are unspecified
 *   ls_vf_select(m, a, b)     a where the mask lane is set
 *   ls_vf_sum, ls_vf_hmax     over the lanes; the sum is a tree, the same on every call
 *   ls_vf_load_f16, ls_vf_store_f16, ls_vf_load_bf16, ls_vf_store_bf16   stores round to nearest even, NaN stays NaN
 *   ls_vi_load_u8             as many bytes as there are lanes, widened
 *   ls_vi_bits(m), ls_vi_from_bits(b)   a mask as one bit per lane, the first lane lowest, and back
 *   ls_vf_keep_bits(b, x)     x where the lane's bit is set, else 0
 *   ls_vf_fma_bits(b, x, y, z)  x y + z where the lane's bit is set, else z
 *   ls_vu_least_bits(x, y)    bits of the lanes where x >= y; all with LS_SIMD_MASKS, where masks are bits
 *   ls_vi_load_bits4(p, m), ls_vi_store_bits4(p, m)   of four adjacent vectors; with LS_SIMD_BITS4
 *   ls_vi_store_bool4(p, a, b, c, d)  four masks as bytes, 1 where set
 *   ls_vf_load2_bf16, ls_vf_store2_bf16   of two adjacent vectors; with LS_SIMD_BF16_PAIRS, where that is cheaper
 *   ls_vf_flush2_bf16         such a store that may turn subnormal numbers into 0, for factors of instructions that
 *                             ignore them; with LS_SIMD_BF16_FLUSH, where that is cheaper
 *   ls_vf_flush_pairs_bf16    the same, but the first lanes of both, then the second ones, ...
 *   ls_vf_flush2_bits_bf16, ls_vf_flush_pairs_bits_bf16   the same, with 0 where a bit is clear: those of the first
 *                             vector are lowest
 *   ls_vf_stream, ls_vf_stream2_bf16   such stores past the caches; with LS_SIMD_STREAM. p is a multiple of
 *                             LS_SIMD_BYTES; ls_stream_end() before other threads may look
 *   ls_vf_split_bf16(x, v), ls_vf_join_bf16(v)   a vector of bf16 as two of f32, in an order of its own, and back
 *   ls_vu_mul_wide(a, b, &high)  low words of the 64-bit products, high words through the pointer
 *   ls_vu_interleave4(v)      v[0][0] v[1][0] v[2][0] v[3][0] v[0][1] ... in reading order over v[0], v[1], v[2], v[3]
 *   ls_vf_widen_low, ls_vf_widen_high   the lower and the upper half of the lanes, as ls_vd
 *   ls_vd_fma, ls_vd_sqrt */
#ifndef LOCKSTEP_KERNELS_SIMD_H
#define LOCKSTEP_KERNELS_SIMD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define LS_SIMD_BYTES 64
#elif defined(__AVX2__)
#define LS_SIMD_BYTES 32
#elif defined(__ARM_NEON)
#define LS_SIMD_BYTES 16
#else
#error "simd.h needs a translation unit compiled for NEON, AVX2 or AVX-512"
#endif

#define LS_VF_LANES (LS_SIMD_BYTES / 4) /* of ls_vf, ls_vi, ls_vu */
#define LS_VD_LANES (LS_SIMD_BYTES / 8) /* of ls_vd, ls_vl */

/* Inlined even where the optimiser finds a polynomial too long: its constants must stay in registers. */
#define LS_SIMD static inline __attribute__((always_inline, unused))

/* Unroll the following loop, whose trip count is a small constant. */
#if defined(__clang__)
#define LS_UNROLL _Pragma("unroll")
#else
#define LS_UNROLL _Pragma("GCC unroll 8")
#endif

typedef float ls_vf __attribute__((vector_size(LS_SIMD_BYTES)));
typedef int32_t ls_vi __attribute__((vector_size(LS_SIMD_BYTES)));
typedef uint32_t ls_vu __attribute__((vector_size(LS_SIMD_BYTES)));
typedef double ls_vd __attribute__((vector_size(LS_SIMD_BYTES)));
typedef int64_t ls_vl __attribute__((vector_size(LS_SIMD_BYTES)));
typedef uint16_t ls_vh __attribute__((vector_size(LS_SIMD_BYTES / 2))); /* as many 16-bit lanes as ls_vf has */
typedef uint8_t ls_vb __attribute__((vector_size(LS_SIMD_BYTES / 4)));  /* as many bytes as ls_vf has lanes */

/* ---- all lanes equal -------------------------------------------------------------------------------------------- */

LS_SIMD ls_vf ls_vf_set(float x)
{
    return x - (ls_vf){0}; /* subtraction keeps the sign of a negative zero */
}

LS_SIMD ls_vi ls_vi_set(int32_t x)
{
    return x + (ls_vi){0};
}

LS_SIMD ls_vu ls_vu_set(uint32_t x)
{
    return x + (ls_vu){0};
}

LS_SIMD ls_vd ls_vd_set(double x)
{
    return x - (ls_vd){0};
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* LS_SIMD_MEMORY(vector, element): vector_load(p), vector_store(p, v), and the same for the first n lanes only; lanes
 * that are not loaded are 0. */
#define LS_SIMD_MEMORY(vector, element)                                                                                \
    typedef vector vector##_anywhere __attribute__((aligned(sizeof(element)), may_alias));                             \
    LS_SIMD vector vector##_load(const element *p)                                                                     \
    {                                                                                                                  \
        return *(const vector##_anywhere *)p;                                                                          \
    }                                                                                                                  \
    LS_SIMD void vector##_store(element *p, vector v)                                                                  \
    {                                                                                                                  \
        *(vector##_anywhere *)p = v;                                                                                   \
    }                                                                                                                  \
    LS_SIMD vector vector##_load_part(const element *p, int64_t n)                                                     \
    {                                                                                                                  \
        vector v = {0};                                                                                                \
        memcpy(&v, p, (size_t)n * sizeof *p);                                                                          \
        return v;                                                                                                      \
    }                                                                                                                  \
    LS_SIMD void vector##_store_part(element *p, vector v, int64_t n)                                                  \
    {                                                                                                                  \
        memcpy(p, &v, (size_t)n * sizeof *p);                                                                          \
    }

LS_SIMD_MEMORY(ls_vf, float)
LS_SIMD_MEMORY(ls_vi, int32_t)
LS_SIMD_MEMORY(ls_vu, uint32_t)
LS_SIMD_MEMORY(ls_vd, double)
LS_SIMD_MEMORY(ls_vl, int64_t)
LS_SIMD_MEMORY(ls_vh, uint16_t)
LS_SIMD_MEMORY(ls_vb, uint8_t)

/* ---- bits and masks ---------------------------------------------------------------------------------------------- */

LS_SIMD ls_vf ls_vi_to_vf(ls_vi v)
{
    return __builtin_convertvector(v, ls_vf);
}

LS_SIMD ls_vf ls_vf_abs(ls_vf x)
{
    return (ls_vf)((ls_vi)x & 0x7fffffff);
}

/* The magnitude of a with the sign of b. */
LS_SIMD ls_vf ls_vf_copysign(ls_vf a, ls_vf b)
{
    return (ls_vf)(((ls_vi)a & 0x7fffffff) | ((ls_vi)b & INT32_MIN));
}

/* x in lanes where the mask is set, 0 elsewhere. */
LS_SIMD ls_vf ls_vf_keep(ls_vi mask, ls_vf x)
{
    return (ls_vf)(mask & (ls_vi)x);
}

LS_SIMD ls_vi ls_vf_is_finite(ls_vf x)
{
    return ((ls_vi)x & 0x7fffffff) < 0x7f800000;
}

/* 1 where the mask lane is set, else 0: what a bool tensor holds. */
LS_SIMD ls_vb ls_vi_to_bool(ls_vi mask)
{
    return (ls_vb) __builtin_convertvector(mask & 1, ls_vb);
}

/* bf16 bits of f32, rounded to nearest even; a NaN keeps its upper bits and is made quiet. */
LS_SIMD ls_vu ls_vf_bf16_bits(ls_vf x)
{
    ls_vu bits = (ls_vu)x, high = bits >> 16;
    ls_vu rounded = (bits + 0x7fffu + (high & 1u)) >> 16;
    ls_vu nan = (ls_vu)(x != x);
    return (rounded & ~nan) | ((high | 0x40u) & nan);
}

/* The even and the odd elements: no element changes lanes. */
LS_SIMD void ls_vf_split_even_odd(ls_vu x, ls_vf v[2])
{
    v[0] = (ls_vf)(x << 16);
    v[1] = (ls_vf)(x & 0xffff0000u);
}

LS_SIMD ls_vu ls_vf_join_even_odd(const ls_vf v[2])
{
    return ls_vf_bf16_bits(v[0]) | (ls_vf_bf16_bits(v[1]) << 16);
}

#if defined(__AVX512F__)
#include "kernels/avx512/simd.h"
#elif defined(__AVX2__)
#include "kernels/avx2/simd.h"
#else
#include "kernels/neon/simd.h"
#endif

/* ---- what follows from the above -----------------------------------------------------------------------------------
 */

LS_SIMD ls_vf ls_vf_clamp(ls_vf x, ls_vf low, ls_vf high)
{
    return ls_vf_max(low, ls_vf_min(high, x));
}

/* The mask of vector v of a run of vectors, a bit per lane from p on; to be stored in order. */
LS_SIMD ls_vi ls_vi_load_bits(const uint8_t *p, int v)
{
    uint32_t bits = (uint32_t)p[v * LS_VF_LANES / 8] >> (v * LS_VF_LANES % 8);
    if (LS_VF_LANES > 8) bits |= (uint32_t)p[v * LS_VF_LANES / 8 + 1] << 8;
    return ls_vi_from_bits(bits);
}

LS_SIMD void ls_vi_store_bits(uint8_t *p, int v, ls_vi mask)
{
    uint32_t bits = ls_vi_bits(mask), at = (uint32_t)(v * LS_VF_LANES) % 8;
    uint8_t *to = p + v * LS_VF_LANES / 8;
    to[0] = (uint8_t)((at ? to[0] : 0u) | bits << at);
    if (LS_VF_LANES > 8) to[1] = (uint8_t)(bits >> 8);
}

#ifndef LS_SIMD_BITS4
LS_SIMD void ls_vi_load_bits4(const uint8_t *p, ls_vi mask[4])
{
    for (int v = 0; v < 4; v++) mask[v] = ls_vi_load_bits(p, v);
}

LS_SIMD void ls_vi_store_bits4(uint8_t *p, const ls_vi mask[4])
{
    for (int v = 0; v < 4; v++) ls_vi_store_bits(p, v, mask[v]);
}
#endif

#ifndef LS_SIMD_BF16_PAIRS
LS_SIMD void ls_vf_load2_bf16(const uint16_t *p, ls_vf v[2])
{
    v[0] = ls_vf_load_bf16(p);
    v[1] = ls_vf_load_bf16(p + LS_VF_LANES);
}

LS_SIMD void ls_vf_store2_bf16(uint16_t *p, const ls_vf v[2])
{
    ls_vf_store_bf16(p, v[0]);
    ls_vf_store_bf16(p + LS_VF_LANES, v[1]);
}
#endif

#ifndef LS_SIMD_MASKS
LS_SIMD ls_vf ls_vf_keep_bits(uint32_t bits, ls_vf x)
{
    return ls_vf_keep(ls_vi_from_bits(bits), x);
}

LS_SIMD ls_vf ls_vf_fma_bits(uint32_t bits, ls_vf a, ls_vf b, ls_vf c)
{
    return ls_vf_fma(ls_vf_keep_bits(bits, a), b, c);
}

LS_SIMD uint32_t ls_vu_least_bits(ls_vu x, uint32_t least)
{
    return ls_vi_bits((ls_vi)(x >= least));
}
#endif

#ifndef LS_SIMD_BF16_FLUSH
LS_SIMD void ls_vf_flush2_bf16(uint16_t *p, const ls_vf v[2])
{
    ls_vf_store2_bf16(p, v);
}

LS_SIMD void ls_vf_flush_pairs_bf16(uint16_t *p, ls_vf a, ls_vf b)
{
    ls_vu pairs = ls_vf_bf16_bits(a) | ls_vf_bf16_bits(b) << 16;
    memcpy(p, &pairs, sizeof pairs);
}

LS_SIMD void ls_vf_flush2_bits_bf16(uint16_t *p, const ls_vf v[2], uint32_t bits)
{
    ls_vf_flush2_bf16(p, (ls_vf[2]){ls_vf_keep_bits(bits, v[0]), ls_vf_keep_bits(bits >> LS_VF_LANES, v[1])});
}

LS_SIMD void ls_vf_flush_pairs_bits_bf16(uint16_t *p, ls_vf a, ls_vf b, uint32_t bits)
{
    ls_vf_flush_pairs_bf16(p, ls_vf_keep_bits(bits, a), ls_vf_keep_bits(bits >> LS_VF_LANES, b));
}
#endif

#ifndef LS_SIMD_STREAM
LS_SIMD void ls_vf_stream(float *p, ls_vf x)
{
    ls_vf_store(p, x);
}

LS_SIMD void ls_vf_stream2_bf16(uint16_t *p, const ls_vf v[2])
{
    ls_vf_store2_bf16(p, v);
}

LS_SIMD void ls_stream_end(void)
{
}
#endif

LS_SIMD ls_vf ls_vf_load_bf16_part(const uint16_t *p, int64_t n)
{
    return (ls_vf)(__builtin_convertvector(ls_vh_load_part(p, n), ls_vu) << 16);
}

LS_SIMD void ls_vf_store_bf16_part(uint16_t *p, ls_vf x, int64_t n)
{
    uint16_t lanes[LS_VF_LANES];
    ls_vf_store_bf16(lanes, x);
    memcpy(p, lanes, (size_t)n * sizeof *p);
}

LS_SIMD ls_vf ls_vf_load_f16_part(const uint16_t *p, int64_t n)
{
    uint16_t lanes[LS_VF_LANES] = {0};
    memcpy(lanes, p, (size_t)n * sizeof *p);
    return ls_vf_load_f16(lanes);
}

LS_SIMD void ls_vf_store_f16_part(uint16_t *p, ls_vf x, int64_t n)
{
    uint16_t lanes[LS_VF_LANES];
    ls_vf_store_f16(lanes, x);
    memcpy(p, lanes, (size_t)n * sizeof *p);
}

#endif
