/* canvas.h - a surface to draw a plot on: a table of functions, one set for SVG and one for pixels.
 *
 * Coordinates are pixels from the upper left corner. */
#ifndef LOCKSTEP_TRACK_PLOT_CANVAS_H
#define LOCKSTEP_TRACK_PLOT_CANVAS_H

#include "base/buffer.h"

typedef struct ls_point {
    float x, y;
} ls_point;

typedef struct ls_paint {
    uint32_t colour; /* 0xrrggbb */
    float opacity;   /* 0..1 */
    float width;     /* of lines */
} ls_paint;

/* Which part of a text is at the given point; the point's y is its baseline. */
typedef enum ls_anchor { LS_ANCHOR_START, LS_ANCHOR_MIDDLE, LS_ANCHOR_END } ls_anchor;

typedef struct ls_text_style {
    uint32_t colour;
    float size; /* height of a line in pixels; capitals take 0.72 of it */
    ls_anchor anchor;
    bool bold;
} ls_text_style;

typedef struct ls_canvas ls_canvas;

typedef struct ls_canvas_table {
    void (*rectangle)(ls_canvas *canvas, ls_point from, ls_point to, ls_paint paint); /* filled */
    void (*polyline)(ls_canvas *canvas, const ls_point *points, size_t count, ls_paint paint);
    void (*text)(ls_canvas *canvas, ls_point at, const char *text, ls_text_style style);
    /* Append the finished file, and free the canvas. */
    void (*finish)(ls_canvas *canvas, ls_byte_buffer *file);
} ls_canvas_table;

struct ls_canvas {
    const ls_canvas_table *table;
    int width, height;
};

/* A white canvas; NULL: out of memory. */
ls_canvas *ls_canvas_svg(int width, int height);
ls_canvas *ls_canvas_png(int width, int height);

/* Width of a text in pixels: exact for PNG, approximate for the fonts that display SVG. */
float ls_canvas_text_width(const char *text, float size);

#endif
