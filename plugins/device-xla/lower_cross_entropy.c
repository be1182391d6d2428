/* lower_cross_entropy.c - cross entropy from logits, negative log likelihood from log probabilities, and their
 * gradients; formulas as in src/device/cpu/cross_entropy.c. */
#include "lower.h"

/* The targets of a call, with a dimension of size 1 in the place of classes. */
typedef struct targets {
    int dim; /* of classes in x */
    int64_t classes;
    shlo_dims row;                                /* the dimensions of x, with one class */
    shlo_value hot;                               /* i1, as x: is this class the target? */
    shlo_value used;                              /* i1, as row: the target is not ignored */
    shlo_value weight_of_class, weight_of_target; /* as x and as row, broadcast; 1 without weights */
} targets;

/* x: dimensions and type of logits. */
static targets targets_of(xla_lowering *l, shlo_dims x, shlo_type type, int target, int weight)
{
    shlo *s = &l->s;
    targets t = {.dim = x.n > 1, .row = x};
    t.classes = x.at[t.dim];
    t.row.at[t.dim] = 1;
    shlo_value number = shlo_reshape(s, xla_in_raw(l, target), t.row);
    shlo_value zero = shlo_number(s, type, 0, SHLO_SCALAR), one = shlo_number(s, type, 1, SHLO_SCALAR);
    t.hot = shlo_compare(s, "EQ", shlo_iota(s, number.type, x, t.dim), number);
    t.used = shlo_integer(s, SHLO_I1, 1, t.row);
    if (l->call->attrs.loss.has_ignore) {
        shlo_value ignore = shlo_integer(s, number.type, l->call->attrs.loss.ignore_index, SHLO_SCALAR);
        t.used = shlo_compare(s, "NE", number, ignore);
    }
    shlo_value ignored = shlo_unary(s, "not", t.used);
    xla_require(l, shlo_binary(s, "or", ignored, xla_in_range(s, number, t.classes)));
    t.weight_of_class = t.weight_of_target = one;
    if (xla_has_in(l->call, weight)) {
        shlo_dims along = x;
        for (int i = 0; i < x.n; i++) along.at[i] = i == t.dim ? t.classes : 1;
        t.weight_of_class = shlo_reshape(s, xla_in_as(l, weight, type), along);
        shlo_value own = shlo_select(s, t.hot, shlo_stretch(s, t.weight_of_class, x), shlo_stretch(s, zero, x));
        t.weight_of_target = shlo_sum(s, own, xla_dim_mask(t.dim));
    }
    t.weight_of_target = shlo_stretch(s, t.weight_of_target, t.row);
    return t;
}

/* `v`, as row, where the target is not ignored, else 0. */
static shlo_value where_used(shlo *s, const targets *t, shlo_value v)
{
    return shlo_select(s, t->used, v, shlo_number(s, v.type, 0, t->row));
}

static shlo_value at_target(shlo *s, const targets *t, shlo_value x)
{
    return shlo_sum(s, shlo_select(s, t->hot, x, shlo_number(s, x.type, 0, x.dims)), xla_dim_mask(t->dim));
}

static shlo_value sum_of_all(shlo *s, shlo_value v)
{
    return shlo_reshape(s, shlo_sum(s, v, xla_all_dims(v)), SHLO_SCALAR);
}

/* Write the loss to output 0, and the weights that a mean divides by to output `total`. */
static void write_loss(xla_lowering *l, const targets *t, shlo_value each, int total)
{
    shlo *s = &l->s;
    ls_reduction reduction = l->call->attrs.loss.reduction;
    shlo_value weight = sum_of_all(s, where_used(s, t, t->weight_of_target)), loss = where_used(s, t, each);
    if (reduction != LS_REDUCE_NONE) loss = sum_of_all(s, loss);
    if (reduction == LS_REDUCE_MEAN) loss = shlo_div(s, loss, weight); /* all rows ignored: NaN */
    xla_out(l, 0, loss);
    xla_out(l, total, weight);
}

/* The gradient of each row's loss, as row. */
static shlo_value gradient_of_rows(xla_lowering *l, const targets *t, shlo_type type, int total)
{
    shlo *s = &l->s;
    ls_reduction reduction = l->call->attrs.loss.reduction;
    shlo_value dloss = xla_in_as(l, 0, type);
    if (reduction == LS_REDUCE_NONE) return shlo_reshape(s, dloss, t->row);
    dloss = shlo_reshape(s, dloss, SHLO_SCALAR);
    if (reduction == LS_REDUCE_MEAN)
        dloss = shlo_div(s, dloss, shlo_reshape(s, xla_in_as(l, total, type), SHLO_SCALAR));
    return shlo_stretch(s, dloss, t->row);
}

/* The sum over classes of w, for label smoothing. */
static shlo_value weight_of_classes(shlo *s, const targets *t)
{
    shlo_value w = t->weight_of_class;
    if (w.dims.n == 0) return shlo_number(s, w.type, (double)t->classes, SHLO_SCALAR);
    return sum_of_all(s, w);
}

/* in: x, target, class weight?  out: loss, lse?, total? */
void xla_cross_entropy(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    double smoothing = call->attrs.loss.smoothing;
    shlo_value x = xla_in(l, 0);
    targets t = targets_of(l, x.dims, x.type, 1, 2);
    uint32_t along = xla_dim_mask(t.dim);
    shlo_value most = shlo_reduce(s, "maximum", x, along);
    shlo_value sum = shlo_sum(s, shlo_unary(s, "exponential", shlo_sub(s, x, most)), along);
    shlo_value lse = shlo_add(s, most, shlo_unary(s, "log", sum));
    shlo_value each = shlo_mul(s, t.weight_of_target, shlo_sub(s, lse, at_target(s, &t, x)));
    if (smoothing > 0) {
        shlo_value pulled = shlo_sum(s, shlo_mul(s, x, t.weight_of_class), along);
        shlo_value others = shlo_sub(s, shlo_mul(s, lse, weight_of_classes(s, &t)), pulled);
        each = shlo_add(s, shlo_with(s, "multiply", each, 1 - smoothing),
                        shlo_with(s, "multiply", others, smoothing / (double)t.classes));
    }
    write_loss(l, &t, each, 2);
    xla_out(l, 1, lse);
}

/* in: dloss, x, target, class weight?, lse, total  out: dx */
void xla_cross_entropy_grad(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    double smoothing = call->attrs.loss.smoothing;
    shlo_value x = xla_in(l, 1);
    targets t = targets_of(l, x.dims, x.type, 2, 3);
    shlo_value dloss = where_used(s, &t, gradient_of_rows(l, &t, x.type, 5));
    shlo_value hard = shlo_with(s, "multiply", shlo_mul(s, dloss, t.weight_of_target), 1 - smoothing), scale = hard;
    shlo_value soft = shlo_with(s, "multiply", dloss, smoothing / (double)t.classes);
    if (smoothing > 0) scale = shlo_add(s, hard, shlo_mul(s, soft, weight_of_classes(s, &t)));
    shlo_value lse = shlo_reshape(s, xla_in_as(l, 4, x.type), t.row);
    shlo_value dx = shlo_mul(s, shlo_unary(s, "exponential", shlo_sub(s, x, lse)), scale);
    if (smoothing > 0) dx = shlo_sub(s, dx, shlo_mul(s, soft, t.weight_of_class));
    shlo_value zero = shlo_number(s, x.type, 0, x.dims);
    dx = shlo_sub(s, dx, shlo_select(s, t.hot, shlo_stretch(s, hard, x.dims), zero));
    xla_out(l, 0, shlo_select(s, shlo_stretch(s, t.used, x.dims), dx, zero));
}

/* in: logp, target, class weight?  out: loss, total? */
void xla_nll_loss(xla_lowering *l, const ls_call *call)
{
    (void)call;
    shlo *s = &l->s;
    shlo_value logp = xla_in(l, 0);
    targets t = targets_of(l, logp.dims, logp.type, 1, 2);
    write_loss(l, &t, shlo_unary(s, "negate", shlo_mul(s, t.weight_of_target, at_target(s, &t, logp))), 1);
}

/* in: dloss, target, class weight?, total  out: dlogp */
void xla_nll_loss_grad(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_dims dims = xla_dims(call->out[0]);
    shlo_type type = xla_compute_type(call->out[0]->dtype);
    targets t = targets_of(l, dims, type, 1, 2);
    shlo_value dloss = where_used(s, &t, gradient_of_rows(l, &t, type, 3));
    shlo_value each = shlo_unary(s, "negate", shlo_mul(s, dloss, t.weight_of_target));
    xla_out(l, 0, shlo_select(s, t.hot, shlo_stretch(s, each, dims), shlo_number(s, type, 0, dims)));
}
