/* scale.c - execute a view: Pillow's resampling in both directions and the output, in one pass down the image. */
#include <math.h>
#include <string.h>

#include "data/image/view.h"

/* ---- Filters ---- */

static double bilinear(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

static double box(double x)
{
    return x > -0.5 && x <= 0.5 ? 1 : 0;
}

static double hamming(double x)
{
    x = fabs(x);
    if (x == 0) return 1;
    if (x >= 1) return 0;
    x *= M_PI;
    return sin(x) / x * (0.54 + 0.46 * cos(x));
}

static double bicubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
    return 0;
}

static double sinc(double x)
{
    return x == 0 ? 1 : sin(x * M_PI) / (x * M_PI);
}

static double lanczos(double x)
{
    return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

static const struct {
    double (*weight)(double x);
    double support; /* half the width at scale 1 */
} filters[] = {[LS_FILTER_BILINEAR] = {bilinear, 1},
               [LS_FILTER_BICUBIC] = {bicubic, 2},
               [LS_FILTER_BOX] = {box, 0.5},
               [LS_FILTER_HAMMING] = {hamming, 1},
               [LS_FILTER_LANCZOS] = {lanczos, 3}};

/* ---- Axes ---- */

/* Iterates over the outputs of an axis: which inputs of the box each depends on. */
typedef struct reach {
    ls_filter filter;
    int64_t inputs, output;
    double edge, step;        /* start of the first output, and inputs per output */
    double widening, support; /* filter width relative to scale 1, and half its width */
    double center;            /* of the output, in inputs */
    int64_t begin, end;
} reach;

static void reach_settle(reach *r)
{
    if (r->filter == LS_FILTER_NEAREST) {
        r->begin = (int64_t)r->center < r->inputs ? (int64_t)r->center : r->inputs - 1;
        r->end = r->begin + 1;
        return;
    }
    r->center = r->edge + ((double)r->output + 0.5) * r->step;
    r->begin = (int64_t)(r->center - r->support + 0.5);
    r->end = (int64_t)(r->center + r->support + 0.5);
    if (r->begin < 0) r->begin = 0;
    if (r->end > r->inputs) r->end = r->inputs;
}

static void reach_next(reach *r)
{
    r->output++;
    r->center += r->step; /* for NEAREST: accumulated as in Pillow, whose rounding decides between neighbours */
    reach_settle(r);
}

static reach reach_start(const ls_axis *a, ls_filter filter, int64_t outputs)
{
    reach r = {.filter = filter, .inputs = a->inputs, .edge = a->edge, .step = a->part / (double)outputs};
    r.widening = r.step < 1 ? 1 : r.step;
    r.support = filters[filter].support * r.widening;
    r.center = r.step * 0.5;
    reach_settle(&r);
    while (r.output < a->from) reach_next(&r);
    return r;
}

/* The visible outputs and the inputs they need; `group`: the number of taps is a multiple of it. */
static void measure_axis(ls_axis *a, ls_filter filter, int64_t outputs, int64_t window, int64_t size, int64_t group)
{
    a->from = window > 0 ? window : 0;
    a->to = window + size < outputs ? window + size : outputs;
    if (a->to < a->from) a->to = a->from;
    a->low = a->from;
    a->high = a->to;
    a->taps = 0;
    if (filter == LS_FILTER_DEFAULT || a->from == a->to || (double)outputs == a->part) return;
    reach r = reach_start(a, filter, outputs);
    a->low = r.begin;
    for (int64_t i = a->from; i < a->to; i++, reach_next(&r)) {
        if (r.end - r.begin > a->taps) a->taps = r.end - r.begin;
        a->high = r.end;
    }
    a->taps = (a->taps + group - 1) / group * group;
}

static size_t axis_bytes(const ls_axis *a)
{
    return a->taps ? (size_t)(a->to - a->from) * (size_t)(a->taps + 1) * sizeof(int32_t) : 0;
}

static int32_t fixed_point(double weight)
{
    return (int32_t)(weight * (1 << LS_IMAGE_WEIGHT_BITS) + (weight < 0 ? -0.5 : 0.5));
}

/* Weights of an output, computed as in Pillow. */
static void fill_weights(const reach *r, int32_t *weight)
{
    int64_t count = r->end - r->begin;
    if (r->filter == LS_FILTER_NEAREST) {
        weight[0] = 1 << LS_IMAGE_WEIGHT_BITS;
        return;
    }
    double narrow = 1 / r->widening, sum = 0;
    double (*of)(double) = filters[r->filter].weight;
    for (int64_t k = 0; k < count; k++) sum += of(((double)(k + r->begin) - r->center + 0.5) * narrow);
    for (int64_t k = 0; k < count; k++) {
        double w = of(((double)(k + r->begin) - r->center + 0.5) * narrow);
        weight[k] = fixed_point(sum != 0 ? w / sum : w);
    }
}

/* `unit`: of `first`; flipped axes have their last output first. Unneeded taps of an output have weight 0, and come
 * first if they would reach beyond the last input. */
static void fill_axis(ls_axis *a, ls_filter filter, int64_t outputs, int32_t unit, bool mirrored)
{
    if (!a->taps) return;
    int64_t n = a->to - a->from, last_begin = a->high - a->taps > a->low ? a->high - a->taps : a->low;
    reach r = reach_start(a, filter, outputs);
    for (int64_t i = 0; i < n; i++, reach_next(&r)) {
        int64_t at = mirrored ? n - 1 - i : i, begin = r.begin < last_begin ? r.begin : last_begin;
        int32_t *weight = a->weight + at * a->taps;
        a->first[at] = (int32_t)(begin - a->low) * unit;
        memset(weight, 0, (size_t)a->taps * sizeof *weight);
        fill_weights(&r, weight + (r.begin - begin));
    }
}

/* ---- Plans ---- */

/* Pillow scales rows first, unless the height shrinks so much that the other order is less work. Each direction rounds
 * to bytes, so the order matters. (Pillow chooses since version 13; before, rows always came first.) */
static bool goes_down_first(const ls_view *view)
{
    int64_t narrower = view->box.width - view->width, lower = view->box.height - view->height;
    return lower > 2 * (narrower > 0 ? narrower : 0);
}

/* Rows between the two directions: a ring of rows scaled horizontally, or one row scaled vertically. */
static int64_t between_rows(const ls_view_plan *plan)
{
    return plan->down.taps && !plan->down_first ? plan->down.taps : 1;
}

static size_t between_bytes(const ls_view_plan *plan)
{
    int64_t width = plan->down_first ? plan->across.high - plan->across.low : plan->across.to - plan->across.from;
    return (size_t)width * 3 + LS_IMAGE_SLACK;
}

ls_status ls_view_plan_make(const ls_view *view, ls_view_plan *plan, ls_message *why)
{
    const ls_box *w = &view->window;
    ls_axis *x = &plan->across, *y = &plan->down;
    bool whole = view->part_width == 0;
    *plan = (ls_view_plan){.kernels = ls_image_kernels()};
    x->inputs = view->box.width;
    y->inputs = view->box.height;
    x->edge = view->edge_x;
    y->edge = view->edge_y;
    x->part = whole ? (double)view->box.width : view->part_width;
    y->part = whole ? (double)view->box.height : view->part_height;
    measure_axis(x, view->filter, view->width, w->x, w->width, LS_IMAGE_TAPS);
    measure_axis(y, view->filter, view->height, w->y, w->height, 1);
    plan->down_first = x->taps && y->taps && goes_down_first(view);

    size_t pointers = (size_t)(y->taps ? y->taps : 1) * sizeof(uint8_t *);
    size_t between = (size_t)between_rows(plan) * between_bytes(plan);
    size_t line = (size_t)w->width * 3 + LS_IMAGE_SLACK;
    char *memory = ls_image_scratch(LS_SLOT_WORK, pointers + axis_bytes(x) + axis_bytes(y) + between + line);
    if (!memory) return ls_image_out_of_memory(why, view->width, view->height);
    plan->rows = (const uint8_t **)(void *)memory;
    x->first = (int32_t *)(void *)(memory + pointers);
    x->weight = x->first + (x->taps ? x->to - x->from : 0);
    y->first = (int32_t *)(void *)(memory + pointers + axis_bytes(x));
    y->weight = y->first + (y->taps ? y->to - y->from : 0);
    plan->between = (uint8_t *)memory + pointers + axis_bytes(x) + axis_bytes(y);
    plan->line = plan->between + between;
    fill_axis(x, view->filter, view->width, 3, view->flip_x);
    fill_axis(y, view->filter, view->height, 1, false);
    return LS_OK;
}

ls_box ls_view_needs(const ls_view *view, const ls_view_plan *plan)
{
    const ls_axis *x = &plan->across, *y = &plan->down;
    return (ls_box){view->box.x + x->low, view->box.y + y->low, x->high - x->low, y->high - y->low};
}

/* ---- Execution ---- */

static void mirror(uint8_t *to, const uint8_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) memcpy(to + 3 * i, from + 3 * (n - 1 - i), 3);
}

static void put_row(const ls_view *view, const ls_view_plan *plan, const ls_sink *sink, int64_t row)
{
    const uint8_t *line = plan->line;
    int64_t n = view->window.width * 3, at = (view->flip_y ? view->window.height - 1 - row : row) * n;
    if (sink->bytes) {
        memcpy(sink->bytes + at, line, (size_t)n);
    } else if (!sink->levels) {
        plan->kernels->to_float(sink->floats + at, line, n);
    } else {
        for (int64_t i = 0; i < n; i += 3)
            for (int c = 0; c < 3; c++) sink->floats[at + i + c] = sink->levels[c][line[i + c]];
    }
}

/* A row of the source, scaled horizontally. */
static void row_across(const ls_view *view, const ls_view_plan *plan, const uint8_t *from, uint8_t *to)
{
    const ls_axis *x = &plan->across;
    int64_t n = x->to - x->from;
    if (x->taps) plan->kernels->across(to, from, x->first, x->weight, x->taps, n);
    else if (view->flip_x) mirror(to, from, n);
    else memcpy(to, from, (size_t)n * 3);
}

/* The visible part of output row `output`, counted from the first visible one. *ready: rows of the source already
 * scaled horizontally. */
static void visible_row(const ls_view *view, const ls_view_plan *plan, const ls_picture *source, int64_t output,
                        int64_t *ready, uint8_t *to)
{
    const ls_axis *x = &plan->across, *y = &plan->down;
    if (!y->taps) {
        row_across(view, plan, source->pixels + (size_t)output * source->stride, to);
        return;
    }
    int64_t first = y->first[output];
    const int32_t *weight = y->weight + output * y->taps;
    if (plan->down_first) {
        for (int64_t k = 0; k < y->taps; k++) plan->rows[k] = source->pixels + (size_t)(first + k) * source->stride;
        plan->kernels->down(plan->between, plan->rows, weight, y->taps, (x->high - x->low) * 3);
        row_across(view, plan, plan->between, to);
        return;
    }
    size_t bytes = between_bytes(plan);
    if (*ready < first) *ready = first;
    for (; *ready < first + y->taps; ++*ready)
        row_across(view, plan, source->pixels + (size_t)*ready * source->stride,
                   plan->between + (size_t)(*ready % y->taps) * bytes);
    for (int64_t k = 0; k < y->taps; k++) plan->rows[k] = plan->between + (size_t)((first + k) % y->taps) * bytes;
    plan->kernels->down(to, plan->rows, weight, y->taps, (x->to - x->from) * 3);
}

void ls_view_run(const ls_view *view, const ls_view_plan *plan, const ls_picture *source, const ls_sink *sink)
{
    const ls_axis *x = &plan->across, *y = &plan->down;
    const ls_box *w = &view->window;
    int64_t n = x->to - x->from, left = x->from - w->x, ready = 0;
    if (view->flip_x) left = w->width - left - n;
    for (int64_t row = 0; row < w->height; row++) {
        int64_t output = w->y + row - y->from;
        bool visible = n > 0 && output >= 0 && output < y->to - y->from;
        if (visible) visible_row(view, plan, source, output, &ready, plan->line + 3 * left);
        /* Black beside it, also over what kernels wrote past its end. */
        int64_t shown = visible ? n : 0, begin = visible ? left : 0;
        memset(plan->line, 0, (size_t)begin * 3);
        memset(plan->line + 3 * (begin + shown), 0, (size_t)(w->width - begin - shown) * 3);
        put_row(view, plan, sink, row);
    }
}
