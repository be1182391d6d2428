/* lower_index.c - elements and slices picked or added by index. An index out of range fails the call. */
#include "lower.h"

/* in: x, index  out: slices of x along `dim` */
static void take(xla_lowering *l, int dim)
{
    shlo_value x = xla_in_raw(l, 0), index = xla_in_raw(l, 1);
    xla_require(l, xla_in_range(&l->s, index, x.dims.at[dim]));
    xla_out(l, 0, shlo_take(&l->s, x, index, dim));
}

void xla_embedding(xla_lowering *l, const ls_call *call)
{
    (void)call;
    take(l, 0);
}

void xla_index_select(xla_lowering *l, const ls_call *call)
{
    take(l, call->attrs.axis.dim);
}

/* in: index [K], src  out: y; y[..., index[k], ...] += src[..., k, ...] */
void xla_index_add(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    int dim = call->attrs.axis.dim;
    shlo_value index = xla_in_raw(l, 0), y = xla_old(l, 0), rows = xla_in_as(l, 1, y.type);
    shlo_value right = xla_in_range(s, index, y.dims.at[dim]);
    if (call->attrs.axis.flag) { /* beyond the end: left out */
        shlo_value left_out = shlo_compare_with(s, "EQ", index, (double)call->attrs.axis.k);
        index = shlo_select(s, left_out, shlo_integer(s, index.type, y.dims.at[dim], SHLO_SCALAR), index);
        right = shlo_binary(s, "or", right, left_out);
    }
    xla_require(l, right);
    xla_out(l, 0, shlo_put(s, y, index, rows, dim, "add"));
}

/* Where the elements that `index` names are among those of a tensor in row-major order. */
static shlo_value places(shlo *s, shlo_value index, shlo_dims dims, int dim)
{
    int64_t stride = 1;
    shlo_value all = shlo_integer(s, SHLO_I64, 0, SHLO_SCALAR);
    for (int d = dims.n - 1; d >= 0; d--) {
        shlo_value at = d == dim ? index : shlo_iota(s, SHLO_I64, index.dims, d);
        all = shlo_add(s, all, shlo_mul(s, at, shlo_integer(s, SHLO_I64, stride, SHLO_SCALAR)));
        stride *= dims.at[d];
    }
    return all;
}

/* in: x, index  out: y; y[i,j,k] = x[i,index[i,j,k],k] for dim 1 */
void xla_gather(xla_lowering *l, const ls_call *call)
{
    shlo_value x = xla_in_raw(l, 0), index = xla_in_raw(l, 1);
    xla_require(l, xla_in_range(&l->s, index, x.dims.at[call->attrs.axis.dim]));
    shlo_value at = places(&l->s, index, x.dims, call->attrs.axis.dim);
    xla_out(l, 0, shlo_take(&l->s, shlo_flat(&l->s, x), at, 0));
}

/* in: x, index, src  out: y = x, then y[i,index[i,j,k],k] of dim 1 is combined with src[i,j,k] */
static void scatter(xla_lowering *l, const ls_call *call, const char *op)
{
    shlo *s = &l->s;
    shlo_value x = xla_in(l, 0), index = xla_in_raw(l, 1), src = xla_in_as(l, 2, x.type);
    shlo_dims first = {.n = src.dims.n}, step = {.n = src.dims.n};
    for (int d = 0; d < step.n; d++) step.at[d] = 1;
    src = shlo_slice(s, src, first, index.dims, step);
    xla_require(l, xla_in_range(s, index, x.dims.at[call->attrs.axis.dim]));
    shlo_value at = places(s, index, x.dims, call->attrs.axis.dim);
    xla_out(l, 0, shlo_put(s, shlo_flat(s, x), at, src, 0, op));
}

void xla_scatter_add(xla_lowering *l, const ls_call *call)
{
    scatter(l, call, "add");
}

void xla_scatter(xla_lowering *l, const ls_call *call)
{
    scatter(l, call, NULL);
}
