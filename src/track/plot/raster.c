/* raster.c - the pixel canvas: antialiased lines, and letters made of such lines.
 *
 * A polyline is first drawn into a mask of how much of each pixel it covers, from the distance between the pixel's
 * centre and the nearest segment. Then the mask is painted, so that nothing is painted twice where segments meet or
 * cross. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/png.h"
#include "track/plot/canvas.h"
#include "track/plot/font.h"

typedef struct raster {
    ls_canvas canvas;
    unsigned char *pixels; /* [height][width][3] */
    float *mask;           /* [height][width], zero between calls */
} raster;

static const float cap_height = 0.72f, thin = 0.085f, thick = 0.125f; /* fractions of the text size */

float ls_canvas_text_width(const char *text, float size)
{
    return ls_font_width(text) * size * cap_height / LS_FONT_CAPITAL;
}

static float clamp(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

static void blend(unsigned char *pixel, uint32_t colour, float part)
{
    for (int c = 0; c < 3; c++) {
        float to = (float)(colour >> (16 - 8 * c) & 0xff), from = (float)pixel[c];
        pixel[c] = (unsigned char)(from + (to - from) * part + 0.5f);
    }
}

/* ---- lines ---- */

/* Pixels in rows y0..y1 and columns x0..x1, ends excluded. */
typedef struct area {
    int x0, y0, x1, y1;
} area;

static area area_around(const raster *r, ls_point a, ls_point b, float margin)
{
    float width = (float)r->canvas.width, height = (float)r->canvas.height;
    return (area){
        .x0 = (int)clamp(floorf(fminf(a.x, b.x) - margin), 0, width),
        .y0 = (int)clamp(floorf(fminf(a.y, b.y) - margin), 0, height),
        .x1 = (int)clamp(ceilf(fmaxf(a.x, b.x) + margin), 0, width),
        .y1 = (int)clamp(ceilf(fmaxf(a.y, b.y) + margin), 0, height),
    };
}

static void cover(raster *r, ls_point a, ls_point b, float width)
{
    float half = fmaxf(width, 1) / 2, fade = fminf(width, 1); /* lines thinner than a pixel are drawn fainter */
    float dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy;
    area box = area_around(r, a, b, half + 1);
    for (int y = box.y0; y < box.y1; y++) {
        float *row = r->mask + (size_t)y * (size_t)r->canvas.width;
        for (int x = box.x0; x < box.x1; x++) {
            float px = (float)x + 0.5f - a.x, py = (float)y + 0.5f - a.y;
            float t = length2 > 0 ? clamp((px * dx + py * dy) / length2, 0, 1) : 0;
            float ex = px - t * dx, ey = py - t * dy;
            float part = fade * clamp(half + 0.5f - sqrtf(ex * ex + ey * ey), 0, 1);
            if (part > row[x]) row[x] = part;
        }
    }
}

/* Paint the masked pixels of an area, and clear the mask. */
static void paint_mask(raster *r, area box, uint32_t colour, float opacity)
{
    for (int y = box.y0; y < box.y1; y++) {
        for (int x = box.x0; x < box.x1; x++) {
            size_t i = (size_t)y * (size_t)r->canvas.width + (size_t)x;
            if (r->mask[i] > 0) blend(r->pixels + 3 * i, colour, r->mask[i] * opacity);
            r->mask[i] = 0;
        }
    }
}

static void draw_polyline(ls_canvas *canvas, const ls_point *points, size_t count, ls_paint paint)
{
    raster *r = (raster *)canvas;
    if (count == 0) return;
    ls_point low = points[0], high = points[0];
    for (size_t i = 0; i < count; i++) {
        cover(r, points[i > 0 ? i - 1 : 0], points[i], paint.width);
        low = (ls_point){fminf(low.x, points[i].x), fminf(low.y, points[i].y)};
        high = (ls_point){fmaxf(high.x, points[i].x), fmaxf(high.y, points[i].y)};
    }
    paint_mask(r, area_around(r, low, high, paint.width / 2 + 2), paint.colour, paint.opacity);
}

/* ---- the other functions ---- */

static void draw_rectangle(ls_canvas *canvas, ls_point from, ls_point to, ls_paint paint)
{
    raster *r = (raster *)canvas;
    area box = area_around(r, from, to, 0);
    for (int y = box.y0; y < box.y1; y++)
        for (int x = box.x0; x < box.x1; x++)
            blend(r->pixels + 3 * ((size_t)y * (size_t)canvas->width + (size_t)x), paint.colour, paint.opacity);
}

static void draw_text(ls_canvas *canvas, ls_point at, const char *text, ls_text_style style)
{
    float unit = style.size * cap_height / LS_FONT_CAPITAL, width = ls_canvas_text_width(text, style.size);
    ls_paint paint = {.colour = style.colour, .opacity = 1, .width = style.size * (style.bold ? thick : thin)};
    float x = at.x - (style.anchor == LS_ANCHOR_MIDDLE ? width / 2 : style.anchor == LS_ANCHOR_END ? width : 0);
    ls_font_stroke stroke;
    ls_point points[LS_FONT_POINTS];
    for (char32_t c; (c = ls_font_character(&text)); x += ls_font_advance(c) * unit) {
        for (const char *state = NULL; ls_font_next(c, &state, &stroke);) {
            for (int i = 0; i < stroke.count; i++)
                points[i] = (ls_point){x + stroke.x[i] * unit, at.y - stroke.y[i] * unit};
            draw_polyline(canvas, points, (size_t)stroke.count, paint);
        }
    }
}

static void finish(ls_canvas *canvas, ls_byte_buffer *file)
{
    raster *r = (raster *)canvas;
    ls_png_put(file, r->pixels, canvas->width, canvas->height);
    ls_sys_free(r->pixels);
    ls_sys_free(r->mask);
    ls_sys_free(r);
}

ls_canvas *ls_canvas_png(int width, int height)
{
    static const ls_canvas_table table = {draw_rectangle, draw_polyline, draw_text, finish};
    raster *r = ls_sys_alloc(sizeof *r);
    if (!r) return NULL;
    size_t count = (size_t)width * (size_t)height;
    *r = (raster){{&table, width, height}, ls_sys_alloc(3 * count), ls_sys_alloc(sizeof(float) * count)};
    if (r->pixels && r->mask) {
        memset(r->pixels, 0xff, 3 * count);
        return &r->canvas;
    }
    ls_sys_free(r->pixels);
    ls_sys_free(r->mask);
    ls_sys_free(r);
    return NULL;
}
