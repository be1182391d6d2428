/* paint.c - the pixels of tensors that hold pictures: one, or several in a grid. */
#include "data/image/paint.h"

#include <string.h>

#include "base/memory.h"
#include "data/image/steps.h"
#include "kernels/element.h"
#include "tensor/context.h"

typedef struct grid {
    int64_t pictures, channels, height, width; /* of the tensor */
    int64_t columns, padding;
    int64_t grid_height, grid_width;
} grid;

bool ls_image_refuse(ls_tensor *x, const char *who, const char *why)
{
    char text[LS_TEXT];
    ls_fail(&x->run->errors, LS_ERR_VALUE, "%s: %s: %s", who, ls_operand_text(&x->view, text), why);
    return false;
}

static bool plan(ls_tensor *x, const char *who, int columns, int padding, grid *g)
{
    const ls_operand *v = &x->view;
    int n = v->ndim;
    if (n != 3 && n != 4) return ls_image_refuse(x, who, "pictures are [C,H,W] or [N,C,H,W]");
    *g = (grid){n == 4 ? v->dim[0] : 1, v->dim[n - 3], v->dim[n - 2], v->dim[n - 1], columns, padding, 0, 0};
    if (g->channels != 1 && g->channels != 3) return ls_image_refuse(x, who, "pictures have 1 or 3 channels");
    if (v->dtype != LS_U8 && !ls_dtype_is_float(v->dtype))
        return ls_image_refuse(x, who, "pictures are u8 or floating");
    if (columns < 1 || padding < 0)
        return ls_image_refuse(x, who, "a grid has at least 1 column and no negative padding");
    if (g->pictures == 1) g->padding = 0; /* no grid */
    if (g->columns > g->pictures) g->columns = g->pictures;
    int64_t rows = g->columns ? (g->pictures + g->columns - 1) / g->columns : 0;
    bool fits = g->pictures > 0 && g->height > 0 && g->width > 0 && g->height <= LS_IMAGE_MAX_SIDE &&
                g->width <= LS_IMAGE_MAX_SIDE && rows <= LS_IMAGE_MAX_SIDE && g->padding <= LS_IMAGE_MAX_SIDE;
    g->grid_height = fits ? rows * (g->height + g->padding) + g->padding : 0;
    g->grid_width = fits ? g->columns * (g->width + g->padding) + g->padding : 0;
    if (fits && g->grid_height <= LS_IMAGE_MAX_SIDE && g->grid_width <= LS_IMAGE_MAX_SIDE) return true;
    return ls_image_refuse(x, who, "it is empty, or becomes too large for a file");
}

/* Levels as torchvision rounds them. */
static uint8_t level(ls_dtype dtype, const void *numbers, int64_t i)
{
    if (dtype == LS_U8) return ((const uint8_t *)numbers)[i];
    double scaled = ls_get(dtype, numbers, i) * 255 + 0.5;
    return scaled >= 255 ? 255 : scaled > 0 ? (uint8_t)scaled : 0;
}

static void draw(const grid *g, ls_dtype dtype, const void *numbers, uint8_t *rgb)
{
    memset(rgb, 0, (size_t)(g->grid_height * g->grid_width) * 3);
    int64_t plane = g->height * g->width;
    for (int64_t p = 0; p < g->pictures; p++) {
        int64_t top = g->padding + p / g->columns * (g->height + g->padding);
        int64_t left = g->padding + p % g->columns * (g->width + g->padding);
        for (int64_t y = 0; y < g->height; y++) {
            uint8_t *to = rgb + 3 * ((top + y) * g->grid_width + left);
            for (int64_t i = 0; i < g->width * 3; i++) {
                int64_t c = g->channels == 3 ? i % 3 : 0;
                to[i] = level(dtype, numbers, (p * g->channels + c) * plane + y * g->width + i / 3);
            }
        }
    }
}

bool ls_image_paint(ls_tensor *x, const char *who, int columns, int padding, ls_painting *to)
{
    ls_run *run = ls_run_of(x);
    grid g;
    if (ls_failed(run) || !ls_check_live(run, x, who) || !plan(x, who, columns, padding, &g)) return false;
    size_t bytes = (size_t)ls_numel(x) * ls_dtype_size(x->view.dtype);
    void *numbers = ls_sys_alloc(bytes);
    *to = (ls_painting){ls_sys_alloc((size_t)(g.grid_height * g.grid_width) * 3), g.grid_height, g.grid_width};
    bool ok = numbers && to->rgb;
    if (!ok)
        ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory for %lld x %lld pixels", who, (long long)g.grid_width,
                (long long)g.grid_height);
    ok = ok && ls_read(x, numbers, bytes);
    if (ok) draw(&g, x->view.dtype, numbers, to->rgb);
    ls_sys_free(numbers);
    if (ok) return true;
    ls_sys_free(to->rgb);
    to->rgb = NULL;
    return false;
}
