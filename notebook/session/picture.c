/* picture.c - tensors that hold pictures, as a PNG file.
 *
 * ls_image_write() makes a file of numbers as they are. This is for looking at a tensor: numbers of any range become
 * visible, and small pictures are magnified. It is done here and not by operators, which a device would first compile,
 * and which could fail in the run that is looked at. */
#include "picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "display.h"

enum { MOST_PICTURES = 32, IN_A_ROW = 8, GAP = 2, SMALLEST = 8, LARGEST = 4096, MAGNIFIED = 96 };

typedef struct layout {
    int64_t count, channels, height, width; /* of the pictures */
    int64_t scale;                          /* pixels become squares of this side */
    int64_t columns, rows;                  /* of the grid of pictures */
    int64_t grid_height, grid_width;        /* pixels */
} layout;

bool is_picture(const ls_tensor *t)
{
    int dims = ls_ndim(t);
    if (!ls_is_valid(t) || (dims != 3 && dims != 4) || ls_dim(t, 0) < 1) return false;
    int64_t channels = ls_dim(t, -3), height = ls_dim(t, -2), width = ls_dim(t, -1);
    return (channels == 1 || channels == 3) && height >= SMALLEST && width >= SMALLEST && height <= LARGEST &&
           width <= LARGEST;
}

static layout lay_out(const ls_tensor *t)
{
    layout l = {.count = ls_ndim(t) == 4 ? ls_dim(t, 0) : 1,
                .channels = ls_dim(t, -3),
                .height = ls_dim(t, -2),
                .width = ls_dim(t, -1)};
    if (l.count > MOST_PICTURES) l.count = MOST_PICTURES;
    int64_t side = l.height > l.width ? l.height : l.width;
    l.scale = side < MAGNIFIED ? (MAGNIFIED + side - 1) / side : 1;
    l.columns = l.count < IN_A_ROW ? l.count : IN_A_ROW;
    l.rows = (l.count + IN_A_ROW - 1) / IN_A_ROW;
    l.grid_height = l.rows * (l.height * l.scale + GAP) - GAP;
    l.grid_width = l.columns * (l.width * l.scale + GAP) - GAP;
    return l;
}

/* The pictures to be shown, [N,C,H,W] in f32; free() them. */
static float *read_pixels(ls_tensor *t, const layout *l)
{
    ls_run *run = ls_run_of(t);
    int64_t count = l->count * l->channels * l->height * l->width;
    float *pixels = malloc((size_t)count * sizeof *pixels);
    ls_mark mark = ls_scope_begin(run);
    ls_no_grad_begin(run);
    ls_tensor *first = ls_ndim(t) == 4 ? ls_slice(t, 0, 0, l->count, 1) : t;
    bool read = pixels && ls_read(ls_cast(first, LS_F32), pixels, (size_t)count * sizeof *pixels);
    ls_no_grad_end(run);
    ls_scope_end(run, mark, NULL);
    if (!read) free(pixels);
    return read ? pixels : NULL;
}

/* What is black, and how far white is from it. */
static void find_range(const float *pixels, int64_t count, ls_dtype dtype, float *black, float *range)
{
    float least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(pixels[i])) continue;
        least = fminf(least, pixels[i]);
        most = fmaxf(most, pixels[i]);
    }
    bool as_it_is = dtype == LS_U8 || (least >= 0 && most <= 1) || !(most > least);
    *black = as_it_is ? 0 : least;
    *range = dtype == LS_U8 ? 255 : as_it_is ? 1 : most - least;
}

static uint8_t level(float value, float black, float range)
{
    float part = (value - black) / range;
    return part >= 1 ? 255 : part > 0 ? (uint8_t)(part * 255 + 0.5f) : 0; /* not a number: black */
}

/* Rows of RGB bytes [grid_height, grid_width, 3]; free() them. */
static uint8_t *paint(const float *pixels, const layout *l, ls_dtype dtype)
{
    size_t size = (size_t)(l->grid_height * l->grid_width) * 3;
    uint8_t *rgb = malloc(size);
    if (!rgb) return NULL;
    memset(rgb, 255, size);
    float black, range;
    int64_t area = l->height * l->width;
    find_range(pixels, l->count * l->channels * area, dtype, &black, &range);
    for (int64_t i = 0; i < l->count; i++) {
        int64_t top = i / IN_A_ROW * (l->height * l->scale + GAP), left = i % IN_A_ROW * (l->width * l->scale + GAP);
        for (int64_t y = 0; y < l->height * l->scale; y++) {
            for (int64_t x = 0; x < l->width * l->scale; x++) {
                int64_t from = i * l->channels * area + y / l->scale * l->width + x / l->scale;
                uint8_t *to = rgb + 3 * ((top + y) * l->grid_width + left + x);
                for (int64_t c = 0; c < 3; c++)
                    to[c] = level(pixels[from + (l->channels == 3 ? c * area : 0)], black, range);
            }
        }
    }
    return rgb;
}

char *picture_of(ls_tensor *t, size_t *size)
{
    layout l = lay_out(t);
    float *pixels = read_pixels(t, &l);
    uint8_t *rgb = pixels ? paint(pixels, &l, ls_dtype_of(t)) : NULL;
    ls_run *run = ls_run_of(t);
    char path[TEMPORARY_PATH], *bytes = NULL;
    if (rgb && !ls_error(run) && temporary_file(path, ".png")) {
        if (ls_png_write(run, path, rgb, l.grid_height, l.grid_width)) bytes = file_contents(path, size);
        else ls_clear_error(run); /* no room for what is only shown: the run continues without */
        unlink(path);
    }
    free(rgb);
    free(pixels);
    return bytes;
}
