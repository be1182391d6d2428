/* lower_softmax.c - softmax and log softmax along one dimension, and their gradients. */
#include "lower.h"

/* A single number is a row of one. */
static shlo_value as_rows(shlo *s, shlo_value x)
{
    return x.dims.n ? x : shlo_reshape(s, x, SHLO_DIMS(1));
}

static shlo_value less_maximum(shlo *s, shlo_value x, uint32_t along)
{
    return shlo_sub(s, x, shlo_reduce(s, "maximum", x, along));
}

/* in: x  out: y */
void xla_softmax(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    uint32_t along = xla_dim_mask(call->attrs.axis.dim);
    shlo_value e = shlo_unary(s, "exponential", less_maximum(s, as_rows(s, xla_in(l, 0)), along));
    xla_out(l, 0, shlo_div(s, e, shlo_sum(s, e, along)));
}

void xla_log_softmax(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    uint32_t along = xla_dim_mask(call->attrs.axis.dim);
    shlo_value x = less_maximum(s, as_rows(s, xla_in(l, 0)), along);
    shlo_value sum = shlo_sum(s, shlo_unary(s, "exponential", x), along);
    xla_out(l, 0, shlo_sub(s, x, shlo_unary(s, "log", sum)));
}

/* in: dy, y  out: dx */
void xla_softmax_grad(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value dy = as_rows(s, xla_in(l, 0)), y = as_rows(s, xla_in(l, 1));
    shlo_value dot = shlo_sum(s, shlo_mul(s, dy, y), xla_dim_mask(call->attrs.axis.dim));
    xla_out(l, 0, shlo_mul(s, y, shlo_sub(s, dy, dot)));
}

void xla_log_softmax_grad(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value dy = as_rows(s, xla_in(l, 0)), y = as_rows(s, xla_in(l, 1));
    shlo_value sum = shlo_sum(s, dy, xla_dim_mask(call->attrs.axis.dim));
    xla_out(l, 0, shlo_sub(s, dy, shlo_mul(s, shlo_unary(s, "exponential", y), sum)));
}
