/* draw.c - a plot on a canvas: panels in a grid, and in each a title, axes, curves and a legend. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "track/plot/plot.h"

enum { TEXT = 0x343a40, FAINT_TEXT = 0x6c757d, GRID = 0xe9ecef, AXIS = 0xadb5bd, PAPER = 0xffffff };

static const uint32_t colours[] = {0x1f6feb, 0xe8590c, 0x2f9e44, 0x9c36b5, 0xe03131, 0x0c8599, 0xf08c00, 0x495057};
enum { COLOURS = sizeof colours / sizeof *colours };

static const float label_size = 13, title_size = 15, picture_title_size = 18, margin = 16;

/* ---- layout ---- */

/* Side by side, a panel is a row, and a curve of it a column. */
static int columns_of(const ls_plot *plot)
{
    int most = 1;
    for (const ls_plot_panel *p = plot->first; p && plot->opts.beside; p = p->next)
        if (p->count > most) most = p->count;
    return plot->opts.beside ? most : plot->count <= 1 ? 1 : plot->count <= 4 ? 2 : 3;
}

static int rows_of(const ls_plot *plot)
{
    int columns = columns_of(plot);
    return plot->opts.beside ? plot->count : (plot->count + columns - 1) / columns;
}

void ls_plot_size(const ls_plot *plot, int *width, int *height)
{
    int columns = columns_of(plot), rows = rows_of(plot);
    *width = plot->opts.width > 0 ? plot->opts.width : columns * rows <= 1 ? 880 : 520 * columns;
    *height = plot->opts.height > 0 ? plot->opts.height : columns * rows <= 1 ? 520 : 360 * rows;
}

/* The area of a panel, and the area of its curves. */
typedef struct box {
    float left, top, right, bottom;
} box;

static ls_text_style style(float size, uint32_t colour, ls_anchor anchor)
{
    return (ls_text_style){.size = size, .colour = colour, .anchor = anchor};
}

/* Draw a text, shortened with "..." if it is too wide. */
static void put_text(ls_canvas *canvas, ls_point at, const char *text, ls_text_style how, float room)
{
    char cut[256];
    size_t length = strnlen(text, sizeof cut - 4);
    memcpy(cut, text, length);
    cut[length] = '\0';
    while (length > 1 && ls_canvas_text_width(cut, how.size) > room) {
        do length--;
        while (length > 1 && (text[length] & 0xc0) == 0x80); /* not inside a UTF-8 character */
        strcpy(cut + length, "...");
    }
    canvas->table->text(canvas, at, cut, how);
}

static void put_line(ls_canvas *canvas, float x0, float y0, float x1, float y1, uint32_t colour)
{
    /* Through pixel centres, so that it is one pixel wide and not two half pixels. */
    ls_point ends[] = {{floorf(x0) + 0.5f, floorf(y0) + 0.5f}, {floorf(x1) + 0.5f, floorf(y1) + 0.5f}};
    canvas->table->polyline(canvas, ends, 2, (ls_paint){.colour = colour, .opacity = 1, .width = 1});
}

/* ---- axes ---- */

/* Draws grid and labels into the panel; returns the area left for the curves. */
static box draw_axes(ls_canvas *canvas, box panel, ls_plot_axis *x, ls_plot_axis *y, const char *x_label)
{
    y->from = panel.bottom - 2 * label_size - 14;
    y->to = panel.top + title_size + 14;
    ls_ticks rows = ls_plot_axis_ticks(y, (int)((y->from - y->to) / 48));
    float widest = 0;
    for (int i = 0; i < rows.count; i++) widest = fmaxf(widest, ls_canvas_text_width(rows.label[i], label_size));
    x->from = panel.left + widest + 10;
    x->to = panel.right - 8;
    ls_ticks columns = ls_plot_axis_ticks(x, (int)((x->to - x->from) / 80));
    box inner = {.left = x->from, .top = y->to, .right = x->to, .bottom = y->from};
    for (int i = 0; i < rows.count; i++) {
        float at = ls_plot_axis_place(y, rows.value[i]);
        put_line(canvas, inner.left, at, inner.right, at, GRID);
        canvas->table->text(canvas, (ls_point){inner.left - 8, at + label_size * 0.36f}, rows.label[i],
                            style(label_size, FAINT_TEXT, LS_ANCHOR_END));
    }
    for (int i = 0; i < columns.count; i++) {
        float at = ls_plot_axis_place(x, columns.value[i]);
        put_line(canvas, at, inner.bottom, at, inner.bottom + 4, AXIS);
        canvas->table->text(canvas, (ls_point){at, inner.bottom + label_size + 7}, columns.label[i],
                            style(label_size, FAINT_TEXT, LS_ANCHOR_MIDDLE));
    }
    put_line(canvas, inner.left, inner.bottom, inner.right, inner.bottom, AXIS);
    put_text(canvas, (ls_point){(inner.left + inner.right) / 2, panel.bottom - 2}, x_label,
             style(label_size, FAINT_TEXT, LS_ANCHOR_MIDDLE), inner.right - inner.left);
    return inner;
}

/* ---- curves ---- */

/* A polyline under construction. Of the points on the same half pixel only the first, lowest, highest and last are
 * drawn: a million points look the same and cost as much as a few thousand. */
typedef struct pen {
    ls_canvas *canvas;
    ls_paint paint;
    ls_point *points;          /* four per half pixel, and four more */
    size_t count, room, group; /* points from index `group` on share a half pixel */
} pen;

static void flush_pen(pen *p)
{
    if (p->count) p->canvas->table->polyline(p->canvas, p->points, p->count, p->paint);
    p->count = p->group = 0;
}

static void draw_to(pen *p, ls_point to)
{
    size_t in_group = p->count - p->group;
    bool same = in_group > 0 && floorf(p->points[p->group].x * 2) == floorf(to.x * 2);
    if (!same) p->group = p->count;
    if (!same || in_group < 4) {
        if (p->count == p->room) { /* cannot happen while x increases; restart at the last point */
            ls_point last = p->points[p->count - 1];
            flush_pen(p);
            p->points[p->count++] = last;
            p->group = p->count;
        }
        p->points[p->count++] = to;
        return;
    }
    ls_point *g = p->points + p->group; /* first, two extremes in order of arrival, last */
    ls_point candidates[] = {g[1], g[2], g[3], to};
    int low = 0, high = 0;
    for (int i = 1; i < 3; i++) {
        if (candidates[i].y < candidates[low].y) low = i;
        if (candidates[i].y > candidates[high].y) high = i;
    }
    g[1] = candidates[low < high ? low : high];
    g[2] = candidates[low < high ? high : low];
    g[3] = to;
}

/* The smallest distance between points of any curve: all curves are smoothed over the same number of steps, so that the
 * mean of a loss per step does not lag behind, and ten values of an accuracy are barely changed. */
static double closest_spacing(const ls_plot *plot)
{
    double least = (double)INFINITY;
    for (const ls_plot_panel *panel = plot->first; panel; panel = panel->next) {
        for (const ls_plot_curve *c = panel->first; c; c = c->next) {
            double span = c->curve.count > 1 ? c->curve.x[c->curve.count - 1] - c->curve.x[0] : 0;
            if (span > 0) least = fmin(least, span / (double)(c->curve.count - 1));
        }
    }
    return least;
}

/* Exponential smoothing: the running mean keeps the share `keep` per `spacing` steps; 0: no smoothing. */
typedef struct smoothing {
    double keep, spacing;
} smoothing;

static void draw_curve(pen *p, const ls_curve *curve, const ls_plot_axis *x, const ls_plot_axis *y, smoothing s)
{
    double mean = 0, weight = 0, last_x = curve->count ? curve->x[0] : 0;
    for (int64_t i = 0; i < curve->count; i++) {
        double value = curve->y[i];
        if (isfinite(value)) {
            double kept = s.keep > 0 ? pow(s.keep, fmax((curve->x[i] - last_x) / s.spacing, 0)) : 0;
            if (kept == 1) kept = s.keep;
            mean = kept * mean + (1 - kept) * value;
            weight = kept * weight + (1 - kept);
            value = mean / weight;
            last_x = curve->x[i];
        }
        ls_point at = {ls_plot_axis_place(x, curve->x[i]), ls_plot_axis_place(y, value)};
        if (isnan(at.x) || isnan(at.y)) flush_pen(p);
        else draw_to(p, at);
    }
    flush_pen(p);
}

/* Curves with few values are drawn with markers and without smoothing. */
enum { FEW = 24 };

static void mark_points(ls_canvas *canvas, const ls_curve *curve, const ls_plot_axis *x, const ls_plot_axis *y,
                        ls_paint paint)
{
    paint.width *= 3;
    for (int64_t i = 0; i < curve->count; i++) {
        ls_point at = {ls_plot_axis_place(x, curve->x[i]), ls_plot_axis_place(y, curve->y[i])};
        if (!isnan(at.x) && !isnan(at.y)) canvas->table->polyline(canvas, &at, 1, paint);
    }
}

static bool draw_curves(ls_canvas *canvas, const ls_plot_panel *panel, const ls_plot_axis *x, const ls_plot_axis *y,
                        smoothing s)
{
    size_t room = 8 * (size_t)canvas->width + 8;
    pen p = {.canvas = canvas, .points = ls_sys_alloc(room * sizeof(ls_point)), .room = room};
    if (!p.points) return false;
    for (int pass = s.keep > 0 ? 0 : 1; pass < 2; pass++) {
        int i = 0;
        for (const ls_plot_curve *c = panel->first; c; c = c->next, i++) {
            bool few = c->curve.count <= FEW, faint = pass == 0;
            if (few && faint) continue;
            p.paint = (ls_paint){.colour = colours[i % COLOURS], .opacity = faint ? 0.25f : 1, .width = faint ? 1 : 2};
            draw_curve(&p, &c->curve, x, y, faint || few ? (smoothing){0} : s);
            if (few) mark_points(canvas, &c->curve, x, y, p.paint);
        }
    }
    ls_sys_free(p.points);
    return true;
}

/* Number of points of all curves inside a rectangle. */
static int64_t points_inside(const ls_plot_panel *panel, const ls_plot_axis *x, const ls_plot_axis *y, ls_point from,
                             ls_point to)
{
    int64_t count = 0;
    for (const ls_plot_curve *c = panel->first; c; c = c->next) {
        for (int64_t i = 0; i < c->curve.count; i++) {
            float px = ls_plot_axis_place(x, c->curve.x[i]), py = ls_plot_axis_place(y, c->curve.y[i]);
            count += px >= from.x && px <= to.x && py >= from.y && py <= to.y;
        }
    }
    return count;
}

/* Draw the names of the curves in the corner with the fewest points; on a tie, the upper right. */
static void draw_legend(ls_canvas *canvas, const ls_plot_panel *panel, box inner, const ls_plot_axis *x,
                        const ls_plot_axis *y)
{
    const float line = label_size + 6, sample = 20;
    float widest = 0, most = (inner.right - inner.left) * 0.6f;
    for (const ls_plot_curve *c = panel->first; c; c = c->next)
        widest = fmaxf(widest, ls_canvas_text_width(c->curve.name, label_size));
    widest = fminf(widest, most);
    float width = widest + sample + 20, height = line * (float)panel->count + 8;
    const ls_point corners[] = {{inner.right - width - 2, inner.top + 2},
                                {inner.right - width - 2, inner.bottom - height - 4},
                                {inner.left + 4, inner.top + 2},
                                {inner.left + 4, inner.bottom - height - 4}};
    ls_point from = corners[0], to = {0};
    int64_t fewest = INT64_MAX;
    for (int i = 0; i < 4; i++) {
        ls_point end = {corners[i].x + width, corners[i].y + height};
        int64_t covered = points_inside(panel, x, y, corners[i], end);
        if (covered >= fewest) continue;
        fewest = covered;
        from = corners[i];
        to = end;
    }
    canvas->table->rectangle(canvas, from, to, (ls_paint){.colour = PAPER, .opacity = 0.85f});
    int i = 0;
    for (const ls_plot_curve *c = panel->first; c; c = c->next, i++) {
        float middle = from.y + 4 + line * ((float)i + 0.5f);
        ls_point ends[] = {{from.x + 6, middle}, {from.x + 6 + sample, middle}};
        canvas->table->polyline(canvas, ends, 2, (ls_paint){.colour = colours[i % COLOURS], .opacity = 1, .width = 2});
        put_text(canvas, (ls_point){from.x + sample + 14, middle + label_size * 0.36f}, c->curve.name,
                 style(label_size, TEXT, LS_ANCHOR_START), widest);
    }
}

/* ---- panels ---- */

/* Draw a panel, or one curve of it with the axes of all. */
static bool draw_panel(const ls_plot *plot, const ls_plot_panel *panel, const ls_plot_curve *only, ls_canvas *canvas,
                       box area)
{
    char title[512];
    ls_plot_curve alone = only ? (ls_plot_curve){.curve = only->curve} : (ls_plot_curve){.next = NULL};
    ls_plot_panel drawn = only ? (ls_plot_panel){.first = &alone, .last = &alone, .count = 1} : *panel;
    snprintf(title, sizeof title, "%s%s%s", panel->title, only ? ": " : "", only ? only->curve.name : "");
    ls_plot_axis x = ls_plot_axis_empty(plot->opts.log_x), y = ls_plot_axis_empty(plot->opts.log_y);
    for (const ls_plot_curve *c = panel->first; c; c = c->next) {
        for (int64_t i = 0; i < c->curve.count; i++) {
            ls_plot_axis_take(&x, c->curve.x[i]);
            ls_plot_axis_take(&y, c->curve.y[i]);
        }
    }
    ls_plot_axis_round(&x, true);
    ls_plot_axis_round(&y, false);
    ls_text_style heading = style(title_size, TEXT, LS_ANCHOR_START);
    heading.bold = true;
    put_text(canvas, (ls_point){area.left, area.top + title_size}, title, heading, area.right - area.left);
    box inner = draw_axes(canvas, area, &x, &y, plot->opts.x_label ? plot->opts.x_label : "step");
    smoothing s = {.keep = plot->opts.smooth, .spacing = closest_spacing(plot)};
    if (!draw_curves(canvas, &drawn, &x, &y, s)) return false;
    if (drawn.count > 1) draw_legend(canvas, &drawn, inner, &x, &y);
    return true;
}

bool ls_plot_draw(const ls_plot *plot, ls_canvas *canvas)
{
    float top = 0, width = (float)canvas->width;
    if (plot->opts.title && plot->opts.title[0]) {
        top = picture_title_size + 14;
        ls_text_style heading = style(picture_title_size, TEXT, LS_ANCHOR_MIDDLE);
        heading.bold = true;
        put_text(canvas, (ls_point){width / 2, picture_title_size + 8}, plot->opts.title, heading, width - 2 * margin);
    }
    int columns = columns_of(plot), rows = rows_of(plot), i = 0;
    float panel_width = width / (float)columns, panel_height = ((float)canvas->height - top) / (float)(rows ? rows : 1);
    for (const ls_plot_panel *panel = plot->first; panel; panel = panel->next) {
        for (const ls_plot_curve *c = panel->first; c; c = plot->opts.beside ? c->next : NULL, i++) {
            float left = panel_width * (float)(i % columns), upper = top + panel_height * (float)(i / columns);
            box area = {left + margin, upper + margin, left + panel_width - margin, upper + panel_height - margin};
            if (!draw_panel(plot, panel, plot->opts.beside ? c : NULL, canvas, area)) return false;
        }
        while (plot->opts.beside && i % columns) i++; /* the next panel begins a row */
    }
    return true;
}
