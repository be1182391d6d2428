/* conv_depthwise.c - depthwise convolution and its gradients: a product per channel, summed over taps or pixels.
 *
 * There is no matrix product: each pixel of the result is a sum of products of lines of channels, a pixel times the
 * weights of one tap. Images whose channels are not contiguous are copied first, as in conv.c. */
#include "base/parallel.h"
#include "device/cpu/conv.h"

#include <string.h>

#define LINES 256    /* taps or pixels summed at a time */
#define CHANNELS 512 /* channels summed at a time */

typedef struct depthwise {
    const ls_conv *conv;
    ls_gemm_job job; /* for its sink and the type of the sums; no product is run */
    ls_walk over, out, residual;
    ls_phase phase;
    char *weights; /* [taps of the kernel][c], of the type of the sums */
    bool back;     /* gradient for the input: taps are those of a phase */
    const ls_operand *dw;
    ls_walk over_dy;
} depthwise;

static ls_dtype sum_dtype(const depthwise *d)
{
    return ls_gemm_sum_dtype(d->job.kernel);
}

static void channelwise(const depthwise *d, void *sums, int64_t n, int64_t count, const ls_gemm_lines *u,
                        const ls_gemm_lines *v)
{
    (sum_dtype(d) == LS_F64 ? ls_gemm()->channelwise_f64 : ls_gemm()->channelwise_f32)(sums, n, count, u, v);
}

static void locate_point(const ls_gemm_sink *sink, int64_t item, int64_t first, int64_t count, void **out, void **pre)
{
    (void)item;
    const depthwise *d = sink->context;
    ls_walk_locate(&d->out, 0, first, count, (const void **)out);
    if (sink->pre) ls_walk_locate(&d->residual, 0, first, count, (const void **)pre);
}

/* Transpose w [c,1,kh,kw] to lines of channels, one per tap. */
static void transpose_weights(const ls_operand *w, ls_dtype dtype, char *to)
{
    const ls_gemm_kernel *kernel = ls_gemm_kernels(dtype)[0];
    int64_t bytes = (int64_t)ls_dtype_size(dtype), from_bytes = (int64_t)ls_dtype_size(w->dtype);
    for (int64_t kh = 0; kh < w->dim[2]; kh++)
        for (int64_t kw = 0; kw < w->dim[3]; kw++)
            for (int64_t c = 0; c < w->dim[0]; c++, to += bytes) {
                int64_t at = c * w->stride[0] + kh * w->stride[2] + kw * w->stride[3];
                kernel->convert(to, (const char *)w->data + at * from_bytes, w->dtype, 1);
            }
}

/* Points [begin, end) of the result: taps times weights, summed. */
static void sum_taps(void *arg, int64_t begin, int64_t end)
{
    const depthwise *d = arg;
    int64_t taps[2] = {d->over.taps[0], d->over.taps[1]}, channels = d->conv->c, count = taps[0] * taps[1];
    int64_t bytes = (int64_t)ls_dtype_size(sum_dtype(d));
    const void *pixel[LINES], *weight[LINES];
    double sums[CHANNELS];
    ls_gemm_lines u = {.line = pixel, .dtype = d->over.pixels.dtype}, v = {.line = weight, .dtype = sum_dtype(d)};
    for (int64_t point = begin; point < end; point++) {
        for (int64_t c = 0, width; c < channels; c += width) {
            width = channels - c < CHANNELS ? channels - c : CHANNELS;
            memset(sums, 0, sizeof sums);
            u.offset = v.offset = c;
            for (int64_t t = 0, part; t < count; t += part) {
                part = count - t < LINES ? count - t : LINES;
                for (int64_t i = 0; i < part; i++) {
                    int64_t kh = (t + i) / taps[1], kw = (t + i) % taps[1];
                    if (d->back)
                        kh = d->phase.first[0] + kh * d->phase.step[0], kw = d->phase.first[1] + kw * d->phase.step[1];
                    ls_walk_locate(&d->over, t + i, point, 1, &pixel[i]);
                    weight[i] = d->weights + (kh * d->conv->window.kernel[1] + kw) * channels * bytes;
                }
                channelwise(d, sums, width, part, &u, &v);
            }
            d->job.sink.store(&d->job, 0, point, 1, c, width, sums, width);
        }
    }
}

/* Allocate, in one block of scratch: pixels with contiguous channels, the weights, and two values per channel. */
static bool depthwise_prepare(depthwise *d, const ls_operand *image, const ls_operand *w, ls_pixels *pixels)
{
    size_t lines = (size_t)((w->dim[2] * w->dim[3] + 2) * w->dim[0]) * sizeof(double);
    ls_conv_space space = {ls_scratch((ls_worker){0, 1}, 2, ls_conv_pixels_space(image) + lines)};
    if (!space.next) return false;
    *pixels = ls_conv_pixels(image, &space);
    d->weights = space.next;
    return true;
}

static depthwise depthwise_of(const ls_conv *conv, const ls_operand *out)
{
    depthwise d = {.conv = conv};
    d.job.kernel = ls_gemm_kernels(conv->compute)[0];
    d.job.sink =
        (ls_gemm_sink){.store = ls_gemm_store_rows,
                       .how = {.accumulate = conv->accumulate, .out_dtype = out->dtype, .pre_dtype = out->dtype},
                       .locate = locate_point};
    return d;
}

ls_status ls_conv_depthwise(const ls_call *call, const ls_conv *conv, const ls_conv_finish *finish, ls_message *why)
{
    const ls_operand *x = call->in[0], *w = call->in[1], *y = call->out[0];
    depthwise d = depthwise_of(conv, y);
    ls_pixels pixels;
    if (!depthwise_prepare(&d, x, w, &pixels)) return ls_conv_out_of_memory(why);
    transpose_weights(w, sum_dtype(&d), d.weights);
    char *columns = d.weights + w->dim[0] * w->dim[2] * w->dim[3] * (int64_t)sizeof(double);
    ls_conv_columns(finish, conv, sum_dtype(&d), columns);
    ls_conv_finish_sink(finish, conv, columns, &d.job.sink);
    if (finish->residual) {
        d.residual = ls_walk_over(ls_pixels_of(finish->residual));
        d.job.sink.pre = d.residual.pixels.data;
        d.job.sink.pre_step = d.residual.pixels.step;
        d.job.sink.how.pre_dtype = d.residual.pixels.dtype;
    }
    d.over = ls_walk_forward(conv, pixels);
    d.out = ls_walk_over(ls_pixels_of(y));
    d.job.sink.out_step = d.out.pixels.step;
    d.job.sink.context = &d;
    int64_t work = 1 + conv->c * conv->window.kernel[0] * conv->window.kernel[1];
    ls_parallel_for(conv->n * conv->out[0] * conv->out[1], 1 + (1 << 16) / work, sum_taps, &d);
    return LS_OK;
}

ls_status ls_conv_depthwise_dinput(const ls_call *call, const ls_conv *conv, ls_message *why)
{
    const ls_operand *dy = call->in[0], *w = call->in[1], *dx = call->out[0];
    depthwise d = depthwise_of(conv, dx);
    d.back = true;
    ls_pixels pixels;
    if (!depthwise_prepare(&d, dy, w, &pixels)) return ls_conv_out_of_memory(why);
    transpose_weights(w, sum_dtype(&d), d.weights);
    int64_t work = 1 + conv->c * conv->window.kernel[0] * conv->window.kernel[1];
    for (int64_t h = 0; h < conv->window.stride[0]; h++) {
        for (int64_t v = 0; v < conv->window.stride[1]; v++) {
            d.phase = ls_phase_of(conv, pixels, h, v);
            d.over = d.phase.walk;
            d.out = ls_phase_points(conv, ls_pixels_of(dx), &d.phase, h, v);
            d.job.sink.out_step = d.out.pixels.step;
            d.job.sink.context = &d;
            ls_parallel_for(conv->n * d.out.grid[0] * d.out.grid[1], 1 + (1 << 16) / work, sum_taps, &d);
        }
    }
    return LS_OK;
}

/* Taps [begin, end): dy times the pixels the tap sees, summed over all points. */
static void sum_points(void *arg, int64_t begin, int64_t end)
{
    const depthwise *d = arg;
    const ls_operand *dw = d->dw;
    int64_t points = d->conv->n * d->conv->out[0] * d->conv->out[1], channels = d->conv->c;
    int64_t bytes = (int64_t)ls_dtype_size(dw->dtype);
    ls_gemm_finish_fn *finish = sum_dtype(d) == LS_F64 ? ls_gemm()->finish_f64 : ls_gemm()->finish_f32;
    ls_gemm_finish add = {.accumulate = true, .out_dtype = sum_dtype(d)};
    const void *from_x[LINES], *from_dy[LINES];
    double total[CHANNELS], sums[CHANNELS];
    ls_gemm_lines u = {.line = from_x, .dtype = d->over.pixels.dtype};
    ls_gemm_lines v = {.line = from_dy, .dtype = d->over_dy.pixels.dtype};
    for (int64_t tap = begin; tap < end; tap++) {
        for (int64_t c = 0, width; c < channels; c += width) {
            width = channels - c < CHANNELS ? channels - c : CHANNELS;
            memset(total, 0, sizeof total);
            u.offset = v.offset = c;
            for (int64_t p = 0, part; p < points; p += part) { /* sums of partial sums, for precision */
                part = points - p < LINES ? points - p : LINES;
                ls_walk_locate(&d->over, tap, p, part, from_x);
                ls_walk_locate(&d->over_dy, 0, p, part, from_dy);
                memset(sums, 0, sizeof sums);
                channelwise(d, sums, width, part, &u, &v);
                finish(&add, 1, width, sums, 0, NULL, &(void *){total}, NULL);
            }
            char *to = (char *)dw->data + (tap / dw->dim[3] * dw->stride[2] + tap % dw->dim[3] * dw->stride[3]) * bytes;
            ls_gemm_finish_rows(&d->job, 1, width, total, 0, NULL, &(void *){to + c * dw->stride[0] * bytes}, NULL);
        }
    }
}

ls_status ls_conv_depthwise_dweight(const ls_call *call, const ls_conv *conv, ls_message *why)
{
    const ls_operand *dy = call->in[0], *x = call->in[1];
    depthwise d = depthwise_of(conv, call->out[0]);
    d.dw = call->out[0];
    d.job.sink.out_step = d.dw->stride[0];
    ls_conv_space space = {ls_scratch((ls_worker){0, 1}, 2, ls_conv_pixels_space(x) + ls_conv_pixels_space(dy))};
    if (!space.next) return ls_conv_out_of_memory(why);
    d.over = ls_walk_forward(conv, ls_conv_pixels(x, &space));
    d.over_dy = ls_walk_over(ls_conv_pixels(dy, &space));
    ls_parallel_for(conv->window.kernel[0] * conv->window.kernel[1], 1, sum_points, &d);
    return LS_OK;
}
