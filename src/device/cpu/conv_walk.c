/* conv_walk.c - images as pixels, and the walks of convolutions over them. */
#include "base/parallel.h"
#include "device/cpu/conv.h"
#include "device/cpu/cpu.h"

#include <string.h>

ls_conv ls_conv_of(const ls_call *call, const ls_operand *x, const ls_operand *w, const ls_operand *y)
{
    ls_conv conv = {.window = call->attrs.conv.window,
                    .n = x->dim[0],
                    .c = x->dim[1],
                    .o = y->dim[1],
                    .in = {x->dim[2], x->dim[3]},
                    .out = {y->dim[2], y->dim[3]},
                    .group_c = w->dim[1],
                    .compute = call->attrs.conv.compute,
                    .accumulate = call->attrs.conv.accumulate};
    conv.group_o = conv.o / conv.window.groups;
    if (conv.compute == LS_DTYPE_NONE) conv.compute = call->in[0]->dtype;
    return conv;
}

ls_pixels ls_pixels_of(const ls_operand *image)
{
    return (ls_pixels){.data = image->data,
                       .dtype = image->dtype,
                       .size = {image->dim[2], image->dim[3]},
                       .item = image->stride[0],
                       .row = image->stride[2],
                       .pixel = image->stride[3],
                       .step = image->dim[1] == 1 ? 1 : image->stride[1]};
}

/* ---- Copies ------------------------------------------------------------------------------------------------------ */

typedef struct pixels_copy {
    const ls_operand *from;
    ls_pixels to;
} pixels_copy;

/* Make channels [0, c) of one row of pixels contiguous. */
#define COPY_ROW(type)                                                                                                 \
    for (int64_t c0 = 0; c0 < channels; c0 += 16) { /* blocks, so that cache lines are used while they are there */    \
        int64_t c1 = c0 + 16 < channels ? c0 + 16 : channels;                                                          \
        for (int64_t x = 0; x < width; x++)                                                                            \
            for (int64_t c = c0; c < c1; c++)                                                                          \
                ((type *)to)[x * channels + c] = ((const type *)from)[x * image->stride[3] + c * image->stride[1]];    \
    }

static void copy_rows(void *arg, int64_t begin, int64_t end)
{
    const pixels_copy *copy = arg;
    const ls_operand *image = copy->from;
    int64_t bytes = (int64_t)ls_dtype_size(image->dtype), channels = image->dim[1], width = image->dim[3];
    for (int64_t i = begin; i < end; i++) {
        int64_t item = i / image->dim[2], row = i % image->dim[2];
        const char *from = (const char *)image->data + (item * image->stride[0] + row * image->stride[2]) * bytes;
        char *to = copy->to.data + i * copy->to.row * bytes;
        if (bytes == 2) COPY_ROW(uint16_t)
        else if (bytes == 4) COPY_ROW(uint32_t)
        else COPY_ROW(uint64_t)
    }
}

size_t ls_pixels_copy_size(const ls_operand *image)
{
    return (size_t)(image->dim[0] * image->dim[1] * image->dim[2] * image->dim[3]) * ls_dtype_size(image->dtype);
}

ls_pixels ls_pixels_copy(const ls_operand *image, void *memory)
{
    int64_t height = image->dim[2], width = image->dim[3], channels = image->dim[1];
    pixels_copy copy = {.from = image};
    copy.to = (ls_pixels){.data = memory,
                          .dtype = image->dtype,
                          .size = {height, width},
                          .item = height * width * channels,
                          .row = width * channels,
                          .pixel = channels,
                          .step = 1};
    ls_parallel_for(image->dim[0] * height, 1 + 16384 / (1 + width * channels), copy_rows, &copy);
    return copy.to;
}

static void copy_pixels(const ls_row_copy *how, char *to, const char *from, int64_t count)
{
    const ls_pixels *p = how->from;
    bool plain = how->pitch == how->channels && p->pixel == how->channels;
    int64_t run = plain ? count : 1, numbers = run * how->channels, from_bytes = (int64_t)ls_dtype_size(p->dtype);
    size_t gap = (size_t)((how->pitch - how->channels) * how->bytes);
    for (int64_t i = 0; i < count; i += run, from += p->pixel * run * from_bytes) {
        if (how->convert) how->convert(to, from, p->dtype, numbers);
        else memcpy(to, from, (size_t)(numbers * how->bytes));
        to += numbers * how->bytes;
        memset(to, 0, gap);
        to += gap;
    }
}

void ls_row_copy_run(const ls_row_copy *how, int64_t item, int64_t row, void *to)
{
    const ls_pixels *p = how->from;
    int64_t pixel = how->pitch * how->bytes, first = larger(0, how->first);
    int64_t before = smaller(larger(0, -how->first), how->width);
    int64_t there = larger(0, smaller(p->size[1] - first, how->width - before));
    if (row < 0 || row >= p->size[0]) {
        memset(to, 0, (size_t)(how->width * pixel));
        return;
    }
    const char *from = p->data + (item * p->item + row * p->row + first * p->pixel) * (int64_t)ls_dtype_size(p->dtype);
    memset(to, 0, (size_t)(before * pixel));
    copy_pixels(how, (char *)to + before * pixel, from, there);
    memset((char *)to + (before + there) * pixel, 0, (size_t)((how->width - before - there) * pixel));
}

size_t ls_conv_pixels_space(const ls_operand *image)
{
    bool contiguous = image->stride[1] == 1 || image->dim[1] == 1;
    return contiguous ? 0 : (size_t)ls_gemm_round_up((int64_t)ls_pixels_copy_size(image), 64);
}

ls_pixels ls_conv_pixels(const ls_operand *image, ls_conv_space *space)
{
    size_t size = ls_conv_pixels_space(image);
    if (!size) return ls_pixels_of(image);
    void *memory = space->next;
    space->next += size;
    return ls_pixels_copy(image, memory);
}

ls_status ls_conv_out_of_memory(ls_message *why)
{
    return ls_explain(why, LS_ERR_MEMORY, "no memory for the workspace of a convolution");
}

/* ---- Walks ------------------------------------------------------------------------------------------------------- */

void ls_walk_locate(const ls_walk *walk, int64_t tap, int64_t first, int64_t count, const void **line)
{
    const ls_pixels *p = &walk->pixels;
    int64_t bytes = (int64_t)ls_dtype_size(p->dtype), per_item = walk->grid[0] * walk->grid[1];
    int64_t item = first / per_item, y = first % per_item / walk->grid[1], x = first % walk->grid[1];
    int64_t from_y = walk->origin[0] + tap / walk->taps[1] * walk->tap_step[0];
    int64_t from_x = walk->origin[1] + tap % walk->taps[1] * walk->tap_step[1];
    while (count > 0) { /* row by row of the grid */
        int64_t run = walk->grid[1] - x < count ? walk->grid[1] - x : count;
        int64_t row = y * walk->stride[0] + from_y, column = x * walk->stride[1] + from_x;
        if (row < 0 || row >= p->size[0]) {
            for (int64_t i = 0; i < run; i++) line[i] = NULL;
        } else {
            const char *at = p->data + (item * p->item + row * p->row + column * p->pixel) * bytes;
            int64_t distance = walk->stride[1] * p->pixel * bytes;
            for (int64_t i = 0; i < run; i++, at += distance, column += walk->stride[1])
                line[i] = (uint64_t)column < (uint64_t)p->size[1] ? at : NULL;
        }
        line += run;
        count -= run;
        x = 0;
        if (++y == walk->grid[0]) {
            y = 0;
            item++;
        }
    }
}

/* Copy n bytes in overlapping pieces of fixed size: faster than memcpy for the few bytes of one kernel row. */
static inline void copy_few(char *to, const char *from, int64_t n)
{
    if (n > 64 && n <= 128) {
        memcpy(to, from, 64);
        memcpy(to + n - 64, from + n - 64, 64);
    } else if (n >= 32 && n <= 64) {
        memcpy(to, from, 32);
        memcpy(to + n - 32, from + n - 32, 32);
    } else if (n >= 16 && n <= 32) {
        memcpy(to, from, 16);
        memcpy(to + n - 16, from + n - 16, 16);
    } else memcpy(to, from, (size_t)n);
}

/* Where points of a row begin and how far apart: in the image, and their lines. */
typedef struct gathering {
    const char *from;
    char *to;
    int64_t count, from_step, to_step;
} gathering;

/* The same `n` bytes of each point. */
static void copy_points(const gathering *g, int64_t from_offset, int64_t to_offset, int64_t n)
{
    const char *from = g->from + from_offset;
    char *to = g->to + to_offset;
    for (int64_t i = 0; i < g->count; i++, from += g->from_step, to += g->to_step) copy_few(to, from, n);
}

/* How many of `count` points of a row from x on see only pixels of a row through the taps of a row. */
static int64_t points_within(const ls_walk *walk, int64_t x, int64_t count)
{
    int64_t column = x * walk->stride[1] + walk->origin[1], taps = walk->taps[1];
    int64_t beyond = walk->pixels.size[1] - column - taps; /* pixels to the right of the first point's last */
    if (column < 0 || beyond < 0) return 0;
    return smaller(smaller(count, walk->grid[1] - x), beyond / walk->stride[1] + 1);
}

void ls_walk_gather(const ls_walk *walk, int64_t channels, int64_t first, int64_t count, void *to, int64_t distance)
{
    enum { TOGETHER = 16 }; /* points: their lines stay in L1 */
    const ls_pixels *p = &walk->pixels;
    int64_t bytes = (int64_t)ls_dtype_size(p->dtype), taps = walk->taps[1];
    int64_t all = taps * channels * bytes, one = channels * bytes;
    bool dense = p->pixel == channels && walk->tap_step[1] == 1; /* taps of one row are contiguous */
    for (int64_t i = 0, here; i < count; i += here) {
        int64_t point = (first + i) % (walk->grid[0] * walk->grid[1]),
                item = (first + i) / (walk->grid[0] * walk->grid[1]);
        int64_t y = point / walk->grid[1], x = point % walk->grid[1];
        int64_t row = y * walk->stride[0] + walk->origin[0], column = x * walk->stride[1] + walk->origin[1];
        int64_t inside = dense ? points_within(walk, x, smaller(count - i, TOGETHER)) : 0;
        here = larger(1, inside);
        gathering g = {p->data + (item * p->item + column * p->pixel) * bytes, (char *)to + i * distance, here,
                       walk->stride[1] * p->pixel * bytes, distance};
        for (int64_t t = 0; t < walk->taps[0]; t++, row += walk->tap_step[0]) {
            char *at = g.to + t * all;
            if (row < 0 || row >= p->size[0]) {
                for (int64_t j = 0; j < here; j++) memset(at + j * distance, 0, (size_t)all);
            } else if (inside) copy_points(&g, row * p->row * bytes, t * all, all);
            else {
                for (int64_t u = 0; u < taps; u++) {
                    int64_t step = u * walk->tap_step[1], seen = column + step;
                    if (seen < 0 || seen >= p->size[1]) memset(at + u * one, 0, (size_t)one);
                    else memcpy(at + u * one, g.from + (row * p->row + step * p->pixel) * bytes, (size_t)one);
                }
            }
        }
    }
}

ls_walk ls_walk_forward(const ls_conv *conv, ls_pixels x)
{
    ls_walk walk = {.pixels = x};
    for (int d = 0; d < 2; d++) {
        walk.grid[d] = conv->out[d];
        walk.stride[d] = conv->window.stride[d];
        walk.origin[d] = -conv->window.padding[d];
        walk.tap_step[d] = conv->window.dilation[d];
        walk.taps[d] = conv->window.kernel[d];
    }
    return walk;
}

/* dx at `in` receives from dy at `out` through tap k if out * stride = in + padding - k * dilation. */
ls_phase ls_phase_of(const ls_conv *conv, ls_pixels dy, int64_t phase_h, int64_t phase_w)
{
    ls_phase phase = {.walk = {.pixels = dy}};
    const ls_window *w = &conv->window;
    for (int d = 0; d < 2; d++) {
        int64_t at = d ? phase_w : phase_h, first = 0, step = 1;
        while (first < w->kernel[d] && (at + w->padding[d] - first * w->dilation[d]) % w->stride[d]) first++;
        while (step * w->dilation[d] % w->stride[d]) step++;
        phase.first[d] = first;
        phase.step[d] = step;
        phase.walk.grid[d] = at < conv->in[d] ? (conv->in[d] - at - 1) / w->stride[d] + 1 : 0;
        phase.walk.stride[d] = 1;
        phase.walk.origin[d] = (at + w->padding[d] - first * w->dilation[d]) / w->stride[d];
        phase.walk.tap_step[d] = -step * w->dilation[d] / w->stride[d];
        phase.walk.taps[d] = first < w->kernel[d] ? (w->kernel[d] - first - 1) / step + 1 : 0;
    }
    return phase;
}

ls_walk ls_phase_points(const ls_conv *conv, ls_pixels dx, const ls_phase *phase, int64_t phase_h, int64_t phase_w)
{
    return (ls_walk){.pixels = dx,
                     .grid = {phase->walk.grid[0], phase->walk.grid[1]},
                     .stride = {conv->window.stride[0], conv->window.stride[1]},
                     .origin = {phase_h, phase_w},
                     .tap_step = {0, 0},
                     .taps = {1, 1}};
}

ls_walk ls_walk_from_channel(ls_walk walk, int64_t channel)
{
    walk.pixels.data += channel * walk.pixels.step * (int64_t)ls_dtype_size(walk.pixels.dtype);
    return walk;
}

ls_walk ls_walk_over(ls_pixels pixels)
{
    return (ls_walk){.pixels = pixels, .grid = {pixels.size[0], pixels.size[1]}, .stride = {1, 1}, .taps = {1, 1}};
}

bool ls_walk_is_even(const ls_walk *walk)
{
    const ls_pixels *p = &walk->pixels;
    bool once = walk->taps[0] == 1 && walk->taps[1] == 1 && walk->origin[0] == 0 && walk->origin[1] == 0 &&
                walk->stride[0] == 1 && walk->stride[1] == 1 && walk->grid[0] == p->size[0] &&
                walk->grid[1] == p->size[1];
    int64_t row = p->size[1] * p->pixel;
    return once && (p->row == row || p->size[0] == 1) && p->item == p->size[0] * row;
}

bool ls_conv_is_narrow(const ls_conv *conv)
{
    return conv->group_c < 16 && conv->window.kernel[0] * conv->window.kernel[1] > 1;
}
