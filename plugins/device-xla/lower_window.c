/* lower_window.c - pooling and resizing of pictures [N,C,H,W].
 *
 * The largest of a window is found tap by tap: tap (i, j) of all windows is a strided slice of the picture. Sums of
 * windows of one size are an operation of XLA's. Other means and resizing go along the height and then the width, by
 * tables of which pixels count for which. Pixels that do not count are left out, not multiplied by 0: those that are
 * infinite or NaN stay where they are. */
#include <math.h>
#include <stdlib.h>

#include "lower.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

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
            shlo_value is_better =
                shlo_binary(s, "or", shlo_compare(s, "GT", v, best), shlo_binary(s, "and", is_nan, was_number));
            best = shlo_select(s, is_better, v, best);
            where = shlo_select(s, is_better, tap_place(s, w, out, x.dims.at[3], at), where);
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

/* ---- means of windows of one size ---- */

/* Along one axis: `size` pixels every `stride`, the first of them `before` pixels before the picture. */
typedef struct strip {
    int64_t size, stride, before;
} strip;

/* How many pixels each window of an axis divides by. */
typedef int64_t count_fn(const ls_call *call, int axis, int64_t window, int64_t pixels);

/* 1 / the number of pixels of each window [1,1,OH,OW], or of [1,1,1,1] where all have the same. */
static shlo_value shares(xla_lowering *l, const ls_call *call, count_fn *count, shlo_dims in, shlo_dims out,
                         shlo_type type)
{
    shlo_value each = shlo_number(&l->s, type, 1, SHLO_DIMS(1, 1, 1, 1));
    for (int axis = 0; axis < 2; axis++) {
        int64_t n = out.at[2 + axis];
        double *share = calloc((size_t)n, sizeof *share);
        bool same = true;
        if (!share) {
            l->s.failed = true;
            return each;
        }
        for (int64_t o = 0; o < n; o++) {
            share[o] = 1 / (double)count(call, axis, o, in.at[2 + axis]);
            same &= share[o] == share[0];
        }
        shlo_dims dims = SHLO_DIMS(1, 1, 1, 1);
        if (!same) dims.at[2 + axis] = n;
        each = shlo_mul(&l->s, each, shlo_numbers(&l->s, type, share, dims));
        free(share);
    }
    return each;
}

/* in: x [N,C,H,W]  out: y [N,C,OH,OW] */
static void take_means(xla_lowering *l, const ls_call *call, const strip *along, count_fn *count)
{
    shlo *s = &l->s;
    shlo_value x = xla_in(l, 0);
    shlo_dims out = xla_dims(call->out[0]);
    shlo_window w = {.size = SHLO_DIMS(1, 1, along[0].size, along[1].size),
                     .stride = SHLO_DIMS(1, 1, along[0].stride, along[1].stride),
                     .spread = SHLO_DIMS(1, 1, 1, 1),
                     .before = SHLO_DIMS(0, 0, along[0].before, along[1].before),
                     .after = {.n = 4}};
    for (int i = 0; i < 2; i++) {
        int64_t reach = (out.at[2 + i] - 1) * along[i].stride + along[i].size - along[i].before;
        w.after.at[2 + i] = larger(reach - x.dims.at[2 + i], 0); /* pixels behind the last window belong to none */
    }
    shlo_value sum = shlo_sum_windows(s, x, &w, out);
    xla_out(l, 0, shlo_mul(s, sum, shares(l, call, count, x.dims, out, x.type)));
}

/* in: dy [N,C,OH,OW]  out: dx [N,C,H,W]: the sum of the windows that a pixel belongs to, which are again a window of
 * dy, with its elements as far apart as the windows were */
static void spread_means(xla_lowering *l, const ls_call *call, const strip *along, count_fn *count)
{
    shlo *s = &l->s;
    shlo_value dy = xla_in(l, 0);
    shlo_dims in = xla_dims(call->out[0]);
    shlo_window w = {.size = SHLO_DIMS(1, 1, along[0].size, along[1].size),
                     .stride = SHLO_DIMS(1, 1, 1, 1),
                     .spread = SHLO_DIMS(1, 1, along[0].stride, along[1].stride),
                     .before = {.n = 4},
                     .after = {.n = 4}};
    for (int i = 0; i < 2; i++) {
        w.before.at[2 + i] = along[i].size - 1 - along[i].before;
        w.after.at[2 + i] = in.at[2 + i] - 1 - (dy.dims.at[2 + i] - 1) * along[i].stride + along[i].before;
    }
    dy = shlo_mul(s, dy, shares(l, call, count, in, dy.dims, dy.type));
    xla_out(l, 0, shlo_sum_windows(s, dy, &w, in));
}

static int64_t pixels_of_window(const ls_call *call, int axis, int64_t window, int64_t pixels)
{
    const ls_window *w = &call->attrs.pool.window;
    int64_t begin = window * w->stride[axis] - w->padding[axis];
    int64_t end = smaller(begin + w->kernel[axis], pixels + w->padding[axis]);
    if (call->attrs.pool.count_include_pad) return end - begin;
    return smaller(end, pixels) - larger(begin, 0);
}

static void strips_of(const ls_call *call, strip *along)
{
    const ls_window *w = &call->attrs.pool.window;
    for (int i = 0; i < 2; i++) along[i] = (strip){w->kernel[i], w->stride[i], w->padding[i]};
}

void xla_avg_pool2d(xla_lowering *l, const ls_call *call)
{
    strip along[2];
    strips_of(call, along);
    take_means(l, call, along, pixels_of_window);
}

void xla_avg_pool2d_grad(xla_lowering *l, const ls_call *call)
{
    strip along[2];
    strips_of(call, along);
    spread_means(l, call, along, pixels_of_window);
}

/* ---- sums by tables ---- */

/* For each output pixel of an axis `most` inputs and their weights; 0: there are fewer. */
typedef struct table {
    int64_t in_size, out_size, most;
    double *input, *weight; /* [out_size, most] */
} table;

/* Fill in the table of the height (axis 0) or the width. */
typedef void fill_fn(const ls_call *call, int axis, table *t);

/* Replace dimension `dim` of x by the outputs of the table; or, for gradients, by its inputs. */
static shlo_value apply(shlo *s, shlo_value x, const table *t, int dim, bool is_gradient)
{
    shlo_dims dims = {.n = x.dims.n + 1}; /* weights, beside what is taken from x */
    for (int d = 0; d < dims.n; d++) dims.at[d] = d == dim ? t->out_size : d == dim + 1 ? t->most : 1;
    shlo_value index = shlo_numbers(s, SHLO_I64, t->input, SHLO_DIMS(t->out_size, t->most));
    shlo_value weight = shlo_numbers(s, x.type, t->weight, dims), zero = shlo_number(s, x.type, 0, SHLO_SCALAR);
    if (!is_gradient) {
        x = shlo_mul(s, shlo_take(s, x, index, dim), weight);
        x = shlo_sum(s, shlo_select(s, shlo_compare(s, "NE", weight, zero), x, zero), xla_dim_mask(dim + 1));
        shlo_dims out = x.dims;
        for (int d = dim + 1; d + 1 < out.n; d++) out.at[d] = out.at[d + 1];
        out.n--;
        return shlo_reshape(s, x, out);
    }
    shlo_dims column = dims, in = x.dims;
    for (int d = 0; d < dims.n; d++) column.at[d] = d <= dim ? x.dims.at[d] : d == dim + 1 ? 1 : x.dims.at[d - 1];
    in.at[dim] = t->in_size;
    x = shlo_mul(s, shlo_reshape(s, x, column), weight);
    shlo_value used = shlo_reshape(s, shlo_compare(s, "NE", weight, zero), index.dims);
    index = shlo_select(s, used, index, shlo_integer(s, SHLO_I64, t->in_size, SHLO_SCALAR)); /* left out */
    return shlo_put(s, shlo_stretch(s, zero, in), index, x, dim, "add");
}

/* x [N,C,H,W] by a table for its height, and one for its width. */
static void apply_tables(xla_lowering *l, const ls_call *call, fill_fn *fill, bool is_gradient, const int64_t most[2])
{
    const ls_operand *from = is_gradient ? call->out[0] : call->in[0], *to = is_gradient ? call->in[0] : call->out[0];
    shlo_value x = xla_in(l, 0);
    for (int axis = 0; axis < 2; axis++) {
        table t = {from->dim[2 + axis], to->dim[2 + axis], most[axis], NULL, NULL};
        size_t room = (size_t)(t.out_size * t.most);
        t.input = calloc(room, sizeof *t.input);
        t.weight = calloc(room, sizeof *t.weight);
        if (t.input && t.weight) {
            fill(call, axis, &t);
            x = apply(&l->s, x, &t, 2 + axis, is_gradient);
        } else {
            l->s.failed = true;
        }
        free(t.input);
        free(t.weight);
    }
    if (!l->s.failed) xla_out(l, 0, x);
}

/* ---- means of a given number of windows, which share the pixels as evenly as they can ---- */

static int64_t tile_begin(const table *t, int64_t o)
{
    return o * t->in_size / t->out_size;
}

static int64_t tile_end(const table *t, int64_t o)
{
    return ((o + 1) * t->in_size + t->out_size - 1) / t->out_size;
}

static void fill_tiles(const ls_call *call, int axis, table *t)
{
    (void)call, (void)axis;
    for (int64_t o = 0; o < t->out_size; o++) {
        int64_t begin = tile_begin(t, o), end = tile_end(t, o);
        for (int64_t i = begin; i < end; i++) {
            t->input[o * t->most + i - begin] = (double)i;
            t->weight[o * t->most + i - begin] = 1 / (double)(end - begin);
        }
    }
}

static int64_t pixels_of_tile(const ls_call *call, int axis, int64_t window, int64_t pixels)
{
    const ls_operand *a = call->in[0], *b = call->out[0];
    (void)window;
    return pixels / smaller(a->dim[2 + axis], b->dim[2 + axis]);
}

/* [0]: of the height, [1]: of the width. False: windows are not of one size. */
static bool tiles_are_even(const ls_operand *pixels, const ls_operand *windows, strip *along, int64_t most[2])
{
    bool even = true;
    for (int i = 0; i < 2; i++) {
        table t = {.in_size = pixels->dim[2 + i], .out_size = windows->dim[2 + i]};
        int64_t size = t.in_size / t.out_size;
        even &= t.in_size % t.out_size == 0;
        along[i] = (strip){size, size, 0};
        most[i] = 1;
        for (int64_t o = 0; o < t.out_size; o++) most[i] = larger(most[i], tile_end(&t, o) - tile_begin(&t, o));
    }
    return even;
}

void xla_adaptive_avg_pool2d(xla_lowering *l, const ls_call *call)
{
    strip along[2];
    int64_t most[2];
    if (tiles_are_even(call->in[0], call->out[0], along, most)) take_means(l, call, along, pixels_of_tile);
    else apply_tables(l, call, fill_tiles, false, most);
}

void xla_adaptive_avg_pool2d_grad(xla_lowering *l, const ls_call *call)
{
    strip along[2];
    int64_t most[2];
    if (tiles_are_even(call->out[0], call->in[0], along, most)) spread_means(l, call, along, pixels_of_tile);
    else apply_tables(l, call, fill_tiles, true, most);
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

static void fill_nearest(const ls_call *call, int axis, table *t)
{
    for (int64_t o = 0; o < t->out_size; o++) {
        int64_t at = (int64_t)floorf((float)coordinate(call, axis, o, t->in_size, t->out_size));
        if (t->out_size == t->in_size) at = o;
        if (t->out_size == 2 * t->in_size) at = o / 2;
        t->input[o] = (double)smaller(at, t->in_size - 1);
        t->weight[o] = 1;
    }
}

static void fill_bilinear(const ls_call *call, int axis, table *t)
{
    for (int64_t o = 0; o < t->out_size; o++) {
        double at = t->in_size == t->out_size ? (double)o : coordinate(call, axis, o, t->in_size, t->out_size);
        at = fmax(at, 0);
        int64_t first = smaller((int64_t)at, t->in_size - 1);
        double second = fmin(at - (double)first, 1);
        bool is_alone = second == 0 || first == t->in_size - 1;
        t->input[2 * o] = t->input[2 * o + 1] = (double)first;
        t->weight[2 * o] = is_alone ? 1 : 1 - second;
        if (is_alone) continue;
        t->input[2 * o + 1] = (double)first + 1;
        t->weight[2 * o + 1] = second;
    }
}

static void interpolate(xla_lowering *l, const ls_call *call, bool is_gradient)
{
    if (call->attrs.interpolate.bilinear) apply_tables(l, call, fill_bilinear, is_gradient, (const int64_t[]){2, 2});
    else apply_tables(l, call, fill_nearest, is_gradient, (const int64_t[]){1, 1});
}

void xla_interpolate(xla_lowering *l, const ls_call *call)
{
    interpolate(l, call, false);
}

void xla_interpolate_grad(xla_lowering *l, const ls_call *call)
{
    interpolate(l, call, true);
}
