/* lower_elementwise.c - copies, constants, arithmetic, comparisons and mathematics. Inputs broadcast to the output. */
#include <math.h>

#include "lower.h"

/* ---- copies and creation ---- */

void xla_copy(xla_lowering *l, const ls_call *call)
{
    (void)call;
    xla_out(l, 0, xla_in_raw(l, 0));
}

void xla_fill(xla_lowering *l, const ls_call *call)
{
    shlo_type type = xla_compute_type(call->out[0]->dtype);
    xla_out(l, 0, call->live ? xla_live(l, 0) : shlo_number(&l->s, type, call->attrs.affine.shift, SHLO_SCALAR));
}

static bool is_whole(double number)
{
    return fabs(number) < 0x1p63 && floor(number) == number;
}

/* x * scale + shift; of integers exactly, if both numbers are integers. */
static shlo_value affine(shlo *s, shlo_value x, double scale, double shift)
{
    if (!shlo_is_float(x.type) && (!is_whole(scale) || !is_whole(shift))) x = shlo_convert(s, x, SHLO_F64);
    if (scale != 1) x = shlo_with(s, "multiply", x, scale);
    return shift != 0 ? shlo_with(s, "add", x, shift) : x;
}

void xla_arange(xla_lowering *l, const ls_call *call)
{
    const ls_operand *out = call->out[0];
    double step = call->attrs.affine.scale, start = call->attrs.affine.shift;
    bool whole = !shlo_is_float(xla_type_of(out->dtype)) && is_whole(start) && is_whole(step);
    shlo_dims all = SHLO_DIMS(shlo_numel(xla_dims(out)));
    shlo_value i = shlo_convert(&l->s, shlo_iota(&l->s, SHLO_I64, all, 0), whole ? SHLO_I64 : SHLO_F64);
    xla_out(l, 0, affine(&l->s, i, step, start));
}

/* ---- two inputs ---- */

/* Both in the type that arithmetic on them uses. */
static void both(xla_lowering *l, shlo_value *a, shlo_value *b)
{
    shlo_type type = xla_compute_type(xla_promote(l->call->in[0]->dtype, l->call->in[1]->dtype));
    *a = xla_in_as(l, 0, type);
    *b = xla_in_as(l, 1, type);
}

#define XLA_BINARY(name, result)                                                                                       \
    void xla_##name(xla_lowering *l, const ls_call *call)                                                              \
    {                                                                                                                  \
        shlo_value a, b;                                                                                               \
        (void)call;                                                                                                    \
        both(l, &a, &b);                                                                                               \
        xla_out(l, 0, result);                                                                                         \
    }
XLA_BINARY(add, shlo_binary(&l->s, "add", a, b))
XLA_BINARY(sub, shlo_binary(&l->s, "subtract", a, b))
XLA_BINARY(mul, shlo_binary(&l->s, "multiply", a, b))
XLA_BINARY(div, shlo_div(&l->s, a, b))
XLA_BINARY(pow, shlo_binary(&l->s, "power", a, b))

/* NaN if one is, which XLA's own operations lose on some chips. */
static shlo_value better(shlo *s, const char *op, const char *direction, shlo_value a, shlo_value b)
{
    if (!shlo_is_float(a.type)) return shlo_binary(s, op, a, b);
    shlo_value first = shlo_binary(s, "or", shlo_compare(s, direction, a, b), shlo_compare(s, "NE", a, a));
    return shlo_select(s, first, a, b);
}
XLA_BINARY(maximum, better(&l->s, "maximum", "GE", a, b))
XLA_BINARY(minimum, better(&l->s, "minimum", "LE", a, b))

/* What is left has the sign of b. Integers: 0 if b is 0, by which XLA would leave a. */
void xla_remainder(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value a, b;
    (void)call;
    both(l, &a, &b);
    shlo_value zero = shlo_number(s, a.type, 0, SHLO_SCALAR), rest = shlo_binary(s, "remainder", a, b);
    shlo_value other_sign = shlo_binary(s, "xor", shlo_compare(s, "LT", rest, zero), shlo_compare(s, "LT", b, zero));
    shlo_value moves = shlo_binary(s, "and", other_sign, shlo_compare(s, "NE", rest, zero));
    rest = shlo_select(s, moves, shlo_add(s, rest, b), rest);
    if (!shlo_is_float(a.type)) rest = shlo_select(s, shlo_compare(s, "EQ", b, zero), zero, rest);
    xla_out(l, 0, rest);
}

#define XLA_COMPARE(name, direction)                                                                                   \
    void xla_##name(xla_lowering *l, const ls_call *call)                                                              \
    {                                                                                                                  \
        shlo_value a, b;                                                                                               \
        (void)call;                                                                                                    \
        both(l, &a, &b);                                                                                               \
        xla_out(l, 0, shlo_compare(&l->s, direction, a, b));                                                           \
    }
XLA_COMPARE(eq, "EQ")
XLA_COMPARE(ne, "NE")
XLA_COMPARE(lt, "LT")
XLA_COMPARE(le, "LE")
XLA_COMPARE(gt, "GT")
XLA_COMPARE(ge, "GE")

#define XLA_LOGICAL(name, op)                                                                                          \
    void xla_##name(xla_lowering *l, const ls_call *call)                                                              \
    {                                                                                                                  \
        (void)call;                                                                                                    \
        xla_out(l, 0, shlo_binary(&l->s, op, xla_in_as(l, 0, SHLO_I1), xla_in_as(l, 1, SHLO_I1)));                     \
    }
XLA_LOGICAL(logical_and, "and")
XLA_LOGICAL(logical_or, "or")

void xla_where(xla_lowering *l, const ls_call *call)
{
    shlo_type type = xla_compute_type(call->out[0]->dtype);
    xla_out(l, 0, shlo_select(&l->s, xla_in_as(l, 0, SHLO_I1), xla_in_as(l, 1, type), xla_in_as(l, 2, type)));
}

/* ---- one input ---- */

#define XLA_UNARY(name, op)                                                                                            \
    void xla_##name(xla_lowering *l, const ls_call *call)                                                              \
    {                                                                                                                  \
        (void)call;                                                                                                    \
        xla_out(l, 0, shlo_unary(&l->s, op, xla_in(l, 0)));                                                            \
    }
XLA_UNARY(exp, "exponential")
XLA_UNARY(log, "log")
XLA_UNARY(sqrt, "sqrt")
XLA_UNARY(rsqrt, "rsqrt")
XLA_UNARY(sin, "sine")
XLA_UNARY(cos, "cosine")
XLA_UNARY(erf, "chlo.erf")

/* Those that integers have too, as they are or not at all: `real` is for floating numbers. */
#define XLA_EITHER(name, real, whole)                                                                                  \
    void xla_##name(xla_lowering *l, const ls_call *call)                                                              \
    {                                                                                                                  \
        shlo *s = &l->s;                                                                                               \
        shlo_value x = xla_in(l, 0);                                                                                   \
        (void)call;                                                                                                    \
        xla_out(l, 0, shlo_is_float(x.type) ? real : whole);                                                           \
    }
XLA_EITHER(neg, shlo_unary(s, "negate", x), shlo_unary(s, "negate", x))
XLA_EITHER(abs, shlo_unary(s, "abs", x), x.type == SHLO_U8 ? x : shlo_unary(s, "abs", x))
XLA_EITHER(floor, shlo_unary(s, "floor", x), x)
XLA_EITHER(ceil, shlo_unary(s, "ceil", x), x)
XLA_EITHER(square, shlo_mul(s, x, x), shlo_mul(s, x, x))
XLA_EITHER(isfinite, shlo_unary_to_bool(s, "is_finite", x), shlo_integer(s, SHLO_I1, 1, SHLO_SCALAR))

/* 0 where x is neither above nor below, also for NaN. */
void xla_sign(xla_lowering *l, const ls_call *call)
{
    shlo_value x = xla_in(l, 0);
    (void)call;
    shlo_value above = shlo_convert(&l->s, shlo_compare_with(&l->s, "GT", x, 0), x.type);
    shlo_value below = shlo_convert(&l->s, shlo_compare_with(&l->s, "LT", x, 0), x.type);
    xla_out(l, 0, shlo_sub(&l->s, above, below));
}

void xla_reciprocal(xla_lowering *l, const ls_call *call)
{
    shlo_value x = xla_in(l, 0);
    (void)call;
    xla_out(l, 0, shlo_div(&l->s, shlo_number(&l->s, x.type, 1, SHLO_SCALAR), x));
}

void xla_logical_not(xla_lowering *l, const ls_call *call)
{
    (void)call;
    xla_out(l, 0, shlo_compare_with(&l->s, "EQ", xla_in(l, 0), 0));
}

void xla_affine(xla_lowering *l, const ls_call *call)
{
    xla_out(l, 0, affine(&l->s, xla_in(l, 0), call->attrs.affine.scale, call->attrs.affine.shift));
}

void xla_pow_scalar(xla_lowering *l, const ls_call *call)
{
    double exponent = call->attrs.scalar.value;
    shlo *s = &l->s;
    shlo_value x = xla_in(l, 0), one = shlo_number(s, x.type, 1, SHLO_SCALAR);
    bool is_float = shlo_is_float(x.type);
    if (exponent == 2) xla_out(l, 0, shlo_mul(s, x, x));
    else if (exponent == 3) xla_out(l, 0, shlo_mul(s, shlo_mul(s, x, x), x));
    else if (exponent == 0.5 && is_float) xla_out(l, 0, shlo_unary(s, "sqrt", x));
    else if (exponent == -0.5 && is_float) xla_out(l, 0, shlo_unary(s, "rsqrt", x));
    else if (exponent == -1 && is_float) xla_out(l, 0, shlo_div(s, one, x));
    else xla_out(l, 0, shlo_with(s, "power", x, exponent));
}

/* A limit for numbers of this type; of integers the nearest i64. */
static shlo_value limit_of(shlo *s, shlo_type type, double limit)
{
    if (shlo_is_float(type)) return shlo_number(s, type, limit, SHLO_SCALAR);
    int64_t whole = limit >= 0x1p63 ? INT64_MAX : limit <= -0x1p63 ? INT64_MIN : (int64_t)limit;
    return shlo_integer(s, type, whole, SHLO_SCALAR);
}

/* Integers are compared as i64, which has all limits or what comes next to them. */
void xla_clamp(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value x = xla_in(l, 0);
    if (!shlo_is_float(x.type)) x = shlo_convert(s, x, SHLO_I64);
    x = shlo_binary(s, "maximum", x, limit_of(s, x.type, call->attrs.range.low));
    xla_out(l, 0, shlo_binary(s, "minimum", x, limit_of(s, x.type, call->attrs.range.high)));
}

/* in: dy, x */
void xla_clamp_grad(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value dy, x;
    both(l, &dy, &x);
    shlo_value above = shlo_compare_with(s, "GE", x, call->attrs.range.low);
    shlo_value below = shlo_compare_with(s, "LE", x, call->attrs.range.high);
    shlo_value inside = shlo_binary(s, "and", above, below);
    xla_out(l, 0, shlo_select(s, inside, dy, shlo_number(s, dy.type, 0, SHLO_SCALAR)));
}
