/* simd_math.h - exp, log, erf, tanh and their relatives on f32 vectors, without branches.
 *
 * Errors against the exact value are tested over the whole range (tests/kernels/simd.c): about one unit in the
 * last place, at most 2.5e-7 of the result; gelu and its slope, which are differences, 2e-7 of the argument.
 * Infinities, NaN and subnormal arguments are right. The polynomials are minimax fits made for these intervals.
 *
 * erf, gelu and gelu' are a constant plus an odd function that is flat outside |x| < c. They are computed as x P(u)
 * with u = 2 x^2 / c^2 - 1 in [-1, 1]: one polynomial, no exponential, no division. */
#ifndef LOCKSTEP_KERNELS_SIMD_MATH_H
#define LOCKSTEP_KERNELS_SIMD_MATH_H

#include "kernels/simd.h"

/* Polynomials are summed in groups of four terms from the first four powers. Horner's rule takes fewer operations, but
 * each waits for the one before, and on CPUs whose fused multiply-add overwrites the addend each needs a copy of a
 * constant. */
typedef struct ls_vpowers {
    ls_vf x, x2, x3, x4;
} ls_vpowers;

LS_SIMD ls_vpowers ls_vf_powers(ls_vf x)
{
    ls_vf x2 = x * x;
    return (ls_vpowers){x, x2, x2 * x, x2 * x2};
}

/* a x + b x^2 + c x^3, and the same + d x^4 */
LS_SIMD ls_vf ls_vf_terms3(ls_vpowers p, float a, float b, float c)
{
    return ls_vf_fma(p.x3, ls_vf_set(c), ls_vf_fma(p.x2, ls_vf_set(b), p.x * a));
}

LS_SIMD ls_vf ls_vf_terms4(ls_vpowers p, float a, float b, float c, float d)
{
    return ls_vf_fma(p.x4, ls_vf_set(d), ls_vf_terms3(p, a, b, c));
}

/* 2^n for n in [-126, 127]. */
LS_SIMD ls_vf ls_vf_exp2_int(ls_vi n)
{
    return (ls_vf)((n + 127) << 23);
}

/* exp(r) - 1 where x = n ln 2 + r, |r| <= ln 2 / 2. */
LS_SIMD ls_vf ls_vf_expm1_reduced(ls_vf x, ls_vi *n)
{
    const float round = 0x1.8p23f; /* floats of this size are 1 apart: adding it leaves an integer in the low bits */
    ls_vf sum = ls_vf_fma(x, ls_vf_set(1.44269504f), ls_vf_set(round)), whole = sum - round;
    ls_vf r = ls_vf_fma(whole, ls_vf_set(-0x1.62e4p-1f), x); /* exact, since the constant has 14 bits */
    r = ls_vf_fma(whole, ls_vf_set(-0x1.7f7d1cp-20f), r);
    ls_vf rr = r * r;
    ls_vf high = ls_vf_fma(r, ls_vf_set(0.00836891774f), ls_vf_set(0.041666206f));
    high = ls_vf_fma(rr, ls_vf_set(0.00139505393f), high);
    ls_vf p = ls_vf_fma(rr, high, ls_vf_fma(r, ls_vf_set(0.166665182f), ls_vf_set(0.5f)));
    *n = (ls_vi)sum - 0x4b400000;
    return ls_vf_fma(rr, p, r);
}

LS_SIMD ls_vf ls_vf_exp(ls_vf x)
{
    ls_vi n;
    x = ls_vf_clamp(x, ls_vf_set(-104.0f), ls_vf_set(89.0f)); /* beyond, the result is 0 or infinite */
    ls_vf y = 1.0f + ls_vf_expm1_reduced(x, &n);
    ls_vi half = n >> 1; /* 2^n in two steps: n may lie beyond the exponents of normal numbers */
    return y * ls_vf_exp2_int(half) * ls_vf_exp2_int(n - half);
}

/* exp(x) for x <= 0, cheaper: results below the normal range (x < -87.3) become 0. For softmax and attention. */
LS_SIMD ls_vf ls_vf_exp_negative(ls_vf x)
{
    ls_vi n, lives = x > -87.33f, is_nan = x != x;
    ls_vf y = 1.0f + ls_vf_expm1_reduced(ls_vf_max(ls_vf_set(-87.33f), x), &n);
    return ls_vf_keep(lives | is_nan, (ls_vf)((ls_vi)y + (n << 23)));
}

/* exp(x) - 1, exact near 0. */
LS_SIMD ls_vf ls_vf_expm1(ls_vf x)
{
    ls_vi n;
    x = ls_vf_clamp(x, ls_vf_set(-30.0f), ls_vf_set(89.0f)); /* below -30 the result is -1 */
    ls_vf p = ls_vf_expm1_reduced(x, &n);
    ls_vi half = n >> 1;
    ls_vf low = ls_vf_exp2_int(half), high = ls_vf_exp2_int(n - half);
    /* 2^n (1 + p) - 1, with 2^n = low * high: dividing the 1 keeps everything in range until the last product. */
    ls_vf scaled = ls_vf_fma(p, low, low - ls_vf_exp2_int(half - n));
    return ls_vf_select(x == 0.0f, x, scaled * high); /* keeps -0 */
}

/* Natural logarithm: 0 gives -infinity, negative numbers NaN. */
LS_SIMD ls_vf ls_vf_log(ls_vf x)
{
    ls_vi small = x < 0x1p-126f; /* subnormal, zero or negative: scaled to be normal first */
    ls_vf scaled = ls_vf_select(small, x * 0x1p24f, x);
    /* x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)) */
    ls_vi bits = (ls_vi)((ls_vu)scaled - 0x3f3504f3u); /* unsigned: no overflow for negative x */
    ls_vf n = ls_vi_to_vf((bits >> 23) - (small & 24));
    ls_vf f = (ls_vf)((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
    ls_vf ff = f * f;
    ls_vf p0 = ls_vf_fma(f, ls_vf_set(-0.250008106f), ls_vf_set(0.333333164f));
    ls_vf p1 = ls_vf_fma(f, ls_vf_set(-0.166245565f), ls_vf_set(0.200022876f));
    ls_vf p2 = ls_vf_fma(f, ls_vf_set(-0.131287113f), ls_vf_set(0.141811714f));
    ls_vf p3 = ls_vf_fma(f, ls_vf_set(-0.0785984471f), ls_vf_set(0.128817633f));
    ls_vf p = ls_vf_fma(ff * ff, ls_vf_fma(ff, p3, p2), ls_vf_fma(ff, p1, p0));
    /* f - f^2/2 + f^3 p + n ln 2, small parts first */
    ls_vf tail = ls_vf_fma(p * f, ff, n * 0x1.7f7d1cp-20f);
    ls_vf y = ls_vf_fma(n, ls_vf_set(0x1.62e4p-1f), f + ls_vf_fma(ff, ls_vf_set(-0.5f), tail));
    y = ls_vf_select((x > 0.0f) & (x < __builtin_inff()), y, x); /* +infinity and NaN stay */
    y = ls_vf_select(x == 0.0f, ls_vf_set(-__builtin_inff()), y);
    return ls_vf_select(x < 0.0f, ls_vf_set(__builtin_nanf("")), y);
}

/* log(1 + x), exact near 0. */
LS_SIMD ls_vf ls_vf_log1p(ls_vf x)
{
    ls_vf sum = 1.0f + x, lost = (sum - 1.0f) - x; /* what the addition rounded away */
    ls_vf y = ls_vf_log(sum) - ls_vf_keep(sum > 0.0f, lost / sum);
    return ls_vf_select((sum == 1.0f) | (sum == __builtin_inff()), x, y);
}

/* u of the odd functions below: 2 x^2 / c^2 - 1, not above 1. */
LS_SIMD ls_vf ls_vf_odd_argument(ls_vf x, float c)
{
    return ls_vf_fma(ls_vf_min(ls_vf_set(c * c), x * x), ls_vf_set(2.0f / (c * c)), ls_vf_set(-1.0f));
}

LS_SIMD ls_vf ls_vf_erf(ls_vf x)
{
    ls_vpowers u = ls_vf_powers(ls_vf_odd_argument(x, 3.84f));
    ls_vf p = ls_vf_terms3(u, -0.00116164086f, 0.00146911945f, -0.000571426994f);
    p = ls_vf_fma(u.x4, p, ls_vf_terms4(u, -0.0177712236f, 0.0118306866f, -0.00624586968f, 0.00181201368f));
    p = ls_vf_fma(u.x4, p, ls_vf_terms4(u, -0.0730130672f, 0.0563405231f, -0.0408989564f, 0.0273870807f));
    p = ls_vf_fma(u.x4, p, ls_vf_terms4(u, -0.183765382f, 0.136518449f, -0.110553682f, 0.0908005685f));
    p += 0.368239462f;
    return ls_vf_clamp(x * p, ls_vf_set(-1.0f), ls_vf_set(1.0f));
}

/* The normal distribution function Phi(x) = (1 + erf(x / sqrt 2)) / 2, exactly 0 and 1 beyond |x| of 5.4. */
LS_SIMD ls_vf ls_vf_normal_cdf(ls_vf x)
{
    ls_vpowers u = ls_vf_powers(ls_vf_odd_argument(x, 5.4f));
    ls_vf p = ls_vf_fma(u.x2, ls_vf_set(0.000409660395f), u.x * -0.00104074308f);
    p = ls_vf_fma(u.x4, p, ls_vf_terms4(u, -0.0067546987f, 0.0037191147f, -0.00115064322f, 0.000823836657f));
    p = ls_vf_fma(u.x4, p, ls_vf_terms4(u, -0.0257515945f, 0.0196551196f, -0.0139427772f, 0.00961663201f));
    p = ls_vf_fma(u.x4, p, ls_vf_terms4(u, -0.065328069f, 0.048499655f, -0.0392062739f, 0.032115262f));
    p += 0.130928114f;
    return 0.5f + ls_vf_clamp(x * p, ls_vf_set(-0.5f), ls_vf_set(0.5f));
}

LS_SIMD ls_vf ls_vf_gelu(ls_vf x)
{
    return x * ls_vf_normal_cdf(x);
}

/* gelu'(x) = Phi(x) + x phi(x). */
LS_SIMD ls_vf ls_vf_gelu_slope(ls_vf x)
{
    ls_vpowers u = ls_vf_powers(ls_vf_odd_argument(x, 5.8f));
    ls_vf p = u.x * -0.00305550685f;
    p = ls_vf_fma(u.x4, p, ls_vf_terms4(u, -0.0186133813f, 1.65599176e-05f, -0.00245076488f, 0.00743057625f));
    p = ls_vf_fma(u.x4, p, ls_vf_terms4(u, -0.0605789647f, 0.0433444194f, -0.0359538458f, 0.0354797207f));
    p = ls_vf_fma(u.x4, p, ls_vf_terms4(u, -0.057724949f, 0.0650513619f, -0.0696073994f, 0.0699240416f));
    p = ls_vf_fma(u.x4, p, ls_vf_terms4(u, -0.0616574809f, 0.048635792f, -0.0461964831f, 0.0501644351f));
    p += 0.121998779f;
    ls_vf flat = ls_vf_copysign(ls_vf_set(0.5f), x); /* not by clamping x, because gelu' overshoots 1 */
    return 0.5f + ls_vf_select(ls_vf_abs(x) > 5.8f, flat, x * p);
}

LS_SIMD ls_vf ls_vf_sigmoid(ls_vf x)
{
    return 1.0f / (1.0f + ls_vf_exp(-x));
}

LS_SIMD ls_vf ls_vf_tanh(ls_vf x)
{
    ls_vf e = ls_vf_expm1(-2.0f * ls_vf_abs(x));
    return ls_vf_copysign(e / (2.0f + e), x);
}

/* gelu with the tanh approximation: x sigmoid(2 k (x + 0.044715 x^3)), k = sqrt(2 / pi). */
LS_SIMD ls_vf ls_vf_gelu_tanh(ls_vf x)
{
    ls_vf inner = x * ls_vf_fma(x * x, ls_vf_set(0.0713548162726f), ls_vf_set(1.59576912161f));
    return x * ls_vf_sigmoid(inner);
}

LS_SIMD ls_vf ls_vf_gelu_tanh_slope(ls_vf x)
{
    ls_vf xx = x * x;
    ls_vf inner = x * ls_vf_fma(xx, ls_vf_set(0.0713548162726f), ls_vf_set(1.59576912161f));
    ls_vf inner_slope = ls_vf_fma(xx, ls_vf_set(0.214064448818f), ls_vf_set(1.59576912161f));
    ls_vf e = ls_vf_exp(-inner), s = 1.0f / (1.0f + e);
    ls_vf curve = s * (s * e) * x * inner_slope;        /* s e is 1 - s without cancellation */
    return s + ls_vf_keep(ls_vf_abs(x) < 10.0f, curve); /* for large |x| it would be 0 * infinity */
}

LS_SIMD ls_vf ls_vf_silu(ls_vf x)
{
    return x / (1.0f + ls_vf_exp(-x));
}

LS_SIMD ls_vf ls_vf_silu_slope(ls_vf x)
{
    ls_vf near = ls_vf_clamp(x, ls_vf_set(-87.0f), ls_vf_set(87.0f)); /* beyond, 0 and 1; keeps exp finite */
    ls_vf e = ls_vf_exp(-near), s = 1.0f / (1.0f + e);
    return s * ls_vf_fma(near, s * e, ls_vf_set(1.0f)); /* s e is 1 - s without cancellation */
}

#endif
