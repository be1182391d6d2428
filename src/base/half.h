/* half.h - bf16 and f16 as 16-bit patterns, converted with round-to-nearest-even. Scalar; kernels have vector forms. */
#ifndef LOCKSTEP_BASE_HALF_H
#define LOCKSTEP_BASE_HALF_H

#include <stdint.h>
#include <string.h>

typedef uint16_t ls_bf16; /* the upper half of an f32 */
typedef uint16_t ls_f16;  /* IEEE binary16 */

static inline float ls_bf16_to_f32(ls_bf16 h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline ls_bf16 ls_bf16_from_f32(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (ls_bf16)((bits >> 16) | 0x40u); /* NaN stays a (quiet) NaN */
    return (ls_bf16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static inline float ls_f16_to_f32(ls_f16 h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 0x1fu, mantissa = h & 0x3ffu, bits;
    if (exponent == 0x1f) bits = sign | 0x7f800000u | mantissa << 13;
    else if (exponent) bits = sign | (exponent + 112) << 23 | mantissa << 13;
    else {
        /* Zero or subnormal: mantissa * 2^-24, exact in f32. */
        float f = (float)mantissa * 0x1p-24f;
        memcpy(&bits, &f, sizeof bits);
        bits |= sign;
    }
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline ls_f16 ls_f16_from_f32(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (ls_f16)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (ls_f16)(sign | 0x7c00u); /* rounds to 65536 or beyond: infinity */
    if (magnitude < 0x38800000u) {                                 /* subnormal result: let f32 addition round it */
        float scaled;
        memcpy(&scaled, &magnitude, sizeof scaled);
        scaled += 0.5f; /* unit in the last place of [0.5, 1) is 2^-24, that of f16 subnormals */
        uint32_t rounded;
        memcpy(&rounded, &scaled, sizeof rounded);
        return (ls_f16)(sign | (rounded - 0x3f000000u));
    }
    magnitude += 0xfffu + ((magnitude >> 13) & 1u);
    return (ls_f16)(sign | ((magnitude - 0x38000000u) >> 13));
}

#endif
