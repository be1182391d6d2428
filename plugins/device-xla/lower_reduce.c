/* lower_reduce.c - reductions over dimensions and running sums. Half types are summed in f32, integers in i64. */
#include <math.h>

#include "lower.h"

static shlo_value in_sum_type(xla_lowering *l, int i)
{
    shlo_value x = xla_in(l, i);
    return shlo_is_float(x.type) ? x : shlo_convert(&l->s, x, SHLO_I64);
}

static double count_of(const ls_call *call)
{
    double n = 1;
    for (int d = 0; d < call->in[0]->ndim; d++)
        if (call->attrs.reduce.mask >> d & 1) n *= (double)call->in[0]->dim[d];
    return n;
}

void xla_sum(xla_lowering *l, const ls_call *call)
{
    shlo_value sum = shlo_sum(&l->s, in_sum_type(l, 0), call->attrs.reduce.mask);
    xla_out_sum(l, 0, sum, call->attrs.reduce.accumulate);
}

static shlo_value mean(shlo *s, const ls_call *call, shlo_value x)
{
    return shlo_with(s, "divide", shlo_sum(s, x, call->attrs.reduce.mask), count_of(call));
}

void xla_mean(xla_lowering *l, const ls_call *call)
{
    xla_out(l, 0, mean(&l->s, call, xla_in(l, 0)));
}

/* The largest or smallest; NaN if one is, which XLA's own reductions lose on some chips. */
static shlo_value extreme(shlo *s, const char *op, shlo_value x, uint32_t mask)
{
    shlo_value best = shlo_reduce(s, op, x, mask);
    if (!shlo_is_float(x.type)) return best;
    shlo_value any = shlo_reduce(s, "or", shlo_compare(s, "NE", x, x), mask);
    return shlo_select(s, any, shlo_number(s, x.type, NAN, best.dims), best);
}

void xla_max(xla_lowering *l, const ls_call *call)
{
    xla_out(l, 0, extreme(&l->s, "maximum", xla_in(l, 0), call->attrs.reduce.mask));
}

void xla_min(xla_lowering *l, const ls_call *call)
{
    xla_out(l, 0, extreme(&l->s, "minimum", xla_in(l, 0), call->attrs.reduce.mask));
}

void xla_var(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value x = xla_in(l, 0), away = shlo_sub(s, x, mean(s, call, x));
    double n = fmax(count_of(call) - call->attrs.reduce.correction, 0);
    shlo_value squares = shlo_sum(s, shlo_mul(s, away, away), call->attrs.reduce.mask);
    xla_out(l, 0, shlo_with(s, "divide", squares, n));
}

void xla_norm(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value x = xla_in(l, 0);
    xla_out(l, 0, shlo_unary(s, "sqrt", shlo_sum(s, shlo_mul(s, x, x), call->attrs.reduce.mask)));
}

/* The first place where x equals the extreme, which is NaN if there is one. */
static void arg_extreme(xla_lowering *l, const ls_call *call, const char *op)
{
    shlo *s = &l->s;
    int dim = call->attrs.axis.dim;
    shlo_value x = xla_in(l, 0);
    if (x.dims.n == 0) {
        xla_out(l, 0, shlo_integer(s, SHLO_I64, 0, SHLO_SCALAR));
        return;
    }
    shlo_value found = shlo_compare(s, "EQ", x, extreme(s, op, x, xla_dim_mask(dim)));
    if (shlo_is_float(x.type)) found = shlo_binary(s, "or", found, shlo_compare(s, "NE", x, x));
    shlo_value none = shlo_integer(s, SHLO_I64, x.dims.at[dim], SHLO_SCALAR);
    shlo_value places = shlo_select(s, found, shlo_iota(s, SHLO_I64, x.dims, dim), none);
    xla_out(l, 0, shlo_reduce(s, "minimum", places, xla_dim_mask(dim)));
}

void xla_argmax(xla_lowering *l, const ls_call *call)
{
    arg_extreme(l, call, "maximum");
}

void xla_argmin(xla_lowering *l, const ls_call *call)
{
    arg_extreme(l, call, "minimum");
}

/* x moved by k places along a dimension, with zeros behind it. */
static shlo_value shifted(shlo *s, shlo_value x, int dim, int64_t k)
{
    shlo_dims none = {.n = x.dims.n}, before = none, after = none;
    before.at[dim] = k;
    after.at[dim] = -k;
    return shlo_pad(s, x, shlo_number(s, x.type, 0, SHLO_SCALAR), before, after, none);
}

/* Sums of 1, 2, 4, ... elements up to each place: as many additions as the length has bits. */
void xla_cumsum(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    int dim = call->attrs.axis.dim;
    shlo_value sum = in_sum_type(l, 0);
    int64_t n = sum.dims.n ? sum.dims.at[dim] : 1;
    for (int64_t k = 1; k < n; k *= 2) sum = shlo_add(s, sum, shifted(s, sum, dim, call->attrs.axis.flag ? -k : k));
    xla_out(l, 0, sum);
}
