/* conv_walk.c - images as pixels, and the walks of convolutions over them. */
#include "base/parallel.h"
#include "device/cpu/conv.h"

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

/* ---- Copies ---------------------------------------------------------------------------------------------------------- */

typedef struct pixels_copy {
    const ls_operand *from;
    ls_pixels to;
    int64_t border[2];
} pixels_copy;

/* Channels [0, c) of one row of pixels become contiguous. */
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
    size_t side = (size_t)(copy->border[1] * channels * bytes);
    for (int64_t i = begin; i < end; i++) {
        int64_t item = i / copy->to.size[0], row = i % copy->to.size[0], y = row - copy->border[0];
        char *to = copy->to.data + (item * copy->to.item + row * copy->to.row) * bytes;
        if (y < 0 || y >= image->dim[2]) {
            memset(to, 0, (size_t)(copy->to.row * bytes));
            continue;
        }
        const char *from = (const char *)image->data + (item * image->stride[0] + y * image->stride[2]) * bytes;
        memset(to, 0, side);
        to += side;
        if (bytes == 2) COPY_ROW(uint16_t)
        else if (bytes == 4) COPY_ROW(uint32_t)
        else COPY_ROW(uint64_t)
        memset(to + width * channels * bytes, 0, side);
    }
}

size_t ls_pixels_copy_size(const ls_operand *image, const int64_t border[2])
{
    int64_t pixels = (image->dim[2] + 2 * border[0]) * (image->dim[3] + 2 * border[1]);
    return (size_t)(image->dim[0] * image->dim[1] * pixels) * ls_dtype_size(image->dtype);
}

ls_pixels ls_pixels_copy(const ls_operand *image, const int64_t border[2], void *memory)
{
    int64_t height = image->dim[2] + 2 * border[0], width = image->dim[3] + 2 * border[1], channels = image->dim[1];
    pixels_copy copy = {.from = image, .border = {border[0], border[1]}};
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

/* ---- Walks ------------------------------------------------------------------------------------------------------------ */

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

/* dx at `in` gets from dy at `out` through tap k where out * stride = in + padding - k * dilation. */
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
