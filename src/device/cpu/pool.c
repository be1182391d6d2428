/* pool.c - pooling of pictures. Each operator defines its windows; src/device/cpu/window.c does the rest. */
#include "device/cpu/cpu.h"
#include "device/cpu/window.h"

static int64_t at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t at_most(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* a / b rounded towards +infinity, b > 0. */
static int64_t ceil_div(int64_t a, int64_t b)
{
    return a > 0 ? (a + b - 1) / b : -(-a / b);
}

/* ---- max_pool2d ----------------------------------------------------------------------------------------------- */

/* The part of a window inside the picture. */
static void max_taps(const ls_call *call, int axis, ls_taps *taps)
{
    const ls_window *window = &call->attrs.pool.window;
    int64_t dilation = window->dilation[axis];
    for (int64_t i = 0; i < taps->outputs; i++) {
        int64_t start = i * window->stride[axis] - window->padding[axis];
        int64_t skipped = at_least(0, ceil_div(-start, dilation));
        int64_t end = at_most(window->kernel[axis], ceil_div(taps->inputs - start, dilation));
        taps->first[i] = start + skipped * dilation;
        taps->count[i] = at_least(0, end - skipped);
    }
}

/* in: x [N,C,H,W]  out: y [N,C,OH,OW], indices i32 [N,C,OH,OW]? = position of the largest in H*W.   pool: window
 * The first one of equals; NaN counts as largest. */
ls_status ls_cpu_max_pool2d(const ls_call *call, ls_message *why)
{
    const ls_window *window = &call->attrs.pool.window;
    ls_windows windows = {.kind = LS_WINDOWS_MAX, .x = call->in[0], .y = call->out[0], .fill = max_taps};
    if (call->n_out > 1) windows.where = call->out[1];
    for (int axis = 0; axis < 2; axis++) {
        windows.most[axis] = window->kernel[axis];
        windows.spread[axis] = window->dilation[axis];
    }
    if (windows.x->dim[LS_H] * windows.x->dim[LS_W] > INT32_MAX)
        return ls_explain(why, LS_ERR_UNSUPPORTED, "max_pool2d: more than 2^31 - 1 pixels in a picture");
    return ls_cpu_windows(call, &windows, why);
}

/* The windows that may contain input i: with dilation some between the first and the last do not, but then their index
 * tells. */
static void max_grad_taps(const ls_call *call, int axis, ls_taps *taps)
{
    const ls_window *window = &call->attrs.pool.window;
    int64_t reach = (window->kernel[axis] - 1) * window->dilation[axis], stride = window->stride[axis];
    for (int64_t i = 0; i < taps->outputs; i++) {
        int64_t at = i + window->padding[axis];
        taps->first[i] = at_least(0, ceil_div(at - reach, stride));
        taps->count[i] = at_least(0, at_most(at / stride, taps->inputs - 1) - taps->first[i] + 1);
    }
}

/* in: dy [N,C,OH,OW], indices i32 [N,C,OH,OW]  out: dx [N,C,H,W].   pool: window */
ls_status ls_cpu_max_pool2d_grad(const ls_call *call, ls_message *why)
{
    const ls_window *window = &call->attrs.pool.window;
    ls_windows windows = {.kind = LS_WINDOWS_CHOSEN, .x = call->in[0], .y = call->out[0], .where = call->in[1]};
    windows.fill = max_grad_taps;
    for (int axis = 0; axis < 2; axis++) {
        windows.most[axis] = (window->kernel[axis] - 1) * window->dilation[axis] / window->stride[axis] + 1;
        windows.spread[axis] = 1;
    }
    return ls_cpu_windows(call, &windows, why);
}

/* ---- means ---------------------------------------------------------------------------------------------------- */

/* Inputs from `first` up to `end`, each with weight 1 / divisor. */
static void set_mean(ls_taps *taps, int64_t i, int64_t first, int64_t end, int64_t divisor)
{
    taps->first[i] = first;
    taps->count[i] = at_least(0, end - first);
    for (int64_t t = 0; t < taps->count[i]; t++) taps->weight[i * taps->most + t] = 1.0 / (double)divisor;
}

/* A window may extend past the padding (if the caller rounded the output size up): that part never counts. The rest of
 * the padding counts with count_include_pad. */
static void avg_taps(const ls_call *call, int axis, ls_taps *taps)
{
    const ls_window *window = &call->attrs.pool.window;
    for (int64_t i = 0; i < taps->outputs; i++) {
        int64_t start = i * window->stride[axis] - window->padding[axis];
        int64_t end = at_most(start + window->kernel[axis], taps->inputs + window->padding[axis]);
        int64_t first = at_least(start, 0), last = at_most(end, taps->inputs);
        set_mean(taps, i, first, last, call->attrs.pool.count_include_pad ? end - start : last - first);
    }
}

/* Bins that tile the input; adjacent ones share an input if the sizes do not divide. */
static void adaptive_taps(const ls_call *call, int axis, ls_taps *taps)
{
    (void)call;
    (void)axis;
    for (int64_t i = 0; i < taps->outputs; i++) {
        int64_t first = i * taps->inputs / taps->outputs, end = ceil_div((i + 1) * taps->inputs, taps->outputs);
        set_mean(taps, i, first, end, end - first);
    }
}

static ls_status pool_mean(const ls_call *call, bool gradient, ls_taps_fn *fill, ls_message *why)
{
    ls_windows windows = {.x = call->in[0], .y = call->out[0], .fill = fill, .turned = gradient, .spread = {1, 1}};
    const ls_operand *picture = gradient ? windows.y : windows.x, *pooled = gradient ? windows.x : windows.y;
    for (int axis = 0; axis < 2; axis++) {
        int64_t in = picture->dim[LS_H + axis], out = pooled->dim[LS_H + axis];
        windows.most[axis] = fill == avg_taps ? call->attrs.pool.window.kernel[axis] : in / at_least(out, 1) + 2;
    }
    return ls_cpu_windows(call, &windows, why);
}

/* in: x [N,C,H,W]  out: y [N,C,OH,OW].   pool: window (no dilation), count_include_pad */
ls_status ls_cpu_avg_pool2d(const ls_call *call, ls_message *why)
{
    return pool_mean(call, false, avg_taps, why);
}

/* in: dy [N,C,OH,OW]  out: dx [N,C,H,W].   pool as in avg_pool2d */
ls_status ls_cpu_avg_pool2d_grad(const ls_call *call, ls_message *why)
{
    return pool_mean(call, true, avg_taps, why);
}

/* in: x [N,C,H,W]  out: y [N,C,OH,OW] */
ls_status ls_cpu_adaptive_avg_pool2d(const ls_call *call, ls_message *why)
{
    return pool_mean(call, false, adaptive_taps, why);
}

/* in: dy [N,C,OH,OW]  out: dx [N,C,H,W] */
ls_status ls_cpu_adaptive_avg_pool2d_grad(const ls_call *call, ls_message *why)
{
    return pool_mean(call, true, adaptive_taps, why);
}
