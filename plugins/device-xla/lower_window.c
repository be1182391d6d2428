/* lower_window.c - pooling and resizing of pictures [N,C,H,W].
 *
 * The largest of a window is found tap by tap: tap (i, j) of all windows is a strided slice of the picture. Means of
 * windows and resizing are products with a matrix for the height and one for the width, gradients those with the
 * transposed matrices. */
#include <math.h>
#include <stdlib.h>

#include "lower.h"

/* ---- maximum ---- */

/* The picture, with a border of `with`, so that every tap of every window lies within it. */
static shlo_value bordered(shlo *s, shlo_value x, shlo_value with, const ls_window *w, shlo_dims out)
{
    shlo_dims before = {.n = 4}, after = {.n = 4}, between = {.n = 4};
    for (int i = 0; i < 2; i++) {
        int64_t reach = (out.at[2 + i] - 1) * w->stride[i] + w->dilation[i] * (w->kernel[i] - 1) + 1;
        before.at[2 + i] = w->padding[i];
        after.at[2 + i] = reach - x.dims.at[2 + i] - w->padding[i];
    }
    return shlo_pad(s, x, with, before, after, between);
}

/* The element at tap (i, j) of each window. */
static shlo_value tap(shlo *s, shlo_value x, const ls_window *w, shlo_dims out, const int64_t at[2])
{
    shlo_dims first = {.n = 4}, limit = x.dims, step = SHLO_DIMS(1, 1, 1, 1);
    for (int i = 0; i < 2; i++) {
        first.at[2 + i] = at[i] * w->dilation[i];
        limit.at[2 + i] = first.at[2 + i] + (out.at[2 + i] - 1) * w->stride[i] + 1;
        step.at[2 + i] = w->stride[i];
    }
    return shlo_slice(s, x, first, limit, step);
}

/* Where that element is in a picture, row by row: i32 [1,1,OH,OW] */
static shlo_value tap_place(shlo *s, const ls_window *w, shlo_dims out, int64_t width, const int64_t at[2])
{
    shlo_dims plane = SHLO_DIMS(1, 1, out.at[2], out.at[3]);
    shlo_value place[2];
    for (int i = 0; i < 2; i++) {
        shlo_value step = shlo_integer(s, SHLO_I32, w->stride[i], SHLO_SCALAR);
        shlo_value start = shlo_integer(s, SHLO_I32, at[i] * w->dilation[i] - w->padding[i], SHLO_SCALAR);
        place[i] = shlo_add(s, shlo_mul(s, shlo_iota(s, SHLO_I32, plane, 2 + i), step), start);
    }
    place[0] = shlo_mul(s, place[0], shlo_integer(s, SHLO_I32, width, SHLO_SCALAR));
    return shlo_add(s, place[0], place[1]);
}

/* in: x  out: y, indices i32? The first of equals; NaN counts as largest. */
void xla_max_pool2d(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    const ls_window *w = &call->attrs.pool.window;
    shlo_dims out = xla_dims(call->out[0]);
    shlo_value x = xla_in(l, 0), lowest = shlo_number(s, x.type, -INFINITY, SHLO_SCALAR);
    shlo_value all = bordered(s, x, lowest, w, out), best = shlo_stretch(s, lowest, out);
    shlo_value where = shlo_integer(s, SHLO_I32, 0, out);
    for (int64_t i = 0; i < w->kernel[0]; i++)
        for (int64_t j = 0; j < w->kernel[1]; j++) {
            const int64_t at[] = {i, j};
            shlo_value v = tap(s, all, w, out, at);
            shlo_value is_nan = shlo_compare(s, "NE", v, v), was_number = shlo_compare(s, "EQ", best, best);
            shlo_value larger =
                shlo_binary(s, "or", shlo_compare(s, "GT", v, best), shlo_binary(s, "and", is_nan, was_number));
            best = shlo_select(s, larger, v, best);
            where = shlo_select(s, larger, tap_place(s, w, out, x.dims.at[3], at), where);
        }
    xla_out(l, 0, best);
    xla_out(l, 1, where);
}

/* in: dy [N,C,OH,OW], indices i32  out: dx [N,C,H,W]: of each tap, dy where it was the largest, put back in its
 * place */
void xla_max_pool2d_grad(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    const ls_window *w = &call->attrs.pool.window;
    shlo_dims in = xla_dims(call->out[0]);
    shlo_value dy = xla_in(l, 0), where = xla_in_as(l, 1, SHLO_I32), zero = shlo_number(s, dy.type, 0, SHLO_SCALAR);
    shlo_value sum = shlo_stretch(s, zero, in);
    for (int64_t i = 0; i < w->kernel[0]; i++)
        for (int64_t j = 0; j < w->kernel[1]; j++) {
            const int64_t at[] = {i, j};
            shlo_dims before = {.n = 4}, after = {.n = 4}, between = {.n = 4};
            for (int k = 0; k < 2; k++) {
                int64_t spread = (dy.dims.at[2 + k] - 1) * w->stride[k] + 1;
                before.at[2 + k] = at[k] * w->dilation[k] - w->padding[k];
                after.at[2 + k] = in.at[2 + k] - spread - before.at[2 + k];
                between.at[2 + k] = w->stride[k] - 1;
            }
            shlo_value chosen = shlo_compare(s, "EQ", where, tap_place(s, w, dy.dims, in.at[3], at));
            shlo_value part = shlo_select(s, chosen, dy, zero);
            sum = shlo_add(s, sum, shlo_pad(s, part, zero, before, after, between));
        }
    xla_out(l, 0, sum);
}

/* ---- sums by matrices ---- */

/* Write the weight of every input pixel for one output pixel, along the height (axis 0) or the width; `weight` is 0. */
typedef void weigh_fn(const ls_call *call, int axis, int64_t out_pixel, int64_t in_size, int64_t out_size,
                      double *weight);

/* The matrix [out, in] of an axis. */
static shlo_value matrix(xla_lowering *l, weigh_fn *weigh, int axis, int64_t in_size, int64_t out_size, shlo_type type)
{
    double *weights = calloc((size_t)(in_size * out_size), sizeof *weights);
    if (!weights) {
        l->s.failed = true;
        return shlo_number(&l->s, type, 0, SHLO_DIMS(out_size, in_size));
    }
    for (int64_t o = 0; o < out_size; o++) weigh(l->call, axis, o, in_size, out_size, weights + o * in_size);
    shlo_value m = shlo_numbers(&l->s, type, weights, SHLO_DIMS(out_size, in_size));
    free(weights);
    return m;
}

/* x [N,C,H,W] with its height and width multiplied by matrices: by their rows, or, for gradients, by their columns. */
static void map_pixels(xla_lowering *l, const ls_call *call, weigh_fn *weigh, bool is_gradient)
{
    shlo *s = &l->s;
    shlo_value x = xla_in(l, 0);
    const ls_operand *from = is_gradient ? call->out[0] : call->in[0], *to = is_gradient ? call->in[0] : call->out[0];
    for (int axis = 0; axis < 2;
         axis++) { /* the dimension summed over is the first one left; the new one is the last */
        shlo_value m = matrix(l, weigh, axis, from->dim[2 + axis], to->dim[2 + axis], x.type);
        shlo_dot_dims which = {.sum_a = SHLO_DIMS(2), .sum_b = SHLO_DIMS(is_gradient ? 0 : 1)};
        x = shlo_dot(s, x, m, &which, x.type);
    }
    xla_out(l, 0, x);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void weigh_mean(const ls_call *call, int axis, int64_t o, int64_t in_size, int64_t out_size, double *weight)
{
    const ls_window *w = &call->attrs.pool.window;
    int64_t begin = o * w->stride[axis] - w->padding[axis];
    int64_t end = smaller(begin + w->kernel[axis], in_size + w->padding[axis]), count = end - begin;
    (void)out_size;
    if (begin < 0) begin = 0;
    if (end > in_size) end = in_size;
    if (!call->attrs.pool.count_include_pad) count = end - begin;
    for (int64_t i = begin; i < end; i++) weight[i] = 1 / (double)count;
}

void xla_avg_pool2d(xla_lowering *l, const ls_call *call)
{
    map_pixels(l, call, weigh_mean, false);
}

void xla_avg_pool2d_grad(xla_lowering *l, const ls_call *call)
{
    map_pixels(l, call, weigh_mean, true);
}

static void weigh_tile(const ls_call *call, int axis, int64_t o, int64_t in_size, int64_t out_size, double *weight)
{
    int64_t begin = o * in_size / out_size, end = ((o + 1) * in_size + out_size - 1) / out_size;
    (void)call, (void)axis;
    for (int64_t i = begin; i < end; i++) weight[i] = 1 / (double)(end - begin);
}

void xla_adaptive_avg_pool2d(xla_lowering *l, const ls_call *call)
{
    map_pixels(l, call, weigh_tile, false);
}

void xla_adaptive_avg_pool2d_grad(xla_lowering *l, const ls_call *call)
{
    map_pixels(l, call, weigh_tile, true);
}

/* ---- resizing, with the coordinates of src/device/cpu/interpolate.c ---- */

static double coordinate(const ls_call *call, int axis, int64_t o, int64_t in_size, int64_t out_size)
{
    bool bilinear = call->attrs.interpolate.bilinear != 0, corners = bilinear && call->attrs.interpolate.align_corners;
    double step = call->attrs.interpolate.scale[axis], shift = bilinear && !corners ? 0.5 : 0;
    if (corners) step = out_size > 1 ? (double)(in_size - 1) / (double)(out_size - 1) : 0;
    if (call->in[0]->dtype == LS_F64) return fma(step, (double)o + shift, -shift);
    return (double)fmaf((float)step, (float)o + (float)shift, -(float)shift);
}

static void weigh_nearest(const ls_call *call, int axis, int64_t o, int64_t in_size, int64_t out_size, double *weight)
{
    int64_t at = (int64_t)floorf((float)coordinate(call, axis, o, in_size, out_size));
    if (out_size == in_size) at = o;
    if (out_size == 2 * in_size) at = o / 2;
    weight[smaller(at, in_size - 1)] = 1;
}

static void weigh_bilinear(const ls_call *call, int axis, int64_t o, int64_t in_size, int64_t out_size, double *weight)
{
    double at = in_size == out_size ? (double)o : fmax(coordinate(call, axis, o, in_size, out_size), 0);
    int64_t first = smaller((int64_t)at, in_size - 1);
    double second = fmin(at - (double)first, 1);
    bool is_alone = second == 0 || first == in_size - 1;
    weight[first] = is_alone ? 1 : 1 - second;
    if (!is_alone) weight[first + 1] = second;
}

void xla_interpolate(xla_lowering *l, const ls_call *call)
{
    map_pixels(l, call, call->attrs.interpolate.bilinear ? weigh_bilinear : weigh_nearest, false);
}

void xla_interpolate_grad(xla_lowering *l, const ls_call *call)
{
    map_pixels(l, call, call->attrs.interpolate.bilinear ? weigh_bilinear : weigh_nearest, true);
}
