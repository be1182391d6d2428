/* picture.c - tensors as pictures for trackers. */
#include <lockstep/ops.h>

#include "base/memory.h"
#include "tensor/context.h"
#include "track/sink.h"

enum { IN_A_ROW = 8, GAP = 2, LARGEST = 1 << 14 /* pixels of a side of the grid */ };

float *ls_track_read(ls_run *run, const char *who, ls_tensor *t)
{
    size_t bytes = (size_t)ls_numel(t) * sizeof(float);
    float *numbers = ls_sys_alloc(bytes ? bytes : 1);
    if (!numbers) {
        ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory for %zu bytes", who, bytes);
        return NULL;
    }
    ls_mark mark = ls_scope_begin(run);
    ls_no_grad_begin(run);
    bool read = ls_read(ls_cast(t, LS_F32), numbers, bytes);
    ls_no_grad_end(run);
    ls_scope_end(run, mark, NULL);
    if (read) return numbers;
    ls_sys_free(numbers);
    return NULL;
}

static uint8_t level(float part)
{
    return part >= 1 ? 255 : part > 0 ? (uint8_t)(part * 255 + 0.5f) : 0; /* what is not a number is black */
}

/* The pictures [count, channels, height, width] in rows of eight, with white gaps. */
typedef struct grid {
    int64_t count, channels, height, width;
} grid;

static void paint_one(const grid *g, const float *from, float white, uint8_t *to, int64_t row_pixels)
{
    int64_t area = g->height * g->width;
    for (int64_t y = 0; y < g->height; y++)
        for (int64_t x = 0; x < g->width; x++)
            for (int64_t c = 0; c < 3; c++)
                to[3 * (y * row_pixels + x) + c] =
                    level(from[(g->channels == 3 ? c : 0) * area + y * g->width + x] / white);
}

bool ls_track_paint(ls_run *run, ls_tensor *image, ls_track_picture *picture)
{
    ls_shape s = ls_shape_of(image);
    bool batch = s.ndim == 4, fits = batch || s.ndim == 3;
    const int64_t *dim = s.dim + batch;
    grid g = {batch ? s.dim[0] : 1, fits ? dim[0] : 0, fits ? dim[1] : 0, fits ? dim[2] : 0};
    int64_t columns = g.count < IN_A_ROW ? g.count : IN_A_ROW, rows = (g.count + IN_A_ROW - 1) / IN_A_ROW;
    fits = fits && (g.channels == 1 || g.channels == 3) && g.count > 0 && g.height > 0 && g.width > 0 &&
           g.height <= LARGEST && g.width <= LARGEST && rows <= LARGEST;
    int64_t height = rows * (g.height + GAP) - GAP, width = columns * (g.width + GAP) - GAP;
    if (!fits || height > LARGEST || width > LARGEST) {
        ls_fail(&run->errors, LS_ERR_SHAPE,
                "ls_track_image: needs [C,H,W] or [N,C,H,W] with 1 or 3 channels and at most "
                "%d pixels a side; the tensor has %d dimensions",
                LARGEST, s.ndim);
        return false;
    }
    float *pixels = ls_track_read(run, "ls_track_image", image);
    size_t bytes = (size_t)(height * width) * 3;
    uint8_t *rgb = pixels ? ls_sys_alloc(bytes) : NULL;
    for (size_t i = 0; rgb && i < bytes; i++) rgb[i] = 255;
    float white = ls_dtype_is_float(ls_dtype_of(image)) ? 1 : 255;
    for (int64_t i = 0; rgb && i < g.count; i++) {
        int64_t top = i / IN_A_ROW * (g.height + GAP), left = i % IN_A_ROW * (g.width + GAP);
        paint_one(&g, pixels + i * g.channels * g.height * g.width, white, rgb + 3 * (top * width + left), width);
    }
    if (pixels && !rgb) ls_fail(&run->errors, LS_ERR_MEMORY, "ls_track_image: no memory for the picture");
    ls_sys_free(pixels);
    *picture = (ls_track_picture){rgb, height, width};
    return rgb != NULL;
}
