/* interpolate.c - pictures resized by nearest pixel or bilinear, with PyTorch's coordinates.
 *
 * Each axis is a table of one or two weighted inputs per output; src/device/cpu/window.c does the rest. Coordinates are
 * computed in f32 (f64 for f64 pictures), so that the same pixel is chosen. */
#include "device/cpu/cpu.h"
#include "device/cpu/window.h"

#include <math.h>

/* The position of output i on the input's axis. */
static double coordinate(const ls_call *call, int axis, const ls_taps *taps, int64_t i)
{
    int64_t in = taps->inputs, out = taps->outputs;
    bool corners = call->attrs.interpolate.bilinear && call->attrs.interpolate.align_corners;
    double step = call->attrs.interpolate.scale[axis], shift = 0;
    if (corners) step = out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
    else if (call->attrs.interpolate.bilinear) shift = 0.5;
    if (call->in[0]->dtype == LS_F64) return fma(step, (double)i + shift, -shift);
    return (double)fmaf((float)step, (float)i + (float)shift, -(float)shift);
}

/* Sizes that stay the same or double are taken literally, even if the user's factor was not exactly 1 or 2. */
static void nearest_taps(const ls_call *call, int axis, ls_taps *taps)
{
    for (int64_t i = 0; i < taps->outputs; i++) {
        int64_t at = (int64_t)floorf((float)coordinate(call, axis, taps, i));
        if (taps->outputs == taps->inputs) at = i;
        if (taps->outputs == 2 * taps->inputs) at = i / 2;
        taps->first[i] = at < taps->inputs ? at : taps->inputs - 1;
        taps->count[i] = 1;
        taps->weight[i * taps->most] = 1;
    }
}

static void bilinear_taps(const ls_call *call, int axis, ls_taps *taps)
{
    bool narrow = call->in[0]->dtype != LS_F64;
    for (int64_t i = 0; i < taps->outputs; i++) {
        double at = taps->inputs == taps->outputs ? (double)i : coordinate(call, axis, taps, i);
        if (at < 0) at = 0;
        int64_t first = (int64_t)at;
        if (first > taps->inputs - 1) first = taps->inputs - 1;
        double second = at - (double)first; /* weight of the pixel after the first; exact in f32 too */
        if (second > 1) second = 1;
        double weight = narrow ? (double)(1 - (float)second) : 1 - second;
        bool lone = second == 0 || first == taps->inputs - 1;
        taps->first[i] = first;
        taps->count[i] = lone ? 1 : 2;
        taps->weight[i * taps->most] = lone ? 1 : weight;
        if (!lone) taps->weight[i * taps->most + 1] = second;
    }
}

static ls_status resize(const ls_call *call, bool gradient, ls_message *why)
{
    bool bilinear = call->attrs.interpolate.bilinear;
    ls_windows windows = {.x = call->in[0], .y = call->out[0], .turned = gradient, .spread = {1, 1}};
    windows.kind = bilinear || gradient ? LS_WINDOWS_SUM : LS_WINDOWS_COPY;
    windows.fill = bilinear ? bilinear_taps : nearest_taps;
    windows.most[0] = windows.most[1] = bilinear ? 2 : 1;
    return ls_cpu_windows(call, &windows, why);
}

/* in: x [N,C,H,W]  out: y [N,C,OH,OW]
 * interpolate: bilinear (else nearest); scale = input step per output pixel: H / OH, or 1 / factor where the user gave
 * a factor. With align_corners (bilinear only) the step follows from the sizes and scale is ignored. */
ls_status ls_cpu_interpolate(const ls_call *call, ls_message *why)
{
    return resize(call, false, why);
}

/* in: dy [N,C,OH,OW]  out: dx [N,C,H,W].   interpolate as in the forward call */
ls_status ls_cpu_interpolate_grad(const ls_call *call, ls_message *why)
{
    return resize(call, true, why);
}
