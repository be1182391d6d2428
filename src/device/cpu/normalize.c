/* normalize.c - normalise pictures: (x - mean) / deviation, channel by channel, bytes as x / 255.
 *
 * Pixels are processed a few hundred at a time, their channels side by side, computed in f32 (f64) and rounded once.
 * Bytes have only 256 results per channel, which are computed in advance. */
#include "base/parallel.h"
#include "device/cpu/cpu.h"
#include "device/cpu/iterate.h"
#include "kernels/element.h"
#include "kernels/elementwise.h"

#include <string.h>

enum { CHANNELS = 4, PIXELS = 256, LEVELS = 256 };

typedef struct pictures {
    const ls_operand *x, *y;
    int64_t channels;
    ls_map_fn *widen, *subtract, *divide, *narrow; /* in the compute type; NULL: that is x's, y's type */
    _Alignas(64) double mean[PIXELS * CHANNELS];   /* repeated for each pixel, in the compute type */
    _Alignas(64) double std[PIXELS * CHANNELS];
    _Alignas(64) double of_byte[CHANNELS * LEVELS]; /* result for each byte, in the type of y */
} pictures;

/* ---- floating types ---- */

#define MOVE(type)                                                                                                     \
    for (int64_t c = 0; c < channels; c++)                                                                             \
        for (int64_t i = 0; i < pixels; i++)                                                                           \
    ((type *)to)[i * to_pixel + c * to_channel] = ((const type *)from)[i * from_pixel + c * from_channel]

/* Copy pixels between layouts; distances in elements. */
static void move(size_t size, int64_t pixels, int64_t channels, void *to, int64_t to_pixel, int64_t to_channel,
                 const void *from, int64_t from_pixel, int64_t from_channel)
{
    if (size == 2) MOVE(uint16_t);
    else if (size == 4) MOVE(uint32_t);
    else MOVE(uint64_t);
}

static bool side_by_side(const ls_operand *image)
{
    return image->stride[1] == 1 && image->stride[3] == image->dim[1];
}

/* At most PIXELS pixels of one row. */
static void normalize_floats(const pictures *p, char *x, char *y, int64_t pixels)
{
    _Alignas(64) double taken[PIXELS * CHANNELS], values[PIXELS * CHANNELS];
    int64_t channels = p->channels, n = pixels * channels;
    void *from = side_by_side(p->x) ? (void *)x : taken, *to = side_by_side(p->y) ? (void *)y : taken;
    if (from == taken)
        move(ls_dtype_size(p->x->dtype), pixels, channels, from, channels, 1, x, p->x->stride[3], p->x->stride[1]);
    if (p->widen) {
        p->widen(n, (void *[]){values, from}, NULL);
        from = values;
    }
    p->subtract(n, (void *[]){values, from, (void *)p->mean}, NULL);
    p->divide(n, (void *[]){p->narrow ? values : to, values, (void *)p->std}, NULL);
    if (p->narrow) p->narrow(n, (void *[]){to, values}, NULL);
    if (to == taken)
        move(ls_dtype_size(p->y->dtype), pixels, channels, y, p->y->stride[3], p->y->stride[1], to, channels, 1);
}

/* ---- bytes ---- */

#define LOOK_UP(type)                                                                                                  \
    for (int64_t c = 0; c < p->channels; c++)                                                                          \
        for (int64_t i = 0; i < pixels; i++)                                                                           \
    ((type *)y)[i * p->y->stride[3] + c * p->y->stride[1]] =                                                           \
        ((const type *)p->of_byte)[c * LEVELS + x[i * p->x->stride[3] + c * p->x->stride[1]]]

static void normalize_bytes(const pictures *p, const uint8_t *x, void *y, int64_t pixels)
{
    size_t size = ls_dtype_size(p->y->dtype);
    if (size == 2) LOOK_UP(uint16_t);
    else if (size == 4) LOOK_UP(uint32_t);
    else LOOK_UP(uint64_t);
}

static void fill_byte_table(pictures *p)
{
    float levels[CHANNELS * LEVELS];
    for (int64_t c = 0; c < p->channels; c++)
        for (int i = 0; i < LEVELS; i++)
            levels[c * LEVELS + i] = ((float)i / 255.0f - ((const float *)p->mean)[c]) / ((const float *)p->std)[c];
    if (p->narrow) p->narrow(p->channels * LEVELS, (void *[]){p->of_byte, levels}, NULL);
    else memcpy(p->of_byte, levels, sizeof levels);
}

/* ---- the operator ---- */

static void normalize_rows(void *arg, int64_t begin, int64_t end)
{
    const pictures *p = arg;
    const ls_operand *x = p->x, *y = p->y;
    int64_t x_size = (int64_t)ls_dtype_size(x->dtype), y_size = (int64_t)ls_dtype_size(y->dtype);
    for (int64_t i = begin; i < end; i++) {
        int64_t item = i / x->dim[2], row = i % x->dim[2], pixels;
        char *from = (char *)x->data + (item * x->stride[0] + row * x->stride[2]) * x_size;
        char *to = (char *)y->data + (item * y->stride[0] + row * y->stride[2]) * y_size;
        for (int64_t at = 0; at < x->dim[3]; at += pixels) {
            pixels = x->dim[3] - at < PIXELS ? x->dim[3] - at : PIXELS;
            char *first = from + at * x->stride[3] * x_size, *out = to + at * y->stride[3] * y_size;
            if (x->dtype == LS_U8) normalize_bytes(p, (const uint8_t *)first, out, pixels);
            else normalize_floats(p, first, out, pixels);
        }
    }
}

/* in: x [N,C,H,W], floating or u8, C <= 4  out: y [N,C,H,W], floating
 * y = (x - attrs.normalize.mean[c]) / attrs.normalize.std[c], where bytes count as x / 255. */
ls_status ls_cpu_normalize(const ls_call *call, ls_message *why)
{
    (void)why;
    pictures p = {.x = call->in[0], .y = call->out[0], .channels = call->in[0]->dim[1]};
    ls_dtype wide = p.x->dtype == LS_F64 ? LS_F64 : LS_F32;
    const ls_elementwise *kernels = ls_elementwise_kernels();
    if (p.x->dtype != wide) p.widen = kernels->convert[p.x->dtype][wide];
    if (p.y->dtype != wide) p.narrow = kernels->convert[wide][p.y->dtype];
    p.subtract = kernels->map[LS_MAP_sub][wide];
    p.divide = kernels->map[LS_MAP_div][wide];
    for (int64_t i = 0; i < PIXELS * p.channels; i++) {
        ls_put(wide, p.mean, i, call->attrs.normalize.mean[i % p.channels]);
        ls_put(wide, p.std, i, call->attrs.normalize.std[i % p.channels]);
    }
    if (p.x->dtype == LS_U8) fill_byte_table(&p);
    ls_parallel_for(p.x->dim[0] * p.x->dim[2], 1 + ls_grain(500) / (1 + p.x->dim[3] * p.channels), normalize_rows, &p);
    return LS_OK;
}
