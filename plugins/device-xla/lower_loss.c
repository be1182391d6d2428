/* lower_loss.c - losses that compare element by element: mean squared error, smooth L1, binary cross entropy. */
#include "lower.h"

typedef struct loss_inputs {
    shlo_value x, t;
    shlo_value d; /* x - t */
} loss_inputs;

static loss_inputs inputs_from(xla_lowering *l, int first)
{
    loss_inputs in = {.x = xla_in(l, first), .t = xla_in(l, first + 1)};
    in.d = shlo_sub(&l->s, in.x, in.t);
    return in;
}

/* Write the loss of each element, or their sum or mean. */
static void reduce_to_loss(xla_lowering *l, shlo_value each)
{
    shlo *s = &l->s;
    ls_reduction reduction = l->call->attrs.loss.reduction;
    if (reduction != LS_REDUCE_NONE && each.dims.n) {
        double n = (double)shlo_numel(each.dims);
        each = shlo_sum(s, each, xla_all_dims(each));
        if (reduction == LS_REDUCE_MEAN) each = shlo_with(s, "divide", each, n); /* of nothing: NaN */
    }
    xla_out(l, 0, each);
}

/* Write slope times the gradient of the loss, input 0. */
static void write_gradient(xla_lowering *l, shlo_value slope)
{
    shlo *s = &l->s;
    ls_reduction reduction = l->call->attrs.loss.reduction;
    shlo_value dloss = xla_in_as(l, 0, slope.type);
    if (reduction != LS_REDUCE_NONE) dloss = shlo_reshape(s, dloss, SHLO_SCALAR);
    if (reduction == LS_REDUCE_MEAN) dloss = shlo_with(s, "divide", dloss, (double)shlo_numel(slope.dims));
    xla_out(l, 0, shlo_mul(s, slope, dloss));
}

/* in: x, t  out: loss */
void xla_mse_loss(xla_lowering *l, const ls_call *call)
{
    (void)call;
    loss_inputs in = inputs_from(l, 0);
    reduce_to_loss(l, shlo_mul(&l->s, in.d, in.d));
}

/* in: dloss, x, t  out: dx */
void xla_mse_loss_grad(xla_lowering *l, const ls_call *call)
{
    (void)call;
    write_gradient(l, shlo_with(&l->s, "multiply", inputs_from(l, 1).d, 2));
}

void xla_smooth_l1_loss(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    double beta = call->attrs.loss.beta;
    shlo_value d = shlo_unary(s, "abs", inputs_from(l, 0).d), each = d;
    if (beta > 0) {
        shlo_value near = shlo_with(s, "divide", shlo_mul(s, d, d), 2 * beta);
        each = shlo_select(s, shlo_compare_with(s, "LT", d, beta), near, shlo_with(s, "subtract", d, beta / 2));
    }
    reduce_to_loss(l, each);
}

void xla_smooth_l1_loss_grad(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    double beta = call->attrs.loss.beta;
    shlo_value d = inputs_from(l, 1).d, slope = shlo_unary(s, "sign", d);
    if (beta > 0) {
        shlo_value is_near = shlo_compare_with(s, "LT", shlo_unary(s, "abs", d), beta);
        slope = shlo_select(s, is_near, shlo_with(s, "divide", d, beta), slope);
    }
    write_gradient(l, slope);
}

/* 1 + (pos_weight - 1) t, which multiplies the loss of positives. */
static shlo_value positives(xla_lowering *l, shlo_value t, int pos_weight)
{
    shlo *s = &l->s;
    if (!xla_has_in(l->call, pos_weight)) return shlo_number(s, t.type, 1, t.dims);
    shlo_value more = shlo_with(s, "subtract", xla_in(l, pos_weight), 1);
    return shlo_with(s, "add", shlo_mul(s, more, t), 1);
}

static shlo_value weighted(xla_lowering *l, shlo_value each, int weight)
{
    return xla_has_in(l->call, weight) ? shlo_mul(&l->s, each, xla_in(l, weight)) : each;
}

/* in: x, t, weight?, pos_weight?  out: loss */
void xla_bce_with_logits(xla_lowering *l, const ls_call *call)
{
    (void)call;
    shlo *s = &l->s;
    loss_inputs in = inputs_from(l, 0);
    shlo_value minus = shlo_unary(s, "negate", in.x);
    shlo_value tail = shlo_unary(s, "exponential", shlo_unary(s, "negate", shlo_unary(s, "abs", in.x)));
    shlo_value log_one_plus = shlo_add(s, shlo_unary(s, "log_plus_one", tail), shlo_with(s, "maximum", minus, 0));
    shlo_value each = shlo_mul(s, positives(l, in.t, 3), log_one_plus);
    each = shlo_add(s, shlo_mul(s, shlo_one_minus(s, in.t), in.x), each);
    reduce_to_loss(l, weighted(l, each, 2));
}

/* in: dloss, x, t, weight?, pos_weight?  out: dx */
void xla_bce_with_logits_grad(xla_lowering *l, const ls_call *call)
{
    (void)call;
    shlo *s = &l->s;
    loss_inputs in = inputs_from(l, 1);
    shlo_value away = shlo_unary(s, "logistic", shlo_unary(s, "negate", in.x)); /* 1 / (1 + exp(x)) */
    shlo_value slope = shlo_sub(s, shlo_one_minus(s, in.t), shlo_mul(s, positives(l, in.t, 4), away));
    write_gradient(l, weighted(l, slope, 3));
}
