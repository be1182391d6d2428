/* canvas.h - what a plot is drawn on: a table of functions, one set for SVG and one for pixels.
 *
 * Coordinates are pixels from the upper left corner. */
#ifndef LOCKSTEP_TRACK_PLOT_CANVAS_H
#define LOCKSTEP_TRACK_PLOT_CANVAS_H

#include "track/buffer.h"

typedef struct ls_point {
    float x, y;
} ls_point;

typedef struct ls_paint {
    uint32_t colour; /* 0xrrggbb */
    float opacity;   /* 0..1 */
    float width;     /* of lines */
} ls_paint;

/* Where the given point lies in a text; it stands on the point's y. */
typedef enum ls_anchor { LS_ANCHOR_START, LS_ANCHOR_MIDDLE, LS_ANCHOR_END } ls_anchor;

typedef struct ls_text_style {
    uint32_t colour;
    float size; /* height of a line in pixels, of which capitals take 0.72 */
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

/* A white one; NULL when memory is out. */
ls_canvas *ls_canvas_svg(int width, int height);
ls_canvas *ls_canvas_png(int width, int height);

/* Width of a text in pixels: exact for PNG, about right for the fonts that SVG is shown with. */
float ls_canvas_text_width(const char *text, float size);

#endif
