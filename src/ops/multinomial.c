/* multinomial.c - classes drawn at random, with probabilities proportional to weights. */
#include "ops/op.h"

/* Uniform in (0, 1], on the device of `like`. */
static ls_tensor *chances(ls_tensor *like, ls_shape shape)
{
    ls_tensor *t = op_new(like, LS_F32, shape);
    if (t->life != LS_LIFE_LIVE) return t;
    return op_draw(LS_OP_uniform, t, 0, 1) ? ls_affine(t, -1, 1) : &like->run->poison;
}

/* A race: the time of a class is exponential with its weight as rate, and the first ones are drawn, each at most once.
 * Times below the resolution of f32 are equal. `possible`: classes with a weight above 0, before it was rounded. */
static ls_tensor *race(ls_tensor *weights, ls_tensor *possible, int64_t draws)
{
    ls_tensor *times = ls_clamp(ls_neg(ls_log(chances(weights, ls_view_shape(&weights->view)))), 0x1p-25, INFINITY);
    ls_tensor *speed = ls_where_scalar(possible, ls_div(weights, times), -1), *drawn;
    if (draws == 1) return ls_argmax_dim(speed, -1, true);
    ls_topk(speed, draws, -1, true, &drawn);
    return drawn;
}

/* The class of a point on a line of all weights: how many classes end before it. Chances above 0 never reach a class
 * of weight 0 at the beginning, and 1 is the end of the last class that has a weight. All points are searched for at
 * once, by halves: of 2^k - 1 ends, with some that no point reaches behind the last. */
static ls_tensor *points(ls_tensor *weights, int64_t draws)
{
    ls_shape shape = ls_view_shape(&weights->view), before = {.ndim = shape.ndim}, after = before;
    int last = shape.ndim - 1;
    int64_t classes = shape.dim[last], places = 1;
    while (places <= classes) places *= 2;
    shape.dim[last] = draws;
    after.dim[last] = places - 1 - classes;
    ls_tensor *ends = ls_cumsum(weights, -1), *total = ls_slice(ends, -1, -1, INT64_MAX, 1);
    ls_tensor *point = ls_mul(chances(weights, shape), total), *class = op_full(weights, LS_I64, 0, shape);
    ends = ls_pad(ends, before, after, 0x1p127);
    for (int64_t step = places / 2; step > 0; step /= 2) {
        ls_mark mark = ls_scope_begin(weights->run);
        ls_tensor *end = ls_take_along_dim(ends, -1, ls_add_scalar(class, (double)(step - 1)));
        class = ls_add(class, ls_mul_scalar(ls_cast(ls_lt(end, point), LS_I64), (double)step));
        class = ls_scope_end(weights->run, mark, class);
    }
    return class;
}

static bool weights_sound(ls_run *run, ls_tensor *weights, int64_t draws, bool replacement)
{
    int64_t least = replacement ? 1 : draws;
    ls_tensor *fine = ls_logical_and(ls_isfinite(weights), ls_ge_scalar(weights, 0));
    ls_tensor *enough = ls_ge_scalar(ls_sum_dim(ls_gt_scalar(weights, 0), -1, false), (double)least);
    double verdict = ls_item(ls_add(ls_all(fine), ls_mul_scalar(ls_cast(ls_all(enough), LS_I64), 2))); /* one wait */
    if (ls_failed(run) || verdict == 3) return !ls_failed(run);
    if (verdict == 1)
        op_error(run, LS_OP_multinomial, LS_ERR_VALUE,
                 "a row of weights %s has too few classes with a weight above 0 to draw %lld%s", OP_TEXT(weights),
                 (long long)draws, replacement ? "" : " without replacement");
    else op_error(run, LS_OP_multinomial, LS_ERR_VALUE, "weights %s must be finite and not negative", OP_TEXT(weights));
    return false;
}

ls_tensor *ls_multinomial(ls_tensor *weights, int64_t draws, bool replacement)
{
    ls_opcode op = LS_OP_multinomial;
    ls_run *run = op_begin(op, 1, 1, &weights);
    if (!run) return op_poison(weights);
    int n = weights->view.ndim;
    if (n < 1 || n > 2 || weights->view.dim[n - 1] == 0)
        return op_error(run, op, LS_ERR_SHAPE, "weights %s are not [C] or [N,C]", OP_TEXT(weights));
    int64_t classes = weights->view.dim[n - 1];
    if (draws < 1 || (!replacement && draws > classes))
        return op_error(run, op, LS_ERR_VALUE, "%lld draws of %lld classes%s", (long long)draws, (long long)classes,
                        draws < 1 ? "" : " without replacement");
    weights = ls_detach(weights);
    if (weights->view.dtype != LS_F64) weights = ls_cast(weights, LS_F32);
    if (ls_failed(run) || !weights_sound(run, weights, draws, replacement)) return &run->poison;
    ls_tensor *possible = ls_gt_scalar(weights, 0);
    weights = ls_cast(ls_div(weights, ls_max_dim(weights, -1, true)), LS_F32); /* of any size, but finite sums */
    return draws == 1 || !replacement ? race(weights, possible, draws) : points(weights, draws);
}
