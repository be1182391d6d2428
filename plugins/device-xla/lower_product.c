/* lower_product.c - matrix products. Operands are rounded to the type that the call computes in; sums are f32, or
 * f64. */
#include "lower.h"

static shlo_type operand_type(const ls_call *call)
{
    ls_dtype asked = call->attrs.product.compute;
    return xla_type_of(asked == LS_DTYPE_NONE ? call->in[0]->dtype : asked);
}

static shlo_dims first_dims(int n)
{
    shlo_dims list = {.n = n};
    for (int i = 0; i < n; i++) list.at[i] = i;
    return list;
}

/* The product of matrices along one dimension of each, both without others in common. */
static shlo_value product(shlo *s, shlo_value a, shlo_value b, int along_a, int along_b)
{
    shlo_dot_dims which = {.sum_a = SHLO_DIMS(along_a), .sum_b = SHLO_DIMS(along_b)};
    return shlo_dot(s, a, b, &which, xla_sum_type(a.type));
}

/* in: a [...,M,K], b [...,K,N]  out: c [...,M,N] */
void xla_matmul(xla_lowering *l, const ls_call *call)
{
    shlo_type type = operand_type(call);
    shlo_value a = xla_in_as(l, 0, type), b = xla_in_as(l, 1, type);
    int n = call->out[0]->ndim;
    shlo_dims batch = first_dims(n - 2);
    shlo_dot_dims which = {.batch_a = batch, .batch_b = batch, .sum_a = SHLO_DIMS(n - 1), .sum_b = SHLO_DIMS(n - 2)};
    shlo_value c = shlo_dot(&l->s, a, b, &which, xla_sum_type(type));
    c = xla_activate(&l->s, call->attrs.product.activation, c);
    xla_out_sum(l, 0, c, call->attrs.product.accumulate);
}

/* in: x [...,K], w [N,K], b [N]?  out: y [...,N], pre [...,N]? */
void xla_linear(xla_lowering *l, const ls_call *call)
{
    shlo_type type = operand_type(call), sums = xla_sum_type(type);
    shlo_value x = xla_in_as(l, 0, type), w = xla_in_as(l, 1, type);
    shlo_value pre = product(&l->s, x, w, x.dims.n - 1, 1);
    if (xla_has_in(call, 2)) pre = shlo_add(&l->s, pre, xla_in_as(l, 2, sums));
    shlo_value y = xla_activate(&l->s, call->attrs.product.activation, pre);
    xla_out_sum(l, 0, y, call->attrs.product.accumulate & 1);
    xla_out(l, 1, pre);
}

/* in: dy [M,N], x [M,K]?, w [N,K]?, saved [M,N]?  out: dx [M,K]?, dw [N,K]?, db [N]?, d [M,N]? (private), y [M,N]? */
void xla_linear_grad(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_type type = operand_type(call);
    ls_activation activation = call->attrs.product.activation;
    int32_t accumulate = call->attrs.product.accumulate;
    shlo_value d = xla_in(l, 0), dx = d, dw = d, db = d;
    if (activation != LS_ACT_NONE) { /* rounded as it is in memory elsewhere */
        d = xla_activate_grad(s, activation, d, xla_in(l, 3));
        d = shlo_convert(s, d, xla_type_of(call->in[0]->dtype));
    }
    shlo_value rounded = shlo_convert(s, d, type);
    if (xla_has_out(call, 0)) dx = product(s, rounded, xla_in_as(l, 2, type), 1, 0);
    if (xla_has_out(call, 1)) dw = product(s, rounded, xla_in_as(l, 1, type), 0, 0);
    if (xla_has_out(call, 2)) db = shlo_sum(s, shlo_convert(s, d, xla_sum_type(d.type)), xla_dim_mask(0));
    xla_out_sum(l, 0, dx, accumulate);
    xla_out_sum(l, 1, dw, accumulate);
    xla_out_sum(l, 2, db, accumulate);
    if (xla_has_out(call, 4)) xla_out(l, 4, xla_activate(s, activation, xla_in(l, 3)));
}
