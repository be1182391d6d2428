/* elementwise.c - the definition of every map: one expression for real numbers, one for integers, in double or int64_t.
 * All ISAs use these kernels for f64. */
#include "kernels/elementwise.h"

#include "base/rng.h"
#include "kernels/ref/number.h"

#include <math.h>

/* ---- real numbers ------------------------------------------------------------------------------------------------ */

#define LS_REAL(name, expression)                                                                                      \
    static inline ls_real name##_real(ls_real x, ls_real y, const double *k)                                           \
    {                                                                                                                  \
        (void)y, (void)k;                                                                                              \
        return expression;                                                                                             \
    }

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440);
}

/* The argument of the logistic function that makes gelu's tanh form: 2 sqrt(2 / pi) (x + 0.044715 x^3),
 * and its slope. */
static double gelu_inner(double x)
{
    return 1.59576912160573071176 * (x + 0.044715 * x * x * x);
}

static double gelu_inner_slope(double x)
{
    return 1.59576912160573071176 * (1 + 3 * 0.044715 * x * x);
}

static double gelu_slope(double x)
{
    return normal_cdf(x) + (isinf(x) ? 0 : x * exp(-0.5 * x * x) * 0.39894228040143267794);
}

static double gelu_tanh_slope(double x)
{
    double s = sigmoid(gelu_inner(x));
    return s + (fabs(x) > 30 ? 0 : s * sigmoid(-gelu_inner(x)) * x * gelu_inner_slope(x));
}

static double silu_slope(double x)
{
    double s = sigmoid(x);
    return s * (1 + (isinf(x) ? 0 : x * sigmoid(-x)));
}

static double softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

/* As Python's %: the sign of y. fmod() is exact. */
static double remainder_of(double x, double y)
{
    double r = fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

/* clang-format off */
LS_REAL(add,             x + y)
LS_REAL(sub,             x - y)
LS_REAL(mul,             x * y)
LS_REAL(div,             x / y)
LS_REAL(pow,             pow(x, y))
LS_REAL(maximum,         x > y || x != x ? x : y)
LS_REAL(minimum,         x < y || x != x ? x : y)
LS_REAL(remainder,       remainder_of(x, y))
LS_REAL(eq,              x == y)
LS_REAL(ne,              x != y)
LS_REAL(lt,              x < y)
LS_REAL(le,              x <= y)
LS_REAL(gt,              x > y)
LS_REAL(ge,              x >= y)
LS_REAL(logical_and,     x != 0 && y != 0)
LS_REAL(logical_or,      x != 0 || y != 0)
LS_REAL(affine,          fma(x, k[0], k[1]))
LS_REAL(pow_scalar,      pow(x, k[0]))
LS_REAL(clamp,           x != x ? x : fmin(fmax(x, k[0]), k[1]))
LS_REAL(neg,             -x)
LS_REAL(abs,             fabs(x))
LS_REAL(sign,            (x > 0) - (x < 0))
LS_REAL(exp,             exp(x))
LS_REAL(log,             log(x))
LS_REAL(sqrt,            sqrt(x))
LS_REAL(rsqrt,           1 / sqrt(x))
LS_REAL(square,          x * x)
LS_REAL(cube,            x * x * x)
LS_REAL(reciprocal,      1 / x)
LS_REAL(sin,             sin(x))
LS_REAL(cos,             cos(x))
LS_REAL(erf,             erf(x))
LS_REAL(floor,           floor(x))
LS_REAL(ceil,            ceil(x))
LS_REAL(logical_not,     x == 0)
LS_REAL(isfinite,        isfinite(x))
LS_REAL(relu,            x > 0 || x != x ? x : 0)
LS_REAL(gelu,            x * normal_cdf(x))
LS_REAL(gelu_tanh,       x * sigmoid(gelu_inner(x)))
LS_REAL(silu,            x * sigmoid(x))
LS_REAL(sigmoid,         sigmoid(x))
LS_REAL(tanh,            tanh(x))
LS_REAL(softplus,        softplus(x * k[0]) / k[0])
LS_REAL(elu,             x > 0 ? x : k[0] * expm1(x))
LS_REAL(leaky_relu,      x > 0 ? x : k[0] * x)
LS_REAL(relu_grad,       y > 0 ? x : 0)
LS_REAL(sigmoid_grad,    x * y * (1 - y))
LS_REAL(tanh_grad,       x * (1 - y * y))
LS_REAL(gelu_grad,       x * gelu_slope(y))
LS_REAL(gelu_tanh_grad,  x * gelu_tanh_slope(y))
LS_REAL(silu_grad,       x * silu_slope(y))
LS_REAL(softplus_grad,   x * sigmoid(y * k[0]))
LS_REAL(elu_grad,        y > 0 ? x : x * k[0] * exp(y))
LS_REAL(leaky_relu_grad, y > 0 ? x : x * k[0])
LS_REAL(clamp_grad,      y >= k[0] && y <= k[1] ? x : 0)
/* clang-format on */

/* ---- integers: arithmetic wraps around, as in hardware ----------------------------------------------------------- */

#define LS_WHOLE(name, expression)                                                                                     \
    static inline ls_whole name##_whole(ls_whole x, ls_whole y, const double *k)                                       \
    {                                                                                                                  \
        (void)x, (void)y, (void)k;                                                                                     \
        return expression;                                                                                             \
    }

static ls_whole wrap_multiply(ls_whole x, ls_whole y)
{
    return (ls_whole)((uint64_t)x * (uint64_t)y);
}

static ls_whole wrap_negate(ls_whole x)
{
    return (ls_whole)(0 - (uint64_t)x);
}

static ls_whole whole_power(ls_whole x, ls_whole y)
{
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    ls_whole result = 1;
    for (; y; y >>= 1, x = wrap_multiply(x, x)) {
        if (y & 1) result = wrap_multiply(result, x);
    }
    return result;
}

/* Zero by 0; -1 is apart because the smallest integer has no quotient by it. */
static ls_whole whole_remainder(ls_whole x, ls_whole y)
{
    if (y == 0 || y == -1) return 0;
    ls_whole r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

/* Exact if both numbers are integers, which they are unless a caller rounds on purpose. */
static ls_whole whole_affine(ls_whole x, double scale, double shift)
{
    ls_whole a = ls_whole_of_real(scale), b = ls_whole_of_real(shift);
    if ((double)a != scale || (double)b != shift) return ls_whole_of_real((double)x * scale + shift);
    return (ls_whole)((uint64_t)wrap_multiply(x, a) + (uint64_t)b);
}

static ls_whole whole_clamp(ls_whole x, double low, double high)
{
    if ((double)x < low) x = ls_whole_of_real(low);
    return (double)x > high ? ls_whole_of_real(high) : x;
}

/* clang-format off */
LS_WHOLE(add,             (ls_whole)((uint64_t)x + (uint64_t)y))
LS_WHOLE(sub,             (ls_whole)((uint64_t)x - (uint64_t)y))
LS_WHOLE(mul,             wrap_multiply(x, y))
LS_WHOLE(pow,             whole_power(x, y))
LS_WHOLE(maximum,         x > y ? x : y)
LS_WHOLE(minimum,         x < y ? x : y)
LS_WHOLE(remainder,       whole_remainder(x, y))
LS_WHOLE(eq,              x == y)
LS_WHOLE(ne,              x != y)
LS_WHOLE(lt,              x < y)
LS_WHOLE(le,              x <= y)
LS_WHOLE(gt,              x > y)
LS_WHOLE(ge,              x >= y)
LS_WHOLE(logical_and,     x && y)
LS_WHOLE(logical_or,      x || y)
LS_WHOLE(affine,          whole_affine(x, k[0], k[1]))
LS_WHOLE(pow_scalar,      whole_power(x, ls_whole_of_real(k[0])))
LS_WHOLE(clamp,           whole_clamp(x, k[0], k[1]))
LS_WHOLE(neg,             wrap_negate(x))
LS_WHOLE(abs,             x < 0 ? wrap_negate(x) : x)
LS_WHOLE(sign,            (x > 0) - (x < 0))
LS_WHOLE(square,          wrap_multiply(x, x))
LS_WHOLE(cube,            wrap_multiply(wrap_multiply(x, x), x))
LS_WHOLE(floor,           x)
LS_WHOLE(ceil,            x)
LS_WHOLE(logical_not,     x == 0)
LS_WHOLE(isfinite,        1)
LS_WHOLE(relu,            x > 0 ? x : 0)
/* clang-format on */

/* ---- loops ------------------------------------------------------------------------------------------------------- */

#define LS_TYPE_SAME(dtype) type_##dtype
#define LS_TYPE_BOOL(dtype) uint8_t
#define LS_PUT_SAME(dtype, class, value) put_##class##_##dtype(value)
#define LS_PUT_BOOL(dtype, class, value) (value) != 0

#define LS_LOOP(dtype, class, type, get, put_whole, put_real, name, inputs, result)                                    \
    static void name##_##dtype(int64_t n, void *const *p, const double *k)                                             \
    {                                                                                                                  \
        LS_TYPE_##result(dtype) *out = p[0];                                                                           \
        const type *x = p[1], *y = p[inputs];                                                                          \
        for (int64_t i = 0; i < n; i++)                                                                                \
            out[i] = LS_PUT_##result(dtype, class, name##_##class(get_##dtype(x[i]), get_##dtype(y[i]), k));           \
    }
#define LS_LOOPS_FLOAT(...) LS_REAL_LIST(LS_LOOP, __VA_ARGS__)
#define LS_LOOPS_ALL(...) LS_WHOLE_LIST(LS_LOOP, __VA_ARGS__) LS_REAL_LIST(LS_LOOP, __VA_ARGS__)
#define LS_MAP(name, inputs, result, numbers, cost) LS_LOOPS_##numbers(name, inputs, result)
LS_MAP_LIST(LS_MAP)
#undef LS_MAP

/* to, then from: expanded once per pair. */
#define LS_CONVERT(dtype, class, type, get, put_whole, put_real, to)                                                   \
    static void to##_from_##dtype(int64_t n, void *const *p, const double *k)                                          \
    {                                                                                                                  \
        (void)k;                                                                                                       \
        type_##to *out = p[0];                                                                                         \
        const type *x = p[1];                                                                                          \
        for (int64_t i = 0; i < n; i++) out[i] = put_##class##_##to(get_##dtype(x[i]));                                \
    }
#define LS_CONVERTS(to) LS_WHOLE_LIST(LS_CONVERT, to) LS_REAL_LIST(LS_CONVERT, to)
#define LS_DTYPE(dtype, name, bytes, is_float) LS_CONVERTS(dtype)
LS_DTYPE_LIST(LS_DTYPE)
#undef LS_DTYPE

/* LS_SIZE(bytes, type): functions that depend only on the size of an element. */
#define LS_SIZE(bytes, type)                                                                                           \
    static void where_##bytes(int64_t n, void *const *p, const double *k)                                              \
    {                                                                                                                  \
        (void)k;                                                                                                       \
        type *out = p[0];                                                                                              \
        const uint8_t *condition = p[1];                                                                               \
        const type *a = p[2], *b = p[3];                                                                               \
        for (int64_t i = 0; i < n; i++) out[i] = condition[i] ? a[i] : b[i];                                           \
    }                                                                                                                  \
    static void transpose_##bytes(int64_t rows, int64_t columns, void *out, int64_t out_stride, const void *in,        \
                                  int64_t in_stride)                                                                   \
    {                                                                                                                  \
        type *to = out;                                                                                                \
        const type *from = in;                                                                                         \
        for (int64_t r = 0; r < rows; r++)                                                                             \
            for (int64_t c = 0; c < columns; c++) to[c * out_stride + r] = from[r * in_stride + c];                    \
    }
LS_SIZE(1, uint8_t)
LS_SIZE(2, uint16_t)
LS_SIZE(4, uint32_t)
LS_SIZE(8, uint64_t)

/* Kept elements are scaled in f32 unless they are f64: the same bits on every ISA. */
#define LS_DROPOUT(dtype, class, type, get, put_whole, put_real, ...)                                                  \
    static void dropout_##dtype(int64_t n, int64_t first, void *out, const void *x, const ls_dropout_rule *how)        \
    {                                                                                                                  \
        type *to = out;                                                                                                \
        const type *from = x;                                                                                          \
        uint32_t threshold = ls_dropout_threshold(how->p);                                                             \
        double scale = 1 / (1 - how->p);                                                                               \
        if (dtype != LS_F64) scale = (float)scale;                                                                     \
        ls_philox4 words = {{0}};                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            uint64_t at = (uint64_t)(first + i);                                                                       \
            if (i == 0 || at % 4 == 0) words = ls_philox(how->seed, how->offset + at / 4);                             \
            bool kept = how->noted ? how->noted[i / 8] >> i % 8 & 1 : words.lane[at % 4] >> 8 >= threshold;            \
            if (how->note) how->note[i / 8] = (uint8_t)((i % 8 ? how->note[i / 8] : 0) | kept << i % 8);               \
            to[i] = put_real_##dtype(kept ? get_##dtype(from[i]) * scale : 0);                                         \
        }                                                                                                              \
    }
LS_REAL_LIST(LS_DROPOUT, )

static void words(int64_t blocks, uint64_t seed, uint64_t counter, uint32_t *word)
{
    for (int64_t i = 0; i < blocks; i++) {
        ls_philox4 block = ls_philox(seed, counter + (uint64_t)i);
        for (int lane = 0; lane < 4; lane++) word[4 * i + lane] = block.lane[lane];
    }
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define LS_ENTRY(dtype, class, type, get, put_whole, put_real, name) [dtype] = name##_##dtype,
#define LS_ENTRIES_FLOAT(name) LS_REAL_LIST(LS_ENTRY, name)
#define LS_ENTRIES_ALL(name) LS_WHOLE_LIST(LS_ENTRY, name) LS_REAL_LIST(LS_ENTRY, name)
#define LS_CONVERT_ENTRY(dtype, class, type, get, put_whole, put_real, to) [dtype][to] = to##_from_##dtype,

const ls_elementwise ls_elementwise_ref = {
    .map =
        {
#define LS_MAP(name, inputs, result, numbers, cost) [LS_MAP_##name] = {LS_ENTRIES_##numbers(name)},
            LS_MAP_LIST(LS_MAP)
#undef LS_MAP
        },
    .convert =
        {
#define LS_DTYPE(to, name, bytes, is_float)                                                                            \
    LS_WHOLE_LIST(LS_CONVERT_ENTRY, to)                                                                                \
    LS_REAL_LIST(LS_CONVERT_ENTRY, to)
            LS_DTYPE_LIST(LS_DTYPE)
#undef LS_DTYPE
        },
    .dropout = {LS_REAL_LIST(LS_ENTRY, dropout)},
#define LS_DTYPE(dtype, name, bytes, is_float) [dtype] = where_##bytes,
    .where = {LS_DTYPE_LIST(LS_DTYPE)},
#undef LS_DTYPE
#define LS_DTYPE(dtype, name, bytes, is_float) [dtype] = transpose_##bytes,
    .transpose = {LS_DTYPE_LIST(LS_DTYPE)},
#undef LS_DTYPE
    .words = words,
};
