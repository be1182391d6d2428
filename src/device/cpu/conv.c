/* conv.c - 2-D convolution and its gradient for the input, as matrix products over pixels:
 * no unfolded copy of the image.
 *
 *     forward   y  [points of y, O]        = x under each tap [points of y, taps * C]       .  w [taps * C, O]
 *     dinput    dx [points of a phase, C]  = dy under its taps [points of a phase, taps * O] .  w [taps * O, C]
 *
 * The engine asks for pixels by tap and point and gets their addresses, or NULL for the border. Channels must be
 * contiguous; other images are copied first. With few channels, all taps of a point are joined into one line just
 * before it is packed. Groups run one after the other. */
#include "device/cpu/conv.h"

#include "base/parallel.h"
#include "device/cpu/channels.h"
#include "device/cpu/cpu.h"
#include "kernels/element.h"
#include "kernels/winograd.h"

#include <math.h>
#include <string.h>

/* ---- Weights ----------------------------------------------------------------------------------------------------- */

/* w as lines of contiguous input channels [o, kh, kw][c], or [o][kh, kw, c] if taps are joined. Weights in another
 * layout are copied on first use, and converted for the kernel on the way. Of 3 x 3 taps, the terms of a form may be
 * wanted instead (kernels/winograd.h). */
typedef struct weights {
    const ls_operand *operand;
    const ls_gemm_kernel *kernel;
    char *copy; /* buffer for copy and terms */
    const char *data;
    ls_dtype dtype; /* of the lines */
    int64_t o_stride, tap_stride[2];
    int64_t width; /* taps of a row */
    bool ready;
    const ls_winograd_form *form; /* NULL: taps are wanted */
    bool back;                    /* terms of taps in reverse order */
} weights;

static weights weights_of(const ls_operand *w, const ls_gemm_kernel *kernel, bool together, void *copy)
{
    bool lines = w->stride[1] == 1 || w->dim[1] == 1;
    if (together) lines = lines && w->stride[3] == w->dim[1] && w->stride[2] == w->dim[1] * w->dim[3];
    return (weights){.operand = w,
                     .kernel = kernel,
                     .copy = copy,
                     .data = w->data,
                     .dtype = lines ? w->dtype : kernel->panel,
                     .o_stride = w->stride[0],
                     .tap_stride = {w->stride[2], w->stride[3]},
                     .width = w->dim[3],
                     .ready = lines};
}

static size_t lines_space(const ls_operand *w)
{
    return (size_t)ls_gemm_round_up(w->dim[0] * w->dim[1] * w->dim[2] * w->dim[3] * (int64_t)sizeof(double), 64);
}

static bool has_terms(const ls_operand *w)
{
    return w->dim[2] == 3 && w->dim[3] == 3 && w->dtype == LS_F32;
}

/* `form`: whose terms may be wanted, or NULL. */
static size_t weights_space(const ls_operand *w, const ls_winograd_form *form)
{
    int64_t terms = form && has_terms(w) ? form->terms : 0;
    return lines_space(w) + (size_t)ls_f32_bytes(w->dim[0] * w->dim[1] * terms);
}

#define BLOCK 64 /* taps and channels transposed at a time, in L1 */

#define TURN(type)                                                                                                     \
    for (int64_t i = 0; i < channels; i++)                                                                             \
        for (int64_t t = 0; t < taps; t++)                                                                             \
    ((type *)block)[t * BLOCK + i] = ((const type *)w->data)[at + (c + i) * w->stride[1] + offset[t]]

/* Channels [c, c + channels) and taps [tap, tap + taps) of output channel o. */
static void copy_block(const weights *self, int64_t o, int64_t c, int64_t channels, int64_t tap, int64_t taps)
{
    const ls_operand *w = self->operand;
    int64_t bytes = (int64_t)ls_dtype_size(w->dtype), to_bytes = (int64_t)ls_dtype_size(self->dtype);
    int64_t at = o * w->stride[0], all_taps = w->dim[2] * w->dim[3], offset[BLOCK];
    double block[BLOCK * BLOCK];
    for (int64_t t = 0; t < taps; t++)
        offset[t] = (tap + t) / w->dim[3] * w->stride[2] + (tap + t) % w->dim[3] * w->stride[3];
    if (bytes == 2) TURN(uint16_t);
    else if (bytes == 4) TURN(uint32_t);
    else TURN(uint64_t);
    for (int64_t t = 0; t < taps; t++)
        self->kernel->convert(self->copy + ((o * all_taps + tap + t) * w->dim[1] + c) * to_bytes,
                              (char *)block + t * BLOCK * bytes, w->dtype, channels);
}

static void copy_weights(void *arg, int64_t begin, int64_t end)
{
    const weights *self = arg;
    const ls_operand *w = self->operand;
    int64_t all_taps = w->dim[2] * w->dim[3];
    for (int64_t o = begin; o < end; o++)
        for (int64_t c = 0; c < w->dim[1]; c += BLOCK)
            for (int64_t tap = 0; tap < all_taps; tap += BLOCK)
                copy_block(self, o, c, w->dim[1] - c < BLOCK ? w->dim[1] - c : BLOCK, tap,
                           all_taps - tap < BLOCK ? all_taps - tap : BLOCK);
}

static float *terms_of(const weights *self)
{
    return (float *)(self->copy + lines_space(self->operand));
}

static void make_terms(void *arg, int64_t begin, int64_t end)
{
    const weights *self = arg;
    int64_t channels = self->operand->dim[1];
    ls_winograd_transforms transforms = ls_winograd_transforms_of(self->form);
    const float *tap[9];
    for (int64_t o = begin; o < end; o++) {
        for (int i = 0; i < 9; i++) {
            int seen = self->back ? 8 - i : i;
            tap[i] = (const float *)self->data + o * self->o_stride + seen / 3 * self->tap_stride[0] +
                     seen % 3 * self->tap_stride[1];
        }
        transforms.weights(terms_of(self) + o * self->form->terms * channels, channels, tap, channels);
    }
}

/* From now on these are lines without gaps, of a kernel of so many taps. */
static void weights_become(weights *self, const void *data, int64_t height, int64_t width)
{
    int64_t channels = self->operand->dim[1];
    self->data = data;
    self->o_stride = channels * height * width;
    self->tap_stride[0] = channels * width;
    self->tap_stride[1] = channels;
    self->width = width;
}

static void weights_prepare(weights *self)
{
    const ls_operand *w = self->operand;
    int64_t together = 1 + 8192 / (1 + w->dim[1] * w->dim[2] * w->dim[3]);
    if (!self->ready) {
        ls_parallel_for(w->dim[0], together, copy_weights, self);
        weights_become(self, self->copy, w->dim[2], w->dim[3]);
        self->ready = true;
    }
    if (self->form && self->width != self->form->side) {
        ls_parallel_for(w->dim[0], together, make_terms, self);
        weights_become(self, terms_of(self), self->form->side, self->form->side);
    }
}

/* Two small numbers in one. */
static int64_t pair(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a << 32 | (uint32_t)b);
}

/* Distinguishes packed forms of the same weights, besides what the engine knows: it knows how many lines of taps or
 * terms there are, but not which. */
static ls_gemm_key weights_key(const weights *self, int purpose, int64_t first_o, const ls_phase *phase)
{
    const ls_operand *w = self->operand;
    ls_gemm_key key = {{0}};
    int64_t terms = self->form ? self->form->terms : 0;
    int64_t words[] = {pair(terms, purpose), w->stride[0], w->stride[1], pair(w->stride[2], w->stride[3]),
                       pair(first_o, w->dim[0])};
    memcpy(key.word + 8, words, sizeof words);
    key.word[13] = pair(w->dim[2], w->dim[3]);
    if (phase) {
        key.word[13] = pair(phase->first[0], phase->first[1]);
        key.word[14] = pair(phase->step[0], phase->step[1]);
        key.word[15] = pair(phase->walk.taps[0], phase->walk.taps[1]);
    }
    return key;
}

/* ---- Callbacks of the engine
 * -------------------------------------------------------------------------------------- */

typedef struct conv_job {
    const ls_conv *conv;
    weights weights;
    ls_walk over, out; /* pixels of A, of the result */
    ls_walk residual;  /* forward: added to the result; its data may be NULL */
    ls_phase phase;    /* dinput */
    int64_t first_o;   /* of the group */
    int64_t padded_o;  /* dinput: output channels of a tap, as k counts them */
    bool together;     /* all taps of a point are joined into one line */
    int64_t line_taps; /* forward: taps of a line of weights */
} conv_job;

static void locate_pixels(const ls_gemm_source *source, int64_t item, int64_t segment, int64_t first, int64_t count,
                          void *room, const void **line)
{
    (void)item;
    const conv_job *job = source->context;
    if (!job->together) {
        ls_walk_locate(&job->over, segment, first, count, line);
        return;
    }
    ls_walk_gather(&job->over, job->conv->group_c, first, count, room, source->room);
    for (int64_t i = 0; i < count; i++) line[i] = (char *)room + i * source->room;
}

static void locate_out(const ls_gemm_sink *sink, int64_t item, int64_t first, int64_t count, void **out, void **pre)
{
    (void)item;
    const conv_job *job = sink->context;
    ls_walk_locate(&job->out, 0, first, count, (const void **)out);
    if (sink->pre) ls_walk_locate(&job->residual, 0, first, count, (const void **)pre);
}

/* Forward: columns of B are output channels; their lines run along the input channels of one tap, or of all. */
static void locate_weights(const ls_gemm_source *source, int64_t item, int64_t segment, int64_t first, int64_t count,
                           void *room, const void **line)
{
    (void)item;
    (void)room;
    const conv_job *job = source->context;
    const weights *w = &job->weights;
    int64_t tap = segment * job->line_taps, bytes = (int64_t)ls_dtype_size(source->dtype);
    int64_t at = tap / w->width * w->tap_stride[0] + tap % w->width * w->tap_stride[1];
    for (int64_t i = 0; i < count; i++) line[i] = w->data + (at + (job->first_o + first + i) * w->o_stride) * bytes;
}

/* Dinput: a line of B is one output channel of one tap, across all input channels. */
static void locate_weights_back(const ls_gemm_source *source, int64_t item, int64_t segment, int64_t first,
                                int64_t count, void *room, const void **line)
{
    (void)item;
    (void)segment;
    (void)room;
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

/* ---- Sides of the product ---------------------------------------------------------------------------------------- */

static ls_gemm_sink pixel_sink(const conv_job *shared)
{
    const ls_pixels *p = &shared->out.pixels, *residual = &shared->residual.pixels;
    bool even = ls_walk_is_even(&shared->out) && (!residual->data || ls_walk_is_even(&shared->residual));
    return (ls_gemm_sink){
        .store = ls_gemm_store_rows,
        .how = {.accumulate = shared->conv->accumulate, .out_dtype = p->dtype, .pre_dtype = residual->dtype},
        .locate = even ? ls_gemm_locate_rows : locate_out,
        .out_step = p->step,
        .pre_step = residual->step,
        .out = p->data,
        .pre = residual->data,
        .out_stride = p->pixel,
        .pre_stride = residual->pixel,
        .context = shared};
}

/* Pixels as A, one segment of `length` channels per tap, or one for all. */
static ls_gemm_source pixel_source(const conv_job *shared, int64_t segments, int64_t length)
{
    const ls_pixels *p = &shared->over.pixels;
    return (ls_gemm_source){.dtype = p->dtype,
                            .segments = segments,
                            .length = length,
                            .room = shared->together ? length * (int64_t)ls_dtype_size(p->dtype) : 0,
                            .locate = ls_walk_is_even(&shared->over) ? ls_gemm_locate_matrix : locate_pixels,
                            .data = p->data,
                            .stride = p->pixel,
                            .context = shared};
}

static bool is_depthwise(const ls_conv *conv)
{
    return conv->group_c == 1 && conv->group_o == 1 && conv->window.groups > 1;
}

/* ---- Finishing --------------------------------------------------------------------------------------------------- */

void ls_conv_columns(const ls_conv_finish *finish, const ls_conv *conv, ls_dtype sum_dtype, void *columns)
{
    for (int64_t o = 0; o < conv->o; o++) {
        double shift = ls_channel_get(finish->bias, o, 0), scale = 1;
        if (finish->mean) {
            scale = ls_channel_get(finish->weight, o, 1) / sqrt(ls_channel_get(finish->var, o, 1) + finish->epsilon);
            shift = (shift - ls_channel_get(finish->mean, o, 0)) * scale + ls_channel_get(finish->shift, o, 0);
        }
        ls_put(sum_dtype, columns, o, shift);
        ls_put(sum_dtype, columns, conv->o + o, scale);
    }
}

void ls_conv_finish_sink(const ls_conv_finish *finish, const ls_conv *conv, const void *columns, ls_gemm_sink *sink)
{
    if (finish->bias || finish->mean) sink->bias = columns;
    if (finish->mean) sink->how.scale_after = conv->o;
    sink->how.residual = finish->residual != NULL;
    sink->how.activation = finish->activation;
}

/* The form of products of terms, if they are faster; otherwise NULL. */
static const ls_winograd_form *form_of(const ls_walk *walk, const ls_operand *w, const ls_gemm_kernel *kernel,
                                       int64_t channels, int64_t columns)
{
    return has_terms(w) ? ls_conv_winograd_form(walk, kernel, channels, columns) : NULL;
}

/* The kernel for products of pixels of `channels` numbers at so many points with columns of weights: of one tap, which
 * no method below beats, large ones are packed. */
static const ls_gemm_kernel *kernel_of(const ls_conv *conv, int64_t points, int64_t channels, int64_t columns)
{
    bool one_tap = conv->window.kernel[0] * conv->window.kernel[1] == 1;
    return one_tap ? ls_gemm_choose_packed(conv->compute, points, columns, channels, true)
                   : ls_gemm_choose(conv->compute, -1, columns);
}

/* `gathers`: moments are gathered from sums, which packed products do not do. */
static const ls_gemm_kernel *forward_kernel(const ls_conv *conv, bool gathers)
{
    if (gathers) return ls_gemm_choose(conv->compute, -1, conv->group_o);
    return kernel_of(conv, conv->n * conv->out[0] * conv->out[1], conv->group_c, conv->group_o);
}

/* ---- Operators --------------------------------------------------------------------------------------------------- */

bool ls_conv_gathers(const ls_call *call)
{
    const ls_operand *x = call->in[0];
    ls_conv conv = ls_conv_of(call, x, call->in[1], call->out[0]);
    /* A result that is not rounded has the same moments as its sums, and reading it once more takes less than packed
     * products gain. */
    const ls_gemm_kernel *kernel = forward_kernel(&conv, call->out[0]->dtype != LS_F32);
    if (is_depthwise(&conv) || ls_conv_pixels_space(x)) return false;
    ls_walk over_x = ls_walk_forward(&conv, ls_pixels_of(x));
    if (form_of(&over_x, call->in[1], kernel, conv.group_c, conv.group_o)) return true;
    return kernel->in_place_finishes && ls_conv_direct_suits(&over_x, kernel, conv.group_c, conv.group_o);
}

size_t ls_conv_run_space(const ls_call *call)
{
    const ls_operand *x = call->in[0], *w = call->in[1];
    ls_conv conv = ls_conv_of(call, x, w, call->out[0]);
    return (size_t)ls_conv_columns_space(&conv) + ls_conv_pixels_space(x) +
           weights_space(w, ls_winograd_form_of(conv.window.stride));
}

ls_status ls_conv_run(const ls_call *call, const ls_conv_finish *finish, const ls_conv_moments *moments, void *memory,
                      ls_message *why)
{
    const ls_operand *x = call->in[0], *w = call->in[1], *y = call->out[0];
    ls_conv conv = ls_conv_of(call, x, w, y);
    const ls_gemm_kernel *kernel = forward_kernel(&conv, moments != NULL);
    ls_dtype sum_dtype = ls_gemm_sum_dtype(kernel);
    char *columns = memory;
    ls_conv_columns(finish, &conv, sum_dtype, columns);

    ls_conv_space space = {columns + ls_conv_columns_space(&conv)};
    ls_walk over_x = ls_walk_forward(&conv, ls_conv_pixels(x, &space)), over_y = ls_walk_over(ls_pixels_of(y)),
            over_residual = {0};
    if (finish->residual) over_residual = ls_walk_over(ls_pixels_of(finish->residual));
    const ls_winograd_form *form = form_of(&over_x, w, kernel, conv.group_c, conv.group_o);
    bool direct = !form && ls_conv_direct_suits(&over_x, kernel, conv.group_c, conv.group_o);
    bool together = !form && !direct && ls_conv_is_narrow(&conv);
    int64_t taps = conv.window.kernel[0] * conv.window.kernel[1], line_taps = together ? taps : 1;
    if (direct && conv.group_c < kernel->kr && conv.window.dilation[1] == 1) line_taps = conv.window.kernel[1];
    int64_t segments = form ? form->terms : taps / line_taps, length = conv.group_c * line_taps;
    conv_job shared = {.conv = &conv,
                       .weights = weights_of(w, kernel, line_taps > 1, space.next),
                       .together = together,
                       .line_taps = line_taps};
    shared.weights.form = form;
    ls_status status = LS_OK;
    for (int64_t g = 0; g < conv.window.groups && status == LS_OK; g++) {
        shared.first_o = g * conv.group_o;
        shared.over = ls_walk_from_channel(over_x, g * conv.group_c);
        shared.out = ls_walk_from_channel(over_y, shared.first_o);
        if (finish->residual) shared.residual = ls_walk_from_channel(over_residual, shared.first_o);
        ls_gemm_job job = {
            .kernel = kernel,
            .batch = 1,
            .m = conv.n * conv.out[0] * conv.out[1],
            .n = conv.group_o,
            .k = segments * ls_gemm_round_up(length, kernel->kr),
            .a = pixel_source(&shared, segments, length),
            .b = {.dtype = shared.weights.dtype,
                  .segments = segments,
                  .length = length,
                  .locate = locate_weights,
                  .prepare = prepare_weights,
                  .data = w->data,
                  .context = &shared},
            .sink = pixel_sink(&shared),
            .same_b = true,
            .derived = w->derived,
            .key = weights_key(&shared.weights, LS_OP_conv2d, shared.first_o, NULL),
        };
        ls_conv_finish_sink(finish, &conv, columns + shared.first_o * (int64_t)ls_dtype_size(sum_dtype), &job.sink);
        ls_conv_direct how = {.walk = &shared.over, .channels = conv.group_c, .taps_in_line = line_taps};
        ls_conv_moments of_group;
        if (moments) {
            of_group = (ls_conv_moments){moments->mean + shared.first_o, moments->m2 + shared.first_o, moments->only};
            how.moments = &of_group;
        }
        if (form) status = ls_conv_winograd_run(&job, &how, why);
        else if (direct) status = ls_conv_direct_run(&job, &how, why);
        else status = ls_gemm_run(&job, why);
    }
    return status;
}

ls_status ls_conv_finished(const ls_call *call, const ls_conv_finish *finish, ls_message *why)
{
    ls_conv conv = ls_conv_of(call, call->in[0], call->in[1], call->out[0]);
    if (is_depthwise(&conv)) return ls_conv_depthwise(call, &conv, finish, why);
    void *memory = ls_scratch((ls_worker){0, 1}, 2, ls_conv_run_space(call));
    return memory ? ls_conv_run(call, finish, NULL, memory, why) : ls_conv_out_of_memory(why);
}

/* in: x [N,C,H,W], w [O,C/g,KH,KW], b [O]?  out: y [N,O,OH,OW], mean [O]?, var [O]?
 * attrs.conv: window, compute (none: the type of x), accumulate. Fast when channels are contiguous. mean and var, both
 * or neither, are those of the channels of y (the variance biased), before its rounding unless that would show; without
 * accumulate. */
ls_status ls_cpu_conv2d(const ls_call *call, ls_message *why)
{
    if (call->n_out > 1 && call->out[1]) return ls_conv_with_moments(call, why);
    return ls_conv_finished(call, &(ls_conv_finish){.bias = call->n_in > 2 ? call->in[2] : NULL}, why);
}

/* Dinput by terms: taps see pixels of dy from the last to the first, terms in their order. */
static void see_terms(conv_job *job, const ls_winograd_form *form)
{
    ls_phase *phase = &job->phase;
    job->weights.form = form;
    job->weights.back = true;
    for (int d = 0; d < 2; d++) {
        phase->walk.taps[d] = form->side;
        phase->first[d] = 0;
        phase->step[d] = 1;
    }
}

/* in: dy [N,O,OH,OW], w [O,C/g,KH,KW]  out: dx [N,C,H,W]
 * attrs.conv as in conv2d. Pixels of dx that no output depends on become 0. */
ls_status ls_cpu_conv2d_dinput(const ls_call *call, ls_message *why)
{
    const ls_operand *dy = call->in[0], *w = call->in[1], *dx = call->out[0];
    ls_conv conv = ls_conv_of(call, dx, w, dy);
    if (is_depthwise(&conv)) return ls_conv_depthwise_dinput(call, &conv, why);
    const ls_gemm_kernel *kernel = kernel_of(&conv, conv.n * conv.out[0] * conv.out[1], conv.group_o, conv.group_c);
    size_t bytes = ls_conv_pixels_space(dy) + weights_space(w, &ls_winograd_unstrided); /* phases have no stride */
    ls_conv_space space = {ls_scratch((ls_worker){0, 1}, 2, bytes)};
    if (!space.next) return ls_conv_out_of_memory(why);
    ls_pixels from = ls_conv_pixels(dy, &space), to = ls_pixels_of(dx);
    conv_job shared = {.conv = &conv, .weights = weights_of(w, kernel, false, space.next)};
    shared.padded_o = ls_gemm_round_up(conv.group_o, kernel->kr);
    ls_status status = LS_OK;
    int64_t phases = conv.window.stride[0] * conv.window.stride[1];
    for (int64_t i = 0; i < conv.window.groups * phases && status == LS_OK; i++) {
        int64_t g = i / phases, phase_h = i % phases / conv.window.stride[1], phase_w = i % conv.window.stride[1];
        shared.phase = ls_phase_of(&conv, from, phase_h, phase_w);
        shared.first_o = g * conv.group_o;
        shared.over = ls_walk_from_channel(shared.phase.walk, shared.first_o);
        shared.out =
            ls_walk_from_channel(ls_phase_points(&conv, to, &shared.phase, phase_h, phase_w), g * conv.group_c);
        const ls_winograd_form *form = form_of(&shared.over, w, kernel, conv.group_o, conv.group_c);
        if (form) see_terms(&shared, form);
        int64_t taps = shared.phase.walk.taps[0] * shared.phase.walk.taps[1];
        if (!taps && conv.accumulate) continue;
        ls_gemm_job job = {
            .kernel = kernel,
            .batch = 1,
            .m = conv.n * shared.out.grid[0] * shared.out.grid[1],
            .n = conv.group_c,
            .k = taps * shared.padded_o,
            .a = pixel_source(&shared, taps, conv.group_o),
            .b = {.dtype = shared.weights.dtype,
                  .across = true,
                  .segments = 1,
                  .length = conv.group_c,
                  .lines = taps * shared.padded_o,
                  .locate = locate_weights_back,
                  .prepare = prepare_weights,
                  .data = w->data,
                  .context = &shared},
            .sink = pixel_sink(&shared),
            .same_b = true,
            .derived = w->derived,
            .key = weights_key(&shared.weights, LS_OP_conv2d_dinput, shared.first_o, &shared.phase),
        };
        ls_conv_direct how = {.walk = &shared.over, .channels = conv.group_o, .taps_in_line = 1};
        if (form) status = ls_conv_winograd_run(&job, &how, why);
        else if (ls_conv_direct_suits(&shared.over, kernel, conv.group_o, conv.group_c))
            status = ls_conv_direct_run(&job, &how, why);
        else status = ls_gemm_run(&job, why);
    }
    return status;
}

/* in: dy [N,O,OH,OW], x [N,C,H,W]  out: dw [O,C/g,KH,KW]
 * attrs.conv as in conv2d, accumulate: dw += */
ls_status ls_cpu_conv2d_dweight(const ls_call *call, ls_message *why)
{
    ls_conv conv = ls_conv_of(call, call->in[1], call->out[0], call->in[0]);
    return (is_depthwise(&conv) ? ls_conv_depthwise_dweight : ls_conv_dweight)(call, &conv, why);
}
