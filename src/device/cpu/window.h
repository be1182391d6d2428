/* window.h - pictures [N,C,H,W] whose pixels are each computed from a window of another picture: shared by pooling,
 * resizing and their gradients.
 *
 * Two small tables, one per axis, say which pixels are in a window and, for sums, their weights: the weight of a pixel
 * is the product of its weights in both. A gradient is the same from dy to dx, with tables that say which windows a
 * pixel was in: every pixel of dx is written once, and its sum has a fixed order whatever the number of workers. */
#ifndef LOCKSTEP_DEVICE_CPU_WINDOW_H
#define LOCKSTEP_DEVICE_CPU_WINDOW_H

#include <lockstep/plugin.h>

enum { LS_N, LS_C, LS_H, LS_W }; /* the dimensions of a picture; axis 0 of a window is the height, 1 the width */

/* One axis: output i is computed from count[i] inputs: first[i], then every `spread`-th. */
typedef struct ls_taps {
    int64_t outputs, inputs;
    int64_t most; /* the largest count */
    int64_t spread;
    int64_t *first, *count; /* [outputs] */
    double *weight;         /* [outputs, most] */
} ls_taps;

typedef enum ls_windows_kind {
    LS_WINDOWS_SUM,    /* y = weighted sum of x */
    LS_WINDOWS_COPY,   /* the same, where every window is one pixel with weight 1 */
    LS_WINDOWS_MAX,    /* y = largest of x, where [N,C,OH,OW] i32 = its position in H*W, row-major; where may be NULL */
    LS_WINDOWS_CHOSEN, /* y = sum of x over the windows for which `where`, of x's shape, holds the position in y */
} ls_windows_kind;

/* Fill in first, count and (for sums) weight of one axis; the rest has been set. */
typedef void ls_taps_fn(const ls_call *call, int axis, ls_taps *taps);

typedef struct ls_windows {
    ls_windows_kind kind;
    const ls_operand *x, *y, *where;
    ls_taps_fn *fill;
    bool turned; /* invert the tables, which are those from y to x (gradient of a sum). Only for spread 1, and if all
                  * outputs that an input is part of are adjacent. */
    int64_t most[2], spread[2];
} ls_windows;

ls_status ls_cpu_windows(const ls_call *call, const ls_windows *windows, ls_message *why);

#endif
