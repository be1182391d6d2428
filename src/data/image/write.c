/* write.c - pictures of tensors: one, or several in a grid, as a PNG or JPEG file. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/opts.h"
#include "data/image/rows.h"
#include "data/image/steps.h"
#include "kernels/element.h"
#include "tensor/context.h"

typedef struct grid {
    int64_t pictures, channels, height, width; /* of the tensor */
    int64_t columns, padding;
    int64_t grid_height, grid_width;
} grid;

static bool refuse(ls_tensor *x, const char *why)
{
    char text[LS_TEXT];
    ls_fail(&x->run->errors, LS_ERR_VALUE, "ls_image_write: %s: %s", ls_operand_text(&x->view, text), why);
    return false;
}

static bool plan(ls_tensor *x, const ls_image_write_opts *o, grid *g)
{
    const ls_operand *v = &x->view;
    int n = v->ndim;
    if (n != 3 && n != 4) return refuse(x, "pictures are [C,H,W] or [N,C,H,W]");
    *g = (grid){n == 4 ? v->dim[0] : 1, v->dim[n - 3], v->dim[n - 2], v->dim[n - 1], o->columns, o->padding, 0, 0};
    if (g->channels != 1 && g->channels != 3) return refuse(x, "pictures have 1 or 3 channels");
    if (v->dtype != LS_U8 && !ls_dtype_is_float(v->dtype)) return refuse(x, "pictures are u8 or floating");
    if (o->columns < 1 || o->padding < 0) return refuse(x, "a grid has at least 1 column and no negative padding");
    if (g->pictures == 1) g->padding = 0; /* no grid */
    if (g->columns > g->pictures) g->columns = g->pictures;
    int64_t rows = g->columns ? (g->pictures + g->columns - 1) / g->columns : 0;
    bool fits = g->pictures > 0 && g->height > 0 && g->width > 0 && g->height <= LS_IMAGE_MAX_SIDE &&
                g->width <= LS_IMAGE_MAX_SIDE && rows <= LS_IMAGE_MAX_SIDE && g->padding <= LS_IMAGE_MAX_SIDE;
    g->grid_height = fits ? rows * (g->height + g->padding) + g->padding : 0;
    g->grid_width = fits ? g->columns * (g->width + g->padding) + g->padding : 0;
    if (fits && g->grid_height <= LS_IMAGE_MAX_SIDE && g->grid_width <= LS_IMAGE_MAX_SIDE) return true;
    return refuse(x, "it is empty, or becomes too large for a file");
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

static ls_status encode(const char *path, const grid *g, const uint8_t *rgb, int quality, ls_message *why)
{
    const char *end = strrchr(path, '.');
    if (end && strcasecmp(end, ".png") == 0) return ls_png_encode(path, rgb, g->grid_width, g->grid_height, why);
    if (end && (strcasecmp(end, ".jpg") == 0 || strcasecmp(end, ".jpeg") == 0))
        return ls_jpeg_encode(path, rgb, g->grid_width, g->grid_height, quality, why);
    return ls_explain(why, LS_ERR_VALUE, "ls_image_write: %s: the name must end in .png, .jpg or .jpeg", path);
}

bool ls_image_write_sized(ls_tensor *x, const char *path, const ls_image_write_opts *given, size_t opts_size)
{
    ls_image_write_opts opts = LS_OPTS_READ(ls_image_write_opts, given, opts_size);
    ls_run *run = ls_run_of(x);
    grid g;
    if (ls_failed(run) || !ls_check_live(run, x, "ls_image_write")) return false;
    if (!path) return refuse(x, "the name of the file is NULL");
    if (opts.quality < 1 || opts.quality > 100) return refuse(x, "the quality must be from 1 to 100");
    if (!plan(x, &opts, &g)) return false;
    size_t bytes = (size_t)ls_numel(x) * ls_dtype_size(x->view.dtype);
    void *numbers = ls_sys_alloc(bytes);
    uint8_t *rgb = ls_sys_alloc((size_t)(g.grid_height * g.grid_width) * 3);
    ls_message why = {{0}};
    ls_status status = numbers && rgb ? LS_OK : ls_image_out_of_memory(&why, g.grid_width, g.grid_height);
    bool read = status == LS_OK && ls_read(x, numbers, bytes);
    if (read) draw(&g, x->view.dtype, numbers, rgb);
    if (read) status = encode(path, &g, rgb, opts.quality, &why);
    if (status != LS_OK) ls_fail(&run->errors, status, "%s", why.text);
    ls_sys_free(numbers);
    ls_sys_free(rgb);
    return read && status == LS_OK;
}
