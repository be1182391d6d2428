/* lower_activation.c - activations and their gradients, as operators and within others. */
#include "lower.h"

static shlo_value zero_of(shlo *s, shlo_value x)
{
    return shlo_number(s, x.type, 0, SHLO_SCALAR);
}

static shlo_value logistic(shlo *s, shlo_value x)
{
    return shlo_unary(s, "logistic", x);
}

/* Probability that a normal number is below x. Far below 0 the sum is 0 in every type, but XLA's erf of f32 never gets
 * closer to -1 than 1.8e-7, which may be multiplied with a large x. */
static shlo_value normal_cdf(shlo *s, shlo_value x)
{
    shlo_value erf = shlo_unary(s, "chlo.erf", shlo_with(s, "multiply", x, 0.70710678118654752440));
    shlo_value below = shlo_with(s, "multiply", shlo_with(s, "add", erf, 1), 0.5);
    return shlo_select(s, shlo_compare_with(s, "LT", x, -9), zero_of(s, x), below);
}

/* GELU's tanh form is x logistic(inner): 2 sqrt(2 / pi) (x + 0.044715 x^3), and its slope. */
static shlo_value gelu_inner(shlo *s, shlo_value x)
{
    shlo_value cube = shlo_with(s, "multiply", shlo_mul(s, shlo_mul(s, x, x), x), 0.044715);
    return shlo_with(s, "multiply", shlo_add(s, x, cube), 1.59576912160573071176);
}

static shlo_value gelu_inner_slope(shlo *s, shlo_value x)
{
    shlo_value square = shlo_with(s, "multiply", shlo_mul(s, x, x), 3 * 0.044715);
    return shlo_with(s, "multiply", shlo_with(s, "add", square, 1), 1.59576912160573071176);
}

/* 0 where `x` is infinite: there infinity times 0 stands for 0. */
static shlo_value tamed(shlo *s, shlo_value x, shlo_value product)
{
    return shlo_select(s, shlo_unary_to_bool(s, "is_finite", x), product, zero_of(s, x));
}

static shlo_value gelu_slope(shlo *s, shlo_value x)
{
    shlo_value density = shlo_unary(s, "exponential", shlo_with(s, "multiply", shlo_mul(s, x, x), -0.5));
    density = shlo_with(s, "multiply", density, 0.39894228040143267794);
    return shlo_add(s, normal_cdf(s, x), tamed(s, x, shlo_mul(s, x, density)));
}

static shlo_value gelu_tanh_slope(shlo *s, shlo_value x)
{
    shlo_value p = logistic(s, gelu_inner(s, x)), q = shlo_one_minus(s, p);
    shlo_value bend = shlo_mul(s, shlo_mul(s, p, q), shlo_mul(s, x, gelu_inner_slope(s, x)));
    shlo_value far = shlo_compare_with(s, "GT", shlo_unary(s, "abs", x), 30);
    return shlo_add(s, p, shlo_select(s, far, zero_of(s, x), bend));
}

static shlo_value silu_slope(shlo *s, shlo_value x)
{
    shlo_value p = logistic(s, x), bend = shlo_mul(s, x, logistic(s, shlo_unary(s, "negate", x)));
    return shlo_mul(s, p, shlo_with(s, "add", tamed(s, x, bend), 1));
}

/* max(x, 0) that passes NaN. */
static shlo_value relu(shlo *s, shlo_value x)
{
    return shlo_with(s, "maximum", x, 0);
}

shlo_value xla_activate(shlo *s, ls_activation activation, shlo_value x)
{
    switch (activation) {
    case LS_ACT_RELU: return relu(s, x);
    case LS_ACT_GELU: return shlo_mul(s, x, normal_cdf(s, x));
    case LS_ACT_GELU_TANH: return shlo_mul(s, x, logistic(s, gelu_inner(s, x)));
    case LS_ACT_SILU: return shlo_mul(s, x, logistic(s, x));
    case LS_ACT_TANH: return shlo_unary(s, "tanh", x);
    case LS_ACT_SIGMOID: return logistic(s, x);
    default: return x;
    }
}

shlo_value xla_activate_grad(shlo *s, ls_activation activation, shlo_value dy, shlo_value saved)
{
    switch (activation) {
    case LS_ACT_RELU: return shlo_select(s, shlo_compare_with(s, "GT", saved, 0), dy, zero_of(s, dy));
    case LS_ACT_GELU: return shlo_mul(s, dy, gelu_slope(s, saved));
    case LS_ACT_GELU_TANH: return shlo_mul(s, dy, gelu_tanh_slope(s, saved));
    case LS_ACT_SILU: return shlo_mul(s, dy, silu_slope(s, saved));
    case LS_ACT_TANH: return shlo_mul(s, dy, shlo_one_minus(s, shlo_mul(s, saved, saved)));
    case LS_ACT_SIGMOID: return shlo_mul(s, dy, shlo_mul(s, saved, shlo_one_minus(s, saved)));
    default: return dy;
    }
}

/* ---- the operators ---- */

#define XLA_ACTIVATION(name, activation)                                                                               \
    void xla_##name(xla_lowering *l, const ls_call *call)                                                              \
    {                                                                                                                  \
        (void)call;                                                                                                    \
        xla_out(l, 0, xla_activate(&l->s, activation, xla_in(l, 0)));                                                  \
    }                                                                                                                  \
    void xla_##name##_grad(xla_lowering *l, const ls_call *call)                                                       \
    {                                                                                                                  \
        (void)call;                                                                                                    \
        xla_out(l, 0, xla_activate_grad(&l->s, activation, xla_in(l, 0), xla_in(l, 1)));                               \
    }
XLA_ACTIVATION(relu, LS_ACT_RELU)
XLA_ACTIVATION(gelu, call->attrs.gelu.tanh ? LS_ACT_GELU_TANH : LS_ACT_GELU)
XLA_ACTIVATION(silu, LS_ACT_SILU)
XLA_ACTIVATION(sigmoid, LS_ACT_SIGMOID)
XLA_ACTIVATION(tanh, LS_ACT_TANH)

/* log(1 + exp(beta x)) / beta, from the side where exp does not overflow */
void xla_softplus(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value x = xla_in(l, 0), scaled = shlo_with(s, "multiply", x, call->attrs.scalar.value);
    shlo_value small = shlo_unary(s, "exponential", shlo_unary(s, "negate", shlo_unary(s, "abs", scaled)));
    shlo_value sum = shlo_add(s, relu(s, scaled), shlo_unary(s, "log_plus_one", small));
    xla_out(l, 0, shlo_with(s, "divide", sum, call->attrs.scalar.value));
}

void xla_softplus_grad(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value dy = xla_in(l, 0), x = xla_in(l, 1);
    xla_out(l, 0, shlo_mul(s, dy, logistic(s, shlo_with(s, "multiply", x, call->attrs.scalar.value))));
}

void xla_elu(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value x = xla_in(l, 0), above = shlo_compare_with(s, "GT", x, 0);
    shlo_value low = shlo_with(s, "multiply", shlo_unary(s, "exponential_minus_one", x), call->attrs.scalar.value);
    xla_out(l, 0, shlo_select(s, above, x, low));
}

void xla_elu_grad(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value dy = xla_in(l, 0), x = xla_in(l, 1), above = shlo_compare_with(s, "GT", x, 0);
    shlo_value slope = shlo_with(s, "multiply", shlo_unary(s, "exponential", x), call->attrs.scalar.value);
    xla_out(l, 0, shlo_select(s, above, dy, shlo_mul(s, dy, slope)));
}

void xla_leaky_relu(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value x = xla_in(l, 0), above = shlo_compare_with(s, "GT", x, 0);
    xla_out(l, 0, shlo_select(s, above, x, shlo_with(s, "multiply", x, call->attrs.scalar.value)));
}

void xla_leaky_relu_grad(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value dy = xla_in(l, 0), x = xla_in(l, 1), above = shlo_compare_with(s, "GT", x, 0);
    xla_out(l, 0, shlo_select(s, above, dy, shlo_with(s, "multiply", dy, call->attrs.scalar.value)));
}
