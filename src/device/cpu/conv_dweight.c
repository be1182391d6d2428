/* conv_dweight.c - the gradient of a convolution for its weight, as a matrix product over pixels.
 *
 *     dw [O, taps * C] = dy [points of y, O]^T  .  x under each tap [points of y, taps * C]
 *
 * Lines run across k, one point of y each: a pixel of dy, and the pixels of x that the taps see. Columns are ordered so
 * that all taps of a block of input channels are adjacent and reach the sink together, which stores them in the order
 * of w. */
#include "device/cpu/conv.h"

#include "base/parallel.h"

#include <string.h>

#define CHANNEL_BLOCK 64
#define WIDEST_STRIP 1024 /* most columns passed to the sink at once */
#define ROWS_TOGETHER 64  /* rows of sums finished per call */
#define LEAST_PACKED 256  /* numbers of either pixel, if a kernel for large products is to be faster */

typedef struct dweight_job {
    const ls_conv *conv;
    const ls_operand *dw;
    ls_walk over_dy, over_x;
    int64_t first_o; /* of the group */
    int64_t padded;  /* columns of a segment, as n counts them */
    bool together;   /* all taps of a point are joined into one line */
    bool blocks;     /* sums come as all taps of a block of channels, and are stored as f32 in the order
                      * [o][c][kh][kw] */
} dweight_job;

static void locate_dy(const ls_gemm_source *source, int64_t item, int64_t segment, int64_t first, int64_t count,
                      void *room, const void **line)
{
    (void)item;
    (void)room;
    ls_walk_locate(&((const dweight_job *)source->context)->over_dy, segment, first, count, line);
}

/* Segments are the taps of one block of channels after the other. */
static void locate_x(const ls_gemm_source *source, int64_t item, int64_t segment, int64_t first, int64_t count,
                     void *room, const void **line)
{
    (void)item;
    const dweight_job *job = source->context;
    if (job->together) {
        ls_walk_gather(&job->over_x, job->conv->group_c, first, count, room, source->room);
        for (int64_t i = 0; i < count; i++) line[i] = (char *)room + i * source->room;
        return;
    }
    int64_t taps = job->over_x.taps[0] * job->over_x.taps[1];
    ls_walk block = ls_walk_from_channel(job->over_x, segment / taps * source->length);
    ls_walk_locate(&block, segment % taps, first, count, line);
}

typedef float four __attribute__((vector_size(16), aligned(4)));

/* Four by four: taps of `sums`, `ld` apart, become rows of `to`, `taps` apart. */
static inline void turn_taps(float *to, const float *sums, int64_t ld, int64_t taps, bool accumulate)
{
    four row[4], t[4];
    for (int i = 0; i < 4; i++) row[i] = *(const four *)(sums + i * ld);
    t[0] = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
    t[1] = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
    t[2] = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
    t[3] = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
    row[0] = __builtin_shufflevector(t[0], t[1], 0, 1, 4, 5);
    row[1] = __builtin_shufflevector(t[0], t[1], 2, 3, 6, 7);
    row[2] = __builtin_shufflevector(t[2], t[3], 0, 1, 4, 5);
    row[3] = __builtin_shufflevector(t[2], t[3], 2, 3, 6, 7);
    for (int i = 0; i < 4; i++) {
        four *at = (four *)(to + i * taps);
        *at = accumulate ? row[i] + *at : row[i];
    }
}

void ls_conv_store_taps(float *to, const float *sums, int64_t ld, int64_t channels, int64_t taps, bool accumulate)
{
    if (taps == 1 && !accumulate) {
        memcpy(to, sums, (size_t)channels * sizeof *to);
        return;
    }
    for (int64_t c = 0; c < channels; c += 4) {
        int64_t tap = 0, end = smaller(c + 4, channels);
        for (; end == c + 4 && tap + 4 <= taps; tap += 4)
            turn_taps(to + c * taps + tap, sums + tap * ld + c, ld, taps, accumulate);
        for (int64_t i = c; i < end; i++)
            for (int64_t t = tap; t < taps; t++)
                to[i * taps + t] = sums[t * ld + i] + (accumulate ? to[i * taps + t] : 0);
    }
}

/* Store all taps of `channels` input channels starting at `c`, of the output channels starting at `row`. */
static void store_block(const dweight_job *job, int64_t row, int64_t rows, int64_t c, int64_t channels,
                        const float *sums, int64_t ld)
{
    const ls_operand *dw = job->dw;
    int64_t taps = dw->dim[2] * dw->dim[3];
    for (int64_t i = 0; i < rows; i++)
        ls_conv_store_taps((float *)dw->data + (job->first_o + row + i) * dw->stride[0] + c * taps, sums + i * ld,
                           job->padded, channels, taps, job->conv->accumulate);
}

/* Store sums of output channels [row, row + rows) to dw, by runs of channels of one tap, or by blocks. */
static void store_sums(const ls_gemm_job *job, int64_t item, int64_t row, int64_t rows, int64_t column, int64_t columns,
                       const void *sums, int64_t ld)
{
    (void)item;
    const dweight_job *shared = job->sink.context;
    const ls_operand *dw = shared->dw;
    int64_t bytes = (int64_t)ls_dtype_size(dw->dtype),
            sum_bytes = (int64_t)ls_dtype_size(ls_gemm_sum_dtype(job->kernel));
    int64_t channels = dw->dim[1], width = dw->dim[3], taps = dw->dim[2] * width, run;
    for (int64_t at = 0; at < columns; at += run) {
        int64_t segment = (column + at) / shared->padded, number = (column + at) % shared->padded;
        const char *from = (const char *)sums + at * sum_bytes;
        if (shared->blocks) {
            run = taps * shared->padded;
            store_block(shared, row, rows, segment / taps * job->b.length, job->b.length, (const float *)from, ld);
            continue;
        }
        int64_t tap = shared->together ? number / channels : segment % taps;
        int64_t c = shared->together ? number % channels : segment / taps * job->b.length + number;
        int64_t there = shared->together ? channels - c : job->b.length - number; /* not into the padding */
        run = shared->together ? there : shared->padded - number;
        if (run > columns - at) run = columns - at;
        char *to = (char *)dw->data + ((shared->first_o + row) * dw->stride[0] + c * dw->stride[1] +
                                       tap / width * dw->stride[2] + tap % width * dw->stride[3]) *
                                          bytes;
        for (int64_t i = 0, count; i < rows && there > 0; i += count) {
            void *out[ROWS_TOGETHER];
            count = rows - i < ROWS_TOGETHER ? rows - i : ROWS_TOGETHER;
            for (int64_t j = 0; j < count; j++) out[j] = to + (i + j) * dw->stride[0] * bytes;
            ls_gemm_finish_rows(job, count, there < run ? there : run, from + i * ld * sum_bytes, ld, NULL, out, NULL);
        }
    }
}

/* Is packing faster than reading points in place, or their taps? The kernel that it is, or NULL. */
static const ls_gemm_kernel *kernel_that_packs(const ls_conv *conv, int64_t taps, int64_t points)
{
    const ls_gemm_kernel *large = ls_gemm()->large_f32;
    if (taps > 1 || conv->group_o < LEAST_PACKED || conv->group_c < LEAST_PACKED) return NULL;
    return large == ls_gemm_choose_packed(conv->compute, conv->group_o, conv->group_c, points, false) ? large : NULL;
}

ls_status ls_conv_dweight(const ls_call *call, const ls_conv *conv, ls_message *why)
{
    const ls_operand *dy = call->in[0], *x = call->in[1], *dw = call->out[0];
    if (!conv->group_c || !conv->group_o) return LS_OK;
    ls_conv_space space = {ls_scratch((ls_worker){0, 1}, 2, ls_conv_pixels_space(x) + ls_conv_pixels_space(dy))};
    if (!space.next) return ls_conv_out_of_memory(why);
    if (ls_conv_dweight_by_terms(conv, call)) {
        ls_pixels pixels = ls_conv_pixels(x, &space);
        return ls_conv_dweight_terms(conv, ls_conv_pixels(dy, &space), pixels, dw, why);
    }
    int64_t taps = conv->window.kernel[0] * conv->window.kernel[1], points = conv->n * conv->out[0] * conv->out[1];
    const ls_gemm_kernel *kernel = kernel_that_packs(conv, taps, points);
    if (!kernel && ls_conv_dweight_in_place(conv, call)) {
        ls_pixels pixels = ls_conv_pixels(x, &space);
        return ls_conv_dweight_points(conv, ls_conv_pixels(dy, &space), pixels, dw, why);
    }
    if (!kernel && ls_conv_dweight_by_taps(conv, dw)) {
        ls_pixels pixels = ls_conv_pixels(x, &space);
        return ls_conv_dweight_taps(conv, ls_conv_pixels(dy, &space), pixels, dw, why);
    }
    bool together = ls_conv_is_narrow(conv);
    int64_t length = conv->group_c;
    if (together) length *= taps;
    else if (taps > 1 && length % CHANNEL_BLOCK == 0) length = CHANNEL_BLOCK;
    int64_t segments = together ? 1 : conv->group_c / length * taps;

    if (!kernel) kernel = ls_gemm_choose(conv->compute, conv->group_o, length);
    ls_walk over_x = ls_walk_forward(conv, ls_conv_pixels(x, &space)),
            over_dy = ls_walk_over(ls_conv_pixels(dy, &space));
    dweight_job shared = {.conv = conv, .dw = dw, .together = together};
    shared.padded = segments > 1 ? ls_gemm_round_up(length, kernel->b.width) : length;
    shared.blocks = segments > 1 && taps * shared.padded <= WIDEST_STRIP && dw->dtype == LS_F32 &&
                    kernel->panel != LS_F64 && dw->stride[3] == 1 && dw->stride[2] == dw->dim[3] &&
                    dw->stride[1] == taps;
    ls_status status = LS_OK;
    for (int64_t g = 0; g < conv->window.groups && status == LS_OK; g++) {
        shared.first_o = g * conv->group_o;
        shared.over_dy = ls_walk_from_channel(over_dy, shared.first_o);
        shared.over_x = ls_walk_from_channel(over_x, g * conv->group_c);
        ls_gemm_job job = {
            .kernel = kernel,
            .batch = 1,
            .m = conv->group_o,
            .n = segments * shared.padded,
            .k = ls_gemm_round_up(points, kernel->kr),
            .a = {.dtype = dy->dtype,
                  .across = true,
                  .segments = 1,
                  .length = conv->group_o,
                  .lines = points,
                  .locate = locate_dy,
                  .context = &shared},
            .b = {.dtype = x->dtype,
                  .across = true,
                  .segments = segments,
                  .length = length,
                  .lines = points,
                  .room = together ? length * (int64_t)ls_dtype_size(x->dtype) : 0,
                  .locate = locate_x,
                  .context = &shared},
            .sink = {.store = store_sums,
                     .how = {.accumulate = conv->accumulate, .out_dtype = dw->dtype, .pre_dtype = dw->dtype},
                     .out_step = dw->dim[1] == 1 ? 1 : dw->stride[1],
                     .context = &shared},
            .strip = shared.blocks ? taps * shared.padded : 0,
        };
        status = ls_gemm_run(&job, why);
    }
    return status;
}
