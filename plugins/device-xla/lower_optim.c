/* lower_optim.c - steps of optimisers, sums of squares and loss scaling, in place. The arithmetic is that of
 * src/kernels/optim.h: coefficients are f64 and rounded once to the type of the step. */
#include "lower.h"

/* A number that may change from step to step: live, so that the program stays the same, or of the attributes. */
static shlo_value coefficient(xla_lowering *l, int i, double number)
{
    return l->call->live ? xla_live(l, i) : shlo_number(&l->s, SHLO_F64, number, SHLO_SCALAR);
}

/* Nothing is written if a gradient was not finite: then input 1, if there is one, is not 0. */
typedef struct guard {
    bool exists;
    shlo_value found; /* i1 [] */
} guard;

static guard guard_of(xla_lowering *l)
{
    guard g = {.exists = xla_has_in(l->call, 1)};
    if (g.exists) g.found = shlo_compare_with(&l->s, "NE", shlo_reshape(&l->s, xla_in(l, 1), SHLO_SCALAR), 0);
    return g;
}

static shlo_value unless_found(shlo *s, guard g, shlo_value old, shlo_value next)
{
    return g.exists ? shlo_select(s, shlo_stretch(s, g.found, next.dims), old, next) : next;
}

/* The gradient as the step uses it: with its sign, and with weight decay that is added to it. */
static shlo_value direction(shlo *s, shlo_value g, shlo_value p, bool maximize, double decay)
{
    if (maximize) g = shlo_unary(s, "negate", g);
    return decay != 0 ? shlo_add(s, g, shlo_with(s, "multiply", p, decay)) : g;
}

/* in: g, found?  out: p, m, v, updated, and half? */
void xla_adam_step(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    bool decoupled = call->attrs.adam.decoupled;
    double decay = call->attrs.adam.weight_decay, beta2 = call->attrs.adam.beta2;
    guard skip = guard_of(l);
    shlo_value p = xla_old(l, 0), m = xla_old(l, 1), v = xla_old(l, 2);
    shlo_type type = p.type;
    shlo_value lr = coefficient(l, 0, call->attrs.adam.lr), bias1 = coefficient(l, 1, call->attrs.adam.bias1);
    shlo_value bias2 = coefficient(l, 2, call->attrs.adam.bias2), beta1 = coefficient(l, 3, call->attrs.adam.beta1);
    shlo_value share = shlo_sub(s, shlo_number(s, SHLO_F64, 1, SHLO_SCALAR), beta1);
    shlo_value step = shlo_convert(s, shlo_div(s, lr, bias1), type);
    shlo_value unbias2 = shlo_convert(s, shlo_rsqrt(s, bias2), type);
    shlo_value d = direction(s, xla_in_as(l, 0, type), p, call->attrs.adam.maximize, decoupled ? 0 : decay);

    shlo_value next_m = shlo_add(s, m, shlo_mul(s, shlo_convert(s, share, type), shlo_sub(s, d, m)));
    shlo_value square = shlo_mul(s, shlo_with(s, "multiply", d, 1 - beta2), d);
    shlo_value next_v = shlo_add(s, shlo_with(s, "multiply", v, beta2), square);
    shlo_value root = shlo_mul(s, shlo_unary(s, "sqrt", next_v), unbias2);
    shlo_value change = shlo_div(s, shlo_mul(s, step, next_m), shlo_with(s, "add", root, call->attrs.adam.epsilon));
    shlo_value kept = p;
    if (decoupled && decay != 0) {
        shlo_value keep = shlo_with(s, "add", shlo_with(s, "multiply", lr, -decay), 1);
        kept = shlo_mul(s, p, shlo_convert(s, keep, type));
    }
    shlo_value next_p = unless_found(s, skip, p, shlo_sub(s, kept, change));
    xla_out(l, 0, next_p);
    xla_out(l, 1, unless_found(s, skip, m, next_m));
    xla_out(l, 2, unless_found(s, skip, v, next_v));
    xla_out(l, 3, next_p);
}

/* in: g, found?  out: p, momentum?, updated, and half? */
void xla_sgd_step(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    guard skip = guard_of(l);
    shlo_value p = xla_old(l, 0);
    shlo_value step = shlo_convert(s, coefficient(l, 0, call->attrs.sgd.lr), p.type);
    shlo_value d = direction(s, xla_in_as(l, 0, p.type), p, call->attrs.sgd.maximize, call->attrs.sgd.weight_decay);
    if (xla_has_out(call, 1)) {
        shlo_value momentum = shlo_convert(s, coefficient(l, 1, call->attrs.sgd.momentum), p.type);
        shlo_value old = xla_old(l, 1), buffer = d;
        if (!call->attrs.sgd.first) {
            shlo_value fresh = shlo_with(s, "multiply", d, 1 - call->attrs.sgd.dampening);
            buffer = shlo_add(s, shlo_mul(s, momentum, old), fresh);
        }
        d = call->attrs.sgd.nesterov ? shlo_add(s, d, shlo_mul(s, momentum, buffer)) : buffer;
        xla_out(l, 1, unless_found(s, skip, old, buffer));
    }
    shlo_value next = unless_found(s, skip, p, shlo_sub(s, p, shlo_mul(s, step, d)));
    xla_out(l, 0, next);
    xla_out(l, 2, next);
}

/* What the gradient is divided by: of a centered step the root of the variance, which rounding may make negative. */
static shlo_value spread_of(xla_lowering *l, guard skip, shlo_value d, shlo_value squares, double alpha)
{
    shlo *s = &l->s;
    shlo_value mean = xla_old(l, 2);
    shlo_value next = shlo_add(s, mean, shlo_with(s, "multiply", shlo_sub(s, d, mean), 1 - alpha));
    xla_out(l, 2, unless_found(s, skip, mean, next));
    return shlo_with(s, "maximum", shlo_sub(s, squares, shlo_mul(s, next, next)), 0);
}

static void rmsprop_step(xla_lowering *l, const ls_call *call, bool centered)
{
    shlo *s = &l->s;
    int last = centered ? 3 : 2; /* momentum */
    double alpha = call->attrs.rmsprop.alpha, decay = call->attrs.rmsprop.weight_decay;
    guard skip = guard_of(l);
    shlo_value p = xla_old(l, 0), v = xla_old(l, 1);
    shlo_value step = shlo_convert(s, coefficient(l, 0, call->attrs.rmsprop.lr), p.type);
    shlo_value d = direction(s, xla_in_as(l, 0, p.type), p, call->attrs.rmsprop.maximize, decay);
    shlo_value square = shlo_mul(s, shlo_with(s, "multiply", d, 1 - alpha), d);
    shlo_value next_v = shlo_add(s, shlo_with(s, "multiply", v, alpha), square);
    shlo_value spread = centered ? spread_of(l, skip, d, next_v, alpha) : next_v;
    d = shlo_div(s, d, shlo_with(s, "add", shlo_unary(s, "sqrt", spread), call->attrs.rmsprop.epsilon));
    if (xla_has_out(call, last)) {
        shlo_value old = xla_old(l, last);
        shlo_value momentum = shlo_convert(s, coefficient(l, 1, call->attrs.rmsprop.momentum), p.type);
        d = shlo_add(s, shlo_mul(s, momentum, old), d);
        xla_out(l, last, unless_found(s, skip, old, d));
    }
    shlo_value next = unless_found(s, skip, p, shlo_sub(s, p, shlo_mul(s, step, d)));
    xla_out(l, 0, next);
    xla_out(l, 1, unless_found(s, skip, v, next_v));
    xla_out(l, last + 1, next);
}

/* in: g, found?  out: p, v, momentum?, updated, and half? */
void xla_rmsprop_step(xla_lowering *l, const ls_call *call)
{
    rmsprop_step(l, call, false);
}

/* in: g, found?  out: p, v, mean, momentum?, updated, and half? */
void xla_centered_rmsprop_step(xla_lowering *l, const ls_call *call)
{
    rmsprop_step(l, call, true);
}

/* in: g, found?  out: p, sum, updated, and half? */
void xla_adagrad_step(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    guard skip = guard_of(l);
    shlo_value p = xla_old(l, 0), sum = xla_old(l, 1);
    shlo_value step = shlo_convert(s, coefficient(l, 0, call->attrs.adagrad.lr), p.type);
    double decay = call->attrs.adagrad.weight_decay;
    shlo_value d = direction(s, xla_in_as(l, 0, p.type), p, call->attrs.adagrad.maximize, decay);
    shlo_value next_sum = shlo_add(s, sum, shlo_mul(s, d, d));
    shlo_value root = shlo_with(s, "add", shlo_unary(s, "sqrt", next_sum), call->attrs.adagrad.epsilon);
    shlo_value next = unless_found(s, skip, p, shlo_sub(s, p, shlo_div(s, shlo_mul(s, step, d), root)));
    xla_out(l, 0, next);
    xla_out(l, 1, unless_found(s, skip, sum, next_sum));
    xla_out(l, 2, next);
}

/* in: x  out: total, updated. Runs of numbers are added in the type of x, the runs in f64, which is slow on TPUs. */
void xla_sum_squares(xla_lowering *l, const ls_call *call)
{
    enum { RUN = 1024 };
    (void)call;
    shlo *s = &l->s;
    shlo_value x = xla_in(l, 0), total = xla_old(l, 0);
    int64_t n = shlo_numel(x.dims), rows = (n + RUN - 1) / RUN;
    shlo_value zero = shlo_number(s, x.type, 0, SHLO_SCALAR);
    x = shlo_reshape(s, x, SHLO_DIMS(n));
    x = shlo_pad(s, x, zero, SHLO_DIMS(0), SHLO_DIMS(rows * RUN - n), SHLO_DIMS(0));
    x = shlo_reshape(s, x, SHLO_DIMS(rows, RUN));
    shlo_value runs = shlo_sum(s, shlo_mul(s, x, x), xla_dim_mask(1));
    shlo_value sum = shlo_sum(s, shlo_convert(s, runs, SHLO_F64), xla_dim_mask(0));
    sum =
        shlo_add(s, shlo_convert(s, shlo_reshape(s, total, SHLO_SCALAR), SHLO_F64), shlo_reshape(s, sum, SHLO_SCALAR));
    xla_out(l, 0, sum);
}

/* out: g, multiplied by a factor, and found, which becomes 1 if a g is not finite */
void xla_unscale(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value g = xla_old(l, 0), found = shlo_reshape(s, xla_old(l, 1), SHLO_SCALAR);
    shlo_value factor = shlo_convert(s, coefficient(l, 0, call->attrs.scalar.value), g.type);
    shlo_value bad = shlo_unary(s, "not", shlo_unary_to_bool(s, "is_finite", g));
    shlo_value any = shlo_reshape(s, shlo_reduce(s, "or", bad, xla_all_dims(g)), SHLO_SCALAR);
    xla_out(l, 0, shlo_mul(s, g, factor));
    xla_out(l, 1, shlo_select(s, any, shlo_number(s, found.type, 1, SHLO_SCALAR), found));
}
