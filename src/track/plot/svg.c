/* svg.c - the SVG canvas. Text stays text, in the viewer's sans serif font. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "track/plot/canvas.h"

typedef struct svg {
    ls_canvas canvas;
    ls_byte_buffer file;
} svg;

/* A coordinate with at most one decimal. */
static void put_number(ls_byte_buffer *b, float x)
{
    long tenths = (long)(x * 10 + (x < 0 ? -0.5f : 0.5f));
    if (tenths % 10 == 0) ls_byte_buffer_print(b, "%ld", tenths / 10);
    else ls_byte_buffer_print(b, "%s%ld.%ld", tenths < 0 ? "-" : "", labs(tenths) / 10, labs(tenths) % 10);
}

/* Escaped text. Characters not allowed in XML, and invalid bytes, become U+FFFD. */
static void put_escaped(ls_byte_buffer *b, const char *text)
{
    for (size_t left = strlen(text), length; left; text += length, left -= length) {
        length = ls_utf8_length(text, left);
        bool valid = length > 1 || (length == 1 && (unsigned char)*text >= ' ');
        if (!length) length = 1;
        if (!valid) ls_byte_buffer_put(b, "\xef\xbf\xbd", 3);
        else if (*text == '<') ls_byte_buffer_put(b, "&lt;", 4);
        else if (*text == '>') ls_byte_buffer_put(b, "&gt;", 4);
        else if (*text == '&') ls_byte_buffer_put(b, "&amp;", 5);
        else ls_byte_buffer_put(b, text, length);
    }
}

static void put_paint(ls_byte_buffer *b, const char *name, ls_paint paint)
{
    ls_byte_buffer_print(b, " %s=\"#%06x\"", name, (unsigned)paint.colour);
    if (paint.opacity >= 1) return;
    ls_byte_buffer_print(b, " %s-opacity=\"", name);
    ls_byte_buffer_number(b, 2, (double)paint.opacity);
    ls_byte_buffer_print(b, "\"");
}

static void draw_rectangle(ls_canvas *canvas, ls_point from, ls_point to, ls_paint paint)
{
    ls_byte_buffer *b = &((svg *)canvas)->file;
    const float numbers[] = {from.x, from.y, to.x - from.x, to.y - from.y};
    static const char *const names[] = {"<rect x=\"", "\" y=\"", "\" width=\"", "\" height=\""};
    for (int i = 0; i < 4; i++) {
        ls_byte_buffer_print(b, "%s", names[i]);
        put_number(b, numbers[i]);
    }
    ls_byte_buffer_print(b, "\"");
    put_paint(b, "fill", paint);
    ls_byte_buffer_print(b, "/>\n");
}

static void draw_polyline(ls_canvas *canvas, const ls_point *points, size_t count, ls_paint paint)
{
    ls_byte_buffer *b = &((svg *)canvas)->file;
    if (count == 0) return;
    ls_byte_buffer_print(b, "<path fill=\"none\"");
    put_paint(b, "stroke", paint);
    ls_byte_buffer_print(b, " stroke-width=\"");
    put_number(b, paint.width);
    ls_byte_buffer_print(b, "\" d=\"");
    for (size_t i = 0; i < count + (count == 1); i++) { /* a single point becomes a line to itself: a dot */
        const ls_point *p = &points[i < count ? i : 0];
        ls_byte_buffer_put(b, i == 0 ? "M" : "L", 1);
        put_number(b, p->x);
        ls_byte_buffer_put(b, " ", 1);
        put_number(b, p->y);
    }
    ls_byte_buffer_print(b, "\"/>\n");
}

static void draw_text(ls_canvas *canvas, ls_point at, const char *text, ls_text_style style)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    ls_byte_buffer *b = &((svg *)canvas)->file;
    ls_byte_buffer_print(b, "<text x=\"");
    put_number(b, at.x);
    ls_byte_buffer_print(b, "\" y=\"");
    put_number(b, at.y);
    ls_byte_buffer_print(b, "\" font-size=\"");
    put_number(b, style.size);
    ls_byte_buffer_print(b, "\" fill=\"#%06x\"", (unsigned)style.colour);
    if (style.anchor != LS_ANCHOR_START) ls_byte_buffer_print(b, " text-anchor=\"%s\"", anchors[style.anchor]);
    if (style.bold) ls_byte_buffer_print(b, " font-weight=\"bold\"");
    ls_byte_buffer_print(b, ">");
    put_escaped(b, text);
    ls_byte_buffer_print(b, "</text>\n");
}

static void finish(ls_canvas *canvas, ls_byte_buffer *file)
{
    svg *s = (svg *)canvas;
    ls_byte_buffer_print(&s->file, "</svg>\n");
    ls_byte_buffer_put(file, s->file.bytes, s->file.length);
    file->failed = file->failed || s->file.failed;
    ls_byte_buffer_free(&s->file);
    ls_sys_free(s);
}

ls_canvas *ls_canvas_svg(int width, int height)
{
    static const ls_canvas_table table = {draw_rectangle, draw_polyline, draw_text, finish};
    svg *s = ls_sys_alloc(sizeof *s);
    if (!s) return NULL;
    s->canvas = (ls_canvas){&table, width, height};
    ls_byte_buffer_print(
        &s->file,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
        "font-family=\"Helvetica, Arial, sans-serif\" stroke-linecap=\"round\" stroke-linejoin=\"round\">\n",
        width, height, width, height);
    draw_rectangle(&s->canvas, (ls_point){0, 0}, (ls_point){(float)width, (float)height},
                   (ls_paint){.colour = 0xffffff, .opacity = 1});
    return &s->canvas;
}
