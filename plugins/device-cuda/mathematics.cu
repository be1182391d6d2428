/* mathematics.cu - one input: functions of a number, with the CPU's definitions (src/kernels/ref/elementwise.c). */
#include "map.cuh"
#include "whole.cuh"

/* Exact if both numbers are whole. */
static __device__ int64_t whole_affine(int64_t x, double scale, double shift)
{
    int64_t a = whole_of(scale), b = whole_of(shift);
    if ((double)a != scale || (double)b != shift) return whole_of(__dadd_rn(__dmul_rn((double)x, scale), shift));
    return (int64_t)((uint64_t)whole_multiply(x, a) + (uint64_t)b);
}

static __device__ int64_t whole_clamp(int64_t x, double low, double high)
{
    if ((double)x < low) x = whole_of(low);
    return (double)x > high ? whole_of(high) : x;
}

/* clang-format off */
MAP_REAL(affine,      ::fma(x, k0, k1))
MAP_REAL(pow_scalar,  ::pow(x, k0))
MAP_REAL(clamp,       x != x ? x : ::fmin(::fmax(x, k0), k1))
MAP_REAL(neg,         -x)
MAP_REAL(abs,         ::fabs(x))
MAP_REAL(sign,        (x > 0) - (x < 0))
MAP_REAL(exp,         ::exp(x))
MAP_REAL(log,         ::log(x))
MAP_REAL(sqrt,        ::sqrt(x))
MAP_REAL(rsqrt,       R(1) / ::sqrt(x))
MAP_REAL(square,      x * x)
MAP_REAL(cube,        x * x * x)
MAP_REAL(reciprocal,  R(1) / x)
MAP_REAL(sin,         ::sin(x))
MAP_REAL(cos,         ::cos(x))
MAP_REAL(erf,         ::erf(x))
MAP_REAL(floor,       ::floor(x))
MAP_REAL(ceil,        ::ceil(x))
MAP_REAL(logical_not, x == 0)
MAP_REAL(isfinite,    x - x == 0)

MAP_WHOLE(affine,      whole_affine(x, k0, k1))
MAP_WHOLE(pow_scalar,  whole_power(x, whole_of(k0)))
MAP_WHOLE(clamp,       whole_clamp(x, k0, k1))
MAP_WHOLE(neg,         whole_negate(x))
MAP_WHOLE(abs,         x < 0 ? whole_negate(x) : x)
MAP_WHOLE(sign,        (x > 0) - (x < 0))
MAP_WHOLE(square,      whole_multiply(x, x))
MAP_WHOLE(cube,        whole_multiply(whole_multiply(x, x), x))
MAP_WHOLE(floor,       x)
MAP_WHOLE(ceil,        x)
MAP_WHOLE(logical_not, x == 0)
MAP_WHOLE(isfinite,    1)
/* clang-format on */

MAP_ALL(affine, 1, false)
MAP_ALL(pow_scalar, 1, false)
MAP_ALL(clamp, 1, false)
MAP_ALL(neg, 1, false)
MAP_ALL(abs, 1, false)
MAP_ALL(sign, 1, false)
MAP_FLOAT(exp, 1, false)
MAP_FLOAT(log, 1, false)
MAP_FLOAT(sqrt, 1, false)
MAP_FLOAT(rsqrt, 1, false)
MAP_ALL(square, 1, false)
MAP_ALL(cube, 1, false)
MAP_FLOAT(reciprocal, 1, false)
MAP_FLOAT(sin, 1, false)
MAP_FLOAT(cos, 1, false)
MAP_FLOAT(erf, 1, false)
MAP_ALL(floor, 1, false)
MAP_ALL(ceil, 1, false)
MAP_ALL(logical_not, 1, true)
MAP_ALL(isfinite, 1, true)

MAP_OPERATOR(affine, call->attrs.affine.scale, call->attrs.affine.shift)
MAP_OPERATOR(clamp, call->attrs.range.low, call->attrs.range.high)
MAP_OPERATOR(neg, 0, 0)
MAP_OPERATOR(abs, 0, 0)
MAP_OPERATOR(sign, 0, 0)
MAP_OPERATOR(exp, 0, 0)
MAP_OPERATOR(log, 0, 0)
MAP_OPERATOR(sqrt, 0, 0)
MAP_OPERATOR(rsqrt, 0, 0)
MAP_OPERATOR(square, 0, 0)
MAP_OPERATOR(reciprocal, 0, 0)
MAP_OPERATOR(sin, 0, 0)
MAP_OPERATOR(cos, 0, 0)
MAP_OPERATOR(erf, 0, 0)
MAP_OPERATOR(floor, 0, 0)
MAP_OPERATOR(ceil, 0, 0)
MAP_OPERATOR(logical_not, 0, 0)
MAP_OPERATOR(isfinite, 0, 0)

/* Common exponents have kernels many times faster than the general one. */
ls_status cuda_pow_scalar(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    double exponent = call->attrs.scalar.value;
    bool is_real = cuda_is_float(call->in[0]->dtype);
    const map_kind *kind = &pow_scalar_map;
    if (exponent == 2) kind = &square_map;
    else if (exponent == 3) kind = &cube_map;
    else if (exponent == 0.5 && is_real) kind = &sqrt_map;
    else if (exponent == -1 && is_real) kind = &reciprocal_map;
    else if (exponent == -0.5 && is_real) kind = &rsqrt_map;
    return map_run(d, stream, call, kind, exponent, 0, why);
}
