/* plot.h - the internals of a plot. */
#ifndef LOCKSTEP_TRACK_PLOT_PLOT_H
#define LOCKSTEP_TRACK_PLOT_PLOT_H

#include <lockstep/track.h>

#include "base/arena.h"
#include "tensor/object.h"
#include "track/plot/canvas.h"

typedef struct ls_plot_curve {
    ls_curve curve; /* in the arena */
    struct ls_plot_curve *next;
} ls_plot_curve;

typedef struct ls_plot_panel {
    const char *title;
    ls_plot_curve *first, *last;
    int count;
    struct ls_plot_panel *next;
} ls_plot_panel;

struct ls_plot {
    ls_object object;
    ls_arena arena;
    ls_plot_opts opts; /* texts are in the arena */
    ls_plot_panel *first, *last;
    int count;
};

/* Default size of a picture, in pixels. */
void ls_plot_size(const ls_plot *plot, int *width, int *height);
/* False: out of memory. */
bool ls_plot_draw(const ls_plot *plot, ls_canvas *canvas);

/* ---- Axes ---- */

/* From values to pixels. */
typedef struct ls_plot_axis {
    double low, high; /* of the values, or of their logarithms (base 10) */
    bool logarithmic;
    float from, to; /* pixels */
} ls_plot_axis;

/* Start empty, take in values, then round outwards. */
ls_plot_axis ls_plot_axis_empty(bool logarithmic);
void ls_plot_axis_take(ls_plot_axis *axis, double value);
void ls_plot_axis_round(ls_plot_axis *axis, bool tight); /* tight: no margin beyond the values */
/* The pixel of a value; NaN if it has none. */
float ls_plot_axis_place(const ls_plot_axis *axis, double value);

enum { LS_AXIS_TICKS = 16 };
typedef struct ls_ticks {
    int count;
    double value[LS_AXIS_TICKS];
    char label[LS_AXIS_TICKS][24];
} ls_ticks;
/* At most `wanted` + 2 round values with their labels. */
ls_ticks ls_plot_axis_ticks(const ls_plot_axis *axis, int wanted);

#endif
