/* conv.c - 2-D convolution and its gradients as matrix products over pixels, without an unfolded copy of the image.
 *
 *     forward   y  [pixels of y, O]         = x under each tap [pixels of y, taps * C]  .  w [taps * C, O]
 *     dinput    dx [pixels of a phase, C]   = dy under its taps [pixels, taps * O]      .  w [taps * O, C]
 *     dweight   dw [O, taps * C]            = dy [pixels of y, O]^T  .  x under each tap [pixels of y, taps * C]
 *
 * The engine asks for pixels by tap and position and gets their addresses, or NULL for the border. Channels must be
 * contiguous; other images are copied first. Images with few channels are copied with their border, so that all taps
 * of a kernel row are one contiguous line. Groups run one after the other. */
#include "device/cpu/conv.h"

#include "base/parallel.h"
#include "device/cpu/cpu.h"

#include <string.h>

#define FEW_CHANNELS 16
#define CHANNEL_BLOCK 64
#define WIDEST_STRIP 1024 /* columns that dweight asks for together */

/* ---- Weights --------------------------------------------------------------------------------------------------------- */

/* w as lines of contiguous input channels [o, kh, kw][c]. When they are not contiguous, prepare() copies them. */
typedef struct weights {
    const ls_operand *operand;
    char *copy; /* room for it, if it is needed */
    const char *data;
    int64_t o_stride, tap_stride[2];
    bool ready;
} weights;

static weights weights_of(const ls_operand *w, bool rows_together, void *copy)
{
    bool lines = w->stride[1] == 1 || w->dim[1] == 1;
    if (rows_together) lines = lines && (w->stride[3] == w->dim[1] || w->dim[3] == 1);
    return (weights){.operand = w,
                     .copy = copy,
                     .data = w->data,
                     .o_stride = w->stride[0],
                     .tap_stride = {w->stride[2], w->stride[3]},
                     .ready = lines};
}

static size_t weights_copy_size(const ls_operand *w)
{
    return (size_t)(w->dim[0] * w->dim[1] * w->dim[2] * w->dim[3]) * ls_dtype_size(w->dtype);
}

#define COPY_TAPS(type)                                                                                                \
    for (int64_t kh = 0; kh < w->dim[2]; kh++)                                                                         \
        for (int64_t kw = 0; kw < w->dim[3]; kw++) {                                                                   \
            const type *from = (const type *)w->data + o * w->stride[0] + kh * w->stride[2] + kw * w->stride[3];       \
            type *to = (type *)self->copy + ((o * w->dim[2] + kh) * w->dim[3] + kw) * w->dim[1];                       \
            for (int64_t c = 0; c < w->dim[1]; c++) to[c] = from[c * w->stride[1]];                                    \
        }

static void copy_weights(void *arg, int64_t begin, int64_t end)
{
    const weights *self = arg;
    const ls_operand *w = self->operand;
    for (int64_t o = begin; o < end; o++) {
        switch (ls_dtype_size(w->dtype)) {
        case 2: COPY_TAPS(uint16_t) break;
        case 4: COPY_TAPS(uint32_t) break;
        default: COPY_TAPS(uint64_t)
        }
    }
}

static void weights_prepare(weights *self)
{
    const ls_operand *w = self->operand;
    if (self->ready) return;
    ls_parallel_for(w->dim[0], 1 + 8192 / (1 + w->dim[1] * w->dim[2] * w->dim[3]), copy_weights, self);
    self->data = self->copy;
    self->o_stride = w->dim[1] * w->dim[2] * w->dim[3];
    self->tap_stride[0] = w->dim[1] * w->dim[3];
    self->tap_stride[1] = w->dim[1];
    self->ready = true;
}

/* ---- Jobs ------------------------------------------------------------------------------------------------------------ */

/* Everything the engine calls back for; sources and sink of a job point here. */
typedef struct conv_job {
    const ls_conv *conv;
    weights weights;
    ls_phase phase;    /* dinput */
    ls_walk a, b, out; /* pixels of A, of B (dweight), of the result */
    int64_t first_o;   /* of the group */
    int64_t padded_o;  /* dinput: output channels of a tap, as k counts them */
    const ls_operand *dw;
    int64_t padded_columns; /* dweight: columns of a segment, as n counts them */
    bool interleaved;       /* dweight: f32 in the order [o][c][kh][kw] */
    bool rows_together;     /* a segment is a kernel row, not a tap */
} conv_job;

static void locate_a(const ls_gemm_source *source, int64_t item, int64_t segment, int64_t first, int64_t count,
                     const void **line)
{
    (void)item;
    ls_walk_locate(&((const conv_job *)source->context)->a, segment, first, count, line);
}

static void locate_out(const ls_gemm_sink *sink, int64_t item, int64_t first, int64_t count, void **out, void **pre)
{
    (void)item;
    (void)pre;
    ls_walk_locate(&((const conv_job *)sink->context)->out, 0, first, count, (const void **)out);
}

/* The same pixels, `channels` further. */
static ls_walk from_channel(ls_walk walk, int64_t channels)
{
    walk.pixels.data += channels * walk.pixels.step * (int64_t)ls_dtype_size(walk.pixels.dtype);
    return walk;
}

/* Dweight: segments are the taps of one block of channels after the other. */
static void locate_b(const ls_gemm_source *source, int64_t item, int64_t segment, int64_t first, int64_t count,
                     const void **line)
{
    (void)item;
    const ls_walk *walk = &((const conv_job *)source->context)->b;
    int64_t taps = walk->taps[0] * walk->taps[1];
    ls_walk block = from_channel(*walk, segment / taps * source->length);
    ls_walk_locate(&block, segment % taps, first, count, line);
}

/* Forward: columns of B are output channels, their lines run along the input channels of a tap or of a kernel row. */
static void locate_weights(const ls_gemm_source *source, int64_t item, int64_t segment, int64_t first, int64_t count,
                           const void **line)
{
    (void)item;
    const conv_job *job = source->context;
    const weights *w = &job->weights;
    int64_t taps = job->rows_together ? 1 : job->conv->window.kernel[1];
    int64_t at = segment / taps * w->tap_stride[0] + segment % taps * w->tap_stride[1];
    for (int64_t i = 0; i < count; i++) {
        int64_t offset = at + (job->first_o + first + i) * w->o_stride;
        line[i] = w->data + offset * (int64_t)ls_dtype_size(source->dtype);
    }
}

/* Dinput: a line of B is one output channel of one tap, across all input channels. */
static void locate_weights_back(const ls_gemm_source *source, int64_t item, int64_t segment, int64_t first,
                                int64_t count, const void **line)
{
    (void)item;
    (void)segment;
    const conv_job *job = source->context;
    const weights *w = &job->weights;
    const ls_phase *phase = &job->phase;
    for (int64_t i = 0; i < count; i++) {
        int64_t tap = (first + i) / job->padded_o, o = (first + i) % job->padded_o;
        int64_t kh = phase->first[0] + tap / phase->walk.taps[1] * phase->step[0];
        int64_t kw = phase->first[1] + tap % phase->walk.taps[1] * phase->step[1];
        int64_t offset = (job->first_o + o) * w->o_stride + kh * w->tap_stride[0] + kw * w->tap_stride[1];
        line[i] = o < job->conv->group_o ? w->data + offset * (int64_t)ls_dtype_size(source->dtype) : NULL;
    }
}

static bool prepare_weights(ls_gemm_source *source)
{
    weights_prepare(&((conv_job *)source->context)->weights);
    return true;
}

static ls_status out_of_memory(ls_message *why)
{
    return ls_cpu_fail(why, LS_ERR_MEMORY, "no memory for the working space of a convolution");
}

static bool is_depthwise(const ls_conv *conv)
{
    return conv->group_c == 1 && conv->group_o == 1 && conv->window.groups > 1;
}

static bool channels_are_contiguous(const ls_operand *image)
{
    return image->stride[1] == 1 || image->dim[1] == 1;
}

/* Pixels of an image with contiguous channels: where they are, or copied to *memory, which moves on. */
static ls_pixels contiguous_pixels(const ls_operand *image, char **memory)
{
    static const int64_t no_border[2] = {0, 0};
    if (channels_are_contiguous(image)) return ls_pixels_of(image);
    ls_pixels copy = ls_pixels_copy(image, no_border, *memory);
    *memory += ls_gemm_round_up((int64_t)ls_pixels_copy_size(image, no_border), 64);
    return copy;
}

/* Whether x is better copied with its border, to make one line of a whole kernel row. */
static bool wants_rows_together(const ls_conv *conv)
{
    return conv->c < FEW_CHANNELS && conv->window.groups == 1 && conv->window.kernel[1] > 1 &&
           conv->window.dilation[1] == 1;
}

static size_t working_space(const ls_conv *conv, const ls_operand *x, const ls_operand *w, const ls_operand *y)
{
    static const int64_t no_border[2] = {0, 0};
    size_t size = 4096;
    if (x && wants_rows_together(conv)) size += ls_pixels_copy_size(x, conv->window.padding);
    else if (x && !channels_are_contiguous(x)) size += ls_pixels_copy_size(x, no_border);
    if (y && !channels_are_contiguous(y)) size += ls_pixels_copy_size(y, no_border);
    if (w) size += weights_copy_size(w) + (size_t)conv->o * sizeof(double);
    return size;
}

/* The walk of forward over x, as the engine sees it: segments of contiguous channels. */
static ls_walk walk_over_x(const ls_conv *conv, const ls_operand *x, bool rows_together, char **memory)
{
    if (!rows_together) return ls_walk_forward(conv, contiguous_pixels(x, memory));
    ls_walk walk = ls_walk_forward(conv, ls_pixels_copy(x, conv->window.padding, *memory));
    *memory += ls_gemm_round_up((int64_t)ls_pixels_copy_size(x, conv->window.padding), 64);
    walk.origin[0] = walk.origin[1] = 0;
    walk.taps[1] = 1;
    return walk;
}

static void describe_weights(ls_gemm_key *key, int purpose, const ls_operand *w, int64_t first_o)
{
    int64_t words[] = {purpose, w->stride[0], w->stride[1], w->stride[2] * 65536 + w->stride[3], first_o};
    memcpy(key->word + 8, words, sizeof words);
}

static void convert_bias(const ls_operand *bias, const ls_gemm_kernel *kernel, char *to)
{
    ls_dtype dtype = ls_gemm_sum_dtype(kernel);
    int64_t bytes = (int64_t)ls_dtype_size(dtype), step = bias->stride[0] * (int64_t)ls_dtype_size(bias->dtype);
    for (int64_t i = 0; i < bias->dim[0]; i++)
        ls_gemm_kernels(dtype)[0]->convert(to + i * bytes, (const char *)bias->data + i * step, bias->dtype, 1);
}

/* Pixels that are all at equal distances, image after image, are plain rows of a matrix. */
static bool are_even(const ls_pixels *p, const int64_t grid[2])
{
    return (grid[1] == p->size[1] && grid[0] == p->size[0]) && (p->row == p->size[1] * p->pixel || p->size[0] == 1) &&
           p->item == p->size[0] * p->row;
}

static ls_gemm_sink pixel_sink(const conv_job *shared, ls_dtype dtype, const void *bias)
{
    const ls_pixels *p = &shared->out.pixels;
    bool even = are_even(p, shared->out.grid);
    return (ls_gemm_sink){.store = ls_gemm_store_rows,
                          .how = {.accumulate = shared->conv->accumulate, .out_dtype = dtype, .pre_dtype = dtype},
                          .bias = bias,
                          .locate = even ? ls_gemm_locate_rows : locate_out,
                          .out_step = p->step,
                          .out = p->data,
                          .out_stride = p->pixel,
                          .context = shared};
}

/* Pixels as A of a product, one segment of `length` channels per tap. */
static ls_gemm_source pixel_source(const conv_job *shared, int64_t segments, int64_t length)
{
    const ls_walk *walk = &shared->a;
    bool even = walk->taps[0] == 1 && walk->taps[1] == 1 && walk->origin[0] == 0 && walk->origin[1] == 0 &&
                walk->stride[0] == 1 && walk->stride[1] == 1 && are_even(&walk->pixels, walk->grid);
    return (ls_gemm_source){.dtype = walk->pixels.dtype,
                            .segments = segments,
                            .length = length,
                            .locate = even ? ls_gemm_locate_matrix : locate_a,
                            .data = walk->pixels.data,
                            .stride = walk->pixels.pixel,
                            .context = shared};
}

/* ---- Operators --------------------------------------------------------------------------------------------------------- */

/* in: x [N,C,H,W], w [O,C/g,KH,KW], b [O]?  out: y [N,O,OH,OW]
 * attrs.conv: window, compute (none: the type of x), accumulate. Fast when channels are contiguous. */
ls_status ls_cpu_conv2d(const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0], *w = call->in[1], *bias = call->n_in > 2 ? call->in[2] : NULL, *y = call->out[0];
    ls_conv conv = ls_conv_of(call, x, w, y);
    if (is_depthwise(&conv)) return ls_conv_depthwise(call, &conv, why);
    const ls_gemm_kernel *kernel = ls_gemm_choose(conv.compute, -1, conv.group_o);
    char *memory = ls_scratch((ls_worker){0, 1}, 2, working_space(&conv, x, w, NULL));
    if (!memory) return out_of_memory(why);
    char *sum_bias = memory;
    memory += conv.o * (int64_t)sizeof(double);
    int64_t sum_bytes = (int64_t)ls_dtype_size(ls_gemm_sum_dtype(kernel));
    if (bias) convert_bias(bias, kernel, sum_bias);

    bool rows_together = wants_rows_together(&conv);
    ls_walk over_x = walk_over_x(&conv, x, rows_together, &memory);
    ls_walk over_y = {ls_pixels_of(y), {conv.out[0], conv.out[1]}, {1, 1}, {0, 0}, {0, 0}, {1, 1}};
    int64_t segments = conv.window.kernel[0] * (rows_together ? 1 : conv.window.kernel[1]);
    int64_t length = conv.group_c * (rows_together ? conv.window.kernel[1] : 1);
    conv_job shared = {.conv = &conv, .weights = weights_of(w, rows_together, memory), .rows_together = rows_together};
    ls_status status = LS_OK;
    for (int64_t g = 0; g < conv.window.groups && status == LS_OK; g++) {
        shared.first_o = g * conv.group_o;
        shared.a = from_channel(over_x, g * conv.group_c);
        shared.out = from_channel(over_y, shared.first_o);
        ls_gemm_job job = {
            .kernel = kernel,
            .batch = 1,
            .m = conv.n * conv.out[0] * conv.out[1],
            .n = conv.group_o,
            .k = segments * ls_gemm_round_up(length, kernel->kr),
            .a = pixel_source(&shared, segments, length),
            .b = {.dtype = w->dtype,
                  .segments = segments,
                  .length = length,
                  .locate = locate_weights,
                  .prepare = prepare_weights,
                  .data = w->data,
                  .context = &shared},
            .sink = pixel_sink(&shared, y->dtype, bias ? sum_bias + shared.first_o * sum_bytes : NULL),
            .same_b = true,
            .derived = w->derived,
        };
        describe_weights(&job.key, 1, w, shared.first_o);
        status = ls_gemm_run(&job, why);
    }
    return status;
}

/* in: dy [N,O,OH,OW], w [O,C/g,KH,KW]  out: dx [N,C,H,W]
 * attrs.conv as in conv2d. Pixels of dx that no output has seen become 0. */
ls_status ls_cpu_conv2d_dinput(const ls_call *call, ls_message *why)
{
    const ls_operand *dy = call->in[0], *w = call->in[1], *dx = call->out[0];
    ls_conv conv = ls_conv_of(call, dx, w, dy);
    if (is_depthwise(&conv)) return ls_conv_depthwise_dinput(call, &conv, why);
    const ls_gemm_kernel *kernel = ls_gemm_choose(conv.compute, -1, conv.group_c);
    char *memory = ls_scratch((ls_worker){0, 1}, 2, working_space(&conv, NULL, w, dy));
    if (!memory) return out_of_memory(why);
    ls_pixels from = contiguous_pixels(dy, &memory), to = ls_pixels_of(dx);
    conv_job shared = {.conv = &conv, .weights = weights_of(w, false, memory)};
    shared.padded_o = ls_gemm_round_up(conv.group_o, kernel->kr);
    ls_status status = LS_OK;
    int64_t phases = conv.window.stride[0] * conv.window.stride[1];
    for (int64_t i = 0; i < conv.window.groups * phases && status == LS_OK; i++) {
        int64_t g = i / phases, phase_h = i % phases / conv.window.stride[1], phase_w = i % conv.window.stride[1];
        shared.phase = ls_phase_of(&conv, from, phase_h, phase_w);
        shared.first_o = g * conv.group_o;
        shared.a = from_channel(shared.phase.walk, shared.first_o);
        shared.out = from_channel(ls_phase_points(&conv, to, &shared.phase, phase_h, phase_w), g * conv.group_c);
        int64_t taps = shared.phase.walk.taps[0] * shared.phase.walk.taps[1];
        ls_gemm_job job = {
            .kernel = kernel,
            .batch = 1,
            .m = conv.n * shared.out.grid[0] * shared.out.grid[1],
            .n = conv.group_c,
            .k = taps * shared.padded_o,
            .a = pixel_source(&shared, taps, conv.group_o),
            .b = {.dtype = w->dtype,
                  .across = true,
                  .segments = 1,
                  .length = conv.group_c,
                  .lines = taps * shared.padded_o,
                  .locate = locate_weights_back,
                  .prepare = prepare_weights,
                  .data = w->data,
                  .context = &shared},
            .sink = pixel_sink(&shared, dx->dtype, NULL),
            .same_b = true,
            .derived = w->derived,
        };
        if (!taps && conv.accumulate) continue;
        describe_weights(&job.key, 2, w, shared.first_o);
        memcpy(job.key.word + 13,
               (int64_t[]){shared.phase.first[0] * 65536 + shared.phase.first[1],
                           shared.phase.step[0] * 65536 + shared.phase.step[1],
                           shared.phase.walk.taps[0] * 65536 + shared.phase.walk.taps[1]},
               24);
        status = ls_gemm_run(&job, why);
    }
    return status;
}

/* Sums [rows, columns] of the output channels from `row` on, all taps of `channels` input channels from `c` on, to f32
 * weights in the order [o][c][kh][kw]: taps come together again. */
static void store_interleaved(const conv_job *shared, int64_t row, int64_t rows, int64_t c, int64_t channels,
                              const float *sums, int64_t ld)
{
    const ls_operand *dw = shared->dw;
    int64_t taps = dw->dim[2] * dw->dim[3];
    for (int64_t i = 0; i < rows; i++) {
        float *to = (float *)dw->data + (shared->first_o + row + i) * dw->stride[0] + c * taps;
        const float *from = sums + i * ld;
        for (int64_t j = 0; j < channels; j++, to += taps)
            for (int64_t t = 0; t < taps; t++)
                to[t] = from[t * shared->padded_columns + j] + (shared->conv->accumulate ? to[t] : 0);
    }
}

/* Sums of output channels [row, row + rows) to dw. Columns come in segments: a tap of one block of input channels, or, with
 * rows_together, a row of the kernel. */
static void store_dweight(const ls_gemm_job *job, int64_t item, int64_t row, int64_t rows, int64_t column,
                          int64_t columns, const void *sums, int64_t ld)
{
    (void)item;
    const conv_job *shared = job->sink.context;
    const ls_operand *dw = shared->dw;
    int64_t bytes = (int64_t)ls_dtype_size(dw->dtype),
            sum_bytes = (int64_t)ls_dtype_size(ls_gemm_sum_dtype(job->kernel));
    int64_t padded = shared->padded_columns, width = dw->dim[3], taps = dw->dim[2] * width, run;
    for (int64_t at = 0; at < columns; at += run) {
        int64_t segment = (column + at) / padded, number = (column + at) % padded;
        const char *from = (const char *)sums + at * sum_bytes;
        if (shared->interleaved) { /* columns are whole blocks: all taps of some channels */
            run = taps * padded;
            store_interleaved(shared, row, rows, segment / taps * job->b.length, job->b.length, (const float *)from,
                              ld);
            continue;
        }
        int64_t kh, kw, c, there;
        if (shared->rows_together) {
            kh = segment;
            kw = number / dw->dim[1];
            c = number % dw->dim[1];
            there = kw < width ? dw->dim[1] - c : 0;
            run = there ? there : padded - number;
        } else {
            kh = segment % taps / width;
            kw = segment % width;
            c = segment / taps * job->b.length + number;
            there = job->b.length - number;
            run = padded - number;
        }
        if (run > columns - at) run = columns - at;
        for (int64_t i = 0; i < rows && there > 0; i++) {
            int64_t o = shared->first_o + row + i;
            int64_t to = o * dw->stride[0] + c * dw->stride[1] + kh * dw->stride[2] + kw * dw->stride[3];
            ls_gemm_finish_rows(job, 1, there < run ? there : run, from + i * ld * sum_bytes, 0, NULL,
                                &(void *){(char *)dw->data + to * bytes}, NULL);
        }
    }
}

/* in: dy [N,O,OH,OW], x [N,C,H,W]  out: dw [O,C/g,KH,KW]
 * attrs.conv as in conv2d, accumulate: dw += */
ls_status ls_cpu_conv2d_dweight(const ls_call *call, ls_message *why)
{
    const ls_operand *dy = call->in[0], *x = call->in[1], *dw = call->out[0];
    ls_conv conv = ls_conv_of(call, x, dw, dy);
    if (is_depthwise(&conv)) return ls_conv_depthwise_dweight(call, &conv, why);
    char *memory = ls_scratch((ls_worker){0, 1}, 2, working_space(&conv, x, NULL, dy));
    if (!memory) return out_of_memory(why);
    bool rows_together = wants_rows_together(&conv);
    ls_walk over_x = walk_over_x(&conv, x, rows_together, &memory);
    ls_walk over_dy = {contiguous_pixels(dy, &memory), {conv.out[0], conv.out[1]}, {1, 1}, {0, 0}, {0, 0}, {1, 1}};
    /* A block of channels whose taps all fit into one strip of columns; the engine hands them over together. */
    int64_t taps = conv.window.kernel[0] * conv.window.kernel[1], length = conv.group_c;
    if (rows_together) length *= conv.window.kernel[1];
    else if (length % CHANNEL_BLOCK == 0 && taps > 1) length = CHANNEL_BLOCK;
    int64_t segments = rows_together ? conv.window.kernel[0] : conv.group_c / length * taps;
    const ls_gemm_kernel *kernel = ls_gemm_choose(conv.compute, conv.group_o, length);
    int64_t pixels = conv.n * conv.out[0] * conv.out[1];
    conv_job shared = {.conv = &conv, .dw = dw, .rows_together = rows_together};
    shared.padded_columns = segments > 1 ? ls_gemm_round_up(length, kernel->b.width) : length;
    shared.interleaved = !rows_together && taps > 1 && taps * shared.padded_columns <= WIDEST_STRIP &&
                         dw->dtype == LS_F32 && kernel->panel != LS_F64 && dw->stride[3] == 1 &&
                         dw->stride[2] == dw->dim[3] && dw->stride[1] == taps;
    ls_status status = LS_OK;
    for (int64_t g = 0; g < conv.window.groups && status == LS_OK; g++) {
        shared.first_o = g * conv.group_o;
        shared.a = from_channel(over_dy, shared.first_o);
        shared.b = from_channel(over_x, g * conv.group_c);
        ls_gemm_job job = {
            .kernel = kernel,
            .batch = 1,
            .m = conv.group_o,
            .n = segments * shared.padded_columns,
            .k = ls_gemm_round_up(pixels, kernel->kr),
            .a = {.dtype = dy->dtype,
                  .across = true,
                  .segments = 1,
                  .length = conv.group_o,
                  .lines = pixels,
                  .locate = locate_a,
                  .context = &shared},
            .b = {.dtype = x->dtype,
                  .across = true,
                  .segments = segments,
                  .length = length,
                  .lines = pixels,
                  .locate = locate_b,
                  .context = &shared},
            .sink = {.store = store_dweight,
                     .how = {.accumulate = conv.accumulate, .out_dtype = dw->dtype, .pre_dtype = dw->dtype},
                     .out_step = dw->dim[1] == 1 ? 1 : dw->stride[1],
                     .context = &shared},
            .strip = shared.interleaved ? taps * shared.padded_columns : 0,
        };
        status = ls_gemm_run(&job, why);
    }
    return status;
}
