/* axis.c - ranges, round values and their labels. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "track/plot/plot.h"

ls_plot_axis ls_plot_axis_empty(bool logarithmic)
{
    return (ls_plot_axis){.low = (double)INFINITY, .high = -(double)INFINITY, .logarithmic = logarithmic};
}

/* Position of a value on the axis's scale; NaN if it has none. */
static double scaled(const ls_plot_axis *axis, double value)
{
    if (!isfinite(value) || (axis->logarithmic && value <= 0)) return (double)NAN;
    return axis->logarithmic ? log10(value) : value;
}

void ls_plot_axis_take(ls_plot_axis *axis, double value)
{
    double at = scaled(axis, value);
    if (at < axis->low) axis->low = at;
    if (at > axis->high) axis->high = at;
}

void ls_plot_axis_round(ls_plot_axis *axis, bool tight)
{
    if (!(axis->low <= axis->high)) axis->low = 0, axis->high = 1;
    double span = axis->high - axis->low;
    if (span <= 1e-12 * fmax(fabs(axis->low), fabs(axis->high))) { /* a single value: put it in the middle */
        double around = axis->logarithmic ? 0.5 : axis->low != 0 ? fabs(axis->low) * 0.1 : 1;
        axis->low -= around;
        axis->high += around;
    } else if (!tight) {
        bool from_zero = !axis->logarithmic && axis->low == 0;
        axis->high += 0.05 * span;
        axis->low -= from_zero ? 0 : 0.05 * span;
    }
}

float ls_plot_axis_place(const ls_plot_axis *axis, double value)
{
    double part = (scaled(axis, value) - axis->low) / (axis->high - axis->low);
    return axis->from + (float)part * (axis->to - axis->from);
}

/* ---- ticks ---- */

/* 1, 2 or 5 times a power of ten, such that about `wanted` steps fill the span. */
static double round_step(double span, int wanted)
{
    double raw = span / wanted, power = pow(10, floor(log10(raw))), part = raw / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

/* A label as short as the distance to its neighbours allows: 0.25, 1500, 12k, 3M, 1e-05. */
static void write_label(char label[24], double value, double step)
{
    double size = fabs(value), largest = fmax(size, step);
    if (size < step * 1e-6) strcpy(label, "0");
    else if (largest >= 1e9 || largest < 1e-4) snprintf(label, 24, "%.3g", value);
    else if (largest >= 1e6 && fmod(step, 1e4) == 0) snprintf(label, 24, "%.4gM", value / 1e6);
    else if (largest >= 1e4 && fmod(step, 10) == 0) snprintf(label, 24, "%.5gk", value / 1e3);
    else snprintf(label, 24, "%.*f", (int)fmax(0, ceil(-log10(step) - 1e-9)), value);
}

static void add_tick(ls_ticks *ticks, double value, double step)
{
    if (ticks->count == LS_AXIS_TICKS) return;
    ticks->value[ticks->count] = value;
    write_label(ticks->label[ticks->count++], value, step);
}

/* Powers of ten; if there are too few of them, also 2 and 5 times each. */
static ls_ticks log_ticks(const ls_plot_axis *axis, int wanted)
{
    static const double within[] = {1, 2, 5};
    ls_ticks ticks = {0};
    int first = (int)floor(axis->low), last = (int)ceil(axis->high), decades = last - first;
    int stride = decades > wanted ? (decades + wanted - 1) / wanted : 1;
    int parts = 3 * (axis->high - axis->low) <= wanted ? 3 : 1;
    for (int e = first; e <= last; e += stride) {
        for (int i = 0; i < parts; i++) {
            double value = within[i] * pow(10, e), at = log10(value);
            if (at >= axis->low - 1e-9 && at <= axis->high + 1e-9) add_tick(&ticks, value, value);
        }
    }
    return ticks;
}

ls_ticks ls_plot_axis_ticks(const ls_plot_axis *axis, int wanted)
{
    if (wanted > LS_AXIS_TICKS - 2) wanted = LS_AXIS_TICKS - 2;
    if (wanted < 2) wanted = 2;
    if (axis->logarithmic) {
        ls_ticks ticks = log_ticks(axis, wanted);
        if (ticks.count >= 2) return ticks;
    }
    ls_ticks ticks = {0};
    double low = axis->logarithmic ? pow(10, axis->low) : axis->low,
           high = axis->logarithmic ? pow(10, axis->high) : axis->high;
    double step = round_step(high - low, wanted);
    for (double i = ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) add_tick(&ticks, i * step, step);
    return ticks;
}
