/* batch_norm.c - batch normalisation, optionally + residual and ReLU, and its gradient.
 *
 * Two memory orders. If channels are adjacent (channels last, or [N,C]) rows are pixels and coefficients run along the
 * row; otherwise rows are planes of one channel each. Both directions read the batch twice: once to gather
 * two statistics per channel, per block of rows and merged in order, once to write the result. */
#include "device/cpu/channels.h"
#include "device/cpu/cpu.h"
#include "device/cpu/rows.h"
#include "kernels/norm.h"
#include "kernels/reduce.h"

#include <math.h>
#include <string.h>

typedef struct batch batch;

/* A tile of a block: some of its pixels and channels, or one plane. */
typedef struct tile {
    int64_t row, rows, column, columns;
} tile;
typedef void tile_fn(const batch *b, const ls_block *block, tile t, double *first, double *second);
/* Merge the statistics of `seen` elements of each channel with those of n more. */
typedef void merge_fn(double *restrict first, double *restrict second, int64_t seen, const double *restrict more_first,
                      const double *restrict more_second, int64_t n, int64_t channels);
/* Write the results of some rows; `channel` is that of the first coefficient. */
typedef void write_fn(const batch *b, const ls_block *block, int64_t row, int64_t rows, int64_t channel);

struct batch {
    ls_dtype dtype;
    bool pixels;                              /* rows are pixels of all channels, else planes of one channel */
    uint32_t dims;                            /* the dimensions that make up a row */
    int64_t channels, rows, length, elements; /* elements per channel */
    int64_t block_rows, blocks; /* statistics of all channels per block of pixels, or of one channel per plane */

    double *first, *second;             /* [blocks, C] */
    void *mean, *scale, *slope, *shift; /* [C], of the compute type */
    bool relu;
    bool large; /* the result: it leaves the caches before it is read */

    const ls_norm_kernels *norm;
    const ls_reduce_kernels *reduce;
    tile_fn *gather;
    merge_fn *merge;
    write_fn *write;
};

static batch batch_of(const ls_operand *x)
{
    batch b = {.dtype = x->dtype,
               .pixels = x->ndim == 2 || (x->stride[1] == 1 && x->dim[1] > 1),
               .channels = x->dim[1],
               .norm = ls_norm_table(),
               .reduce = ls_reduce_table()};
    b.dims = b.pixels ? 1u << 1 : ls_dims(2, x->ndim);
    b.elements = b.channels ? ls_operand_numel(x) / b.channels : 0;
    b.length = b.pixels ? b.channels : b.elements / (x->dim[0] ? x->dim[0] : 1);
    b.rows = b.pixels ? b.elements : x->dim[0] * b.channels;
    b.blocks = x->dim[0];
    if (b.pixels) {
        b.block_rows = (b.rows + 127) / 128;
        if (b.block_rows < LS_SUMMARY_ROWS) b.block_rows = LS_SUMMARY_ROWS;
        b.blocks = (b.rows + b.block_rows - 1) / b.block_rows;
    }
    return b;
}

/* Allocate zeroed memory for the statistics of all channels, and for the coefficients. */
static ls_status alloc_statistics(batch *b, ls_message *why)
{
    int64_t count = (b->blocks ? b->blocks : 1) * b->channels;
    double *room = ls_scratch((ls_worker){0, 1}, 1, (size_t)(2 * count + 4 * b->channels) * sizeof *room);
    if (!room) return ls_explain(why, LS_ERR_MEMORY, "no scratch memory for statistics");
    memset(room, 0, (size_t)(2 * count) * sizeof *room);
    b->first = room;
    b->second = b->first + count;
    void **coefficients[] = {&b->mean, &b->scale, &b->slope, &b->shift};
    for (int i = 0; i < 4; i++) *coefficients[i] = b->second + count + i * b->channels;
    return LS_OK;
}

static ls_matrix part(const batch *b, const ls_block *block, int operand, int64_t row, int64_t column)
{
    ls_matrix m = block->at[operand];
    if (m.data) m.data = (char *)m.data + (row * m.pitch + column) * (int64_t)ls_dtype_size(b->dtype);
    return m;
}

/* The bits of a mask starting at a row and a column (a multiple of 8). */
static ls_matrix mask_part(const ls_block *block, int operand, int64_t row, int64_t column)
{
    ls_matrix m = block->at[operand];
    if (m.data) m.data = (char *)m.data + row * m.pitch + column / 8;
    return m;
}

static const void *coefficient(const batch *b, const void *vector, int64_t channel)
{
    return (const char *)vector + channel * (int64_t)ls_dtype_size(ls_compute_dtype(b->dtype));
}

/* ---- Two statistics per channel ---------------------------------------------------------------------------------- */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void gather_rows(void *arg, const ls_block *block)
{
    const batch *b = arg;
    double first[LS_NORM_COLUMNS], second[LS_NORM_COLUMNS];
    int64_t before = block->first - block->index * b->block_rows; /* rows of this block done before */
    tile t;
    for (t.row = 0; t.row < block->rows; t.row += t.rows) {
        t.rows = b->pixels ? smaller(block->rows - t.row, LS_NORM_ROWS) : 1;
        for (t.column = 0; t.column < b->length; t.column += t.columns) {
            t.columns = b->pixels ? smaller(b->length - t.column, LS_NORM_COLUMNS) : b->length;
            int64_t own = b->pixels ? block->index * b->channels + t.column : block->first + t.row;
            if (!b->pixels || before + t.row == 0) {
                b->gather(b, block, t, b->first + own, b->second + own);
            } else {
                b->gather(b, block, t, first, second);
                b->merge(b->first + own, b->second + own, before + t.row, first, second, t.rows, t.columns);
            }
        }
    }
}

/* Leaves the statistics of the whole batch in the first block. */
static ls_status gather(batch *b, const ls_rows *rows, int n_in, int n_out, ls_message *why)
{
    ls_status status = ls_rows_walk(rows, n_in, n_out, b->block_rows, gather_rows, b, why);
    int64_t per_block = b->pixels ? b->block_rows : b->length;
    for (int64_t i = 1; i < b->blocks; i++)
        b->merge(b->first, b->second, i * per_block, b->first + i * b->channels, b->second + i * b->channels,
                 smaller(per_block, b->elements - i * per_block), b->channels);
    return status;
}

/* Rows of a block with the same coefficients are written together: all pixels, or one plane. */
static void write_rows(void *arg, const ls_block *block)
{
    const batch *b = arg;
    int64_t rows = b->pixels ? block->rows : 1;
    for (int64_t row = 0; row < block->rows; row += rows)
        b->write(b, block, row, rows, b->pixels ? 0 : (block->first + row) % b->channels);
}

/* Write the results, the operand of `rows` after its inputs. */
static ls_status write(batch *b, const ls_rows *rows, int n_in, int n_out, ls_message *why)
{
    b->large = ls_rows_large(&rows[n_in], b->norm->stream_bytes);
    return ls_rows_walk(rows, n_in, n_out, 0, write_rows, b, why);
}

static bool may_stream(const batch *b, const ls_block *block, int result)
{
    return b->large && ls_block_may_stream(block, result, ls_dtype_size(b->dtype));
}

/* ---- Forward ----------------------------------------------------------------------------------------------------- */

/* Mean and sum of squared deviations. */
static void gather_moments(const batch *b, const ls_block *block, tile t, double *mean, double *m2)
{
    ls_matrix x = part(b, block, 0, t.row, t.column);
    if (b->pixels)
        b->reduce->columns[b->dtype][LS_SUMMARY_MOMENTS](b->dtype, x.data, t.rows, x.pitch, t.columns, mean, m2);
    else b->reduce->run[b->dtype][LS_SUMMARY_MOMENTS](b->dtype, x.data, t.columns, mean, m2);
}

static void write_y(const batch *b, const ls_block *block, int64_t row, int64_t rows, int64_t channel)
{
    b->norm->apply[b->dtype](&(ls_norm_apply){.dtype = b->dtype,
                                              .rows = rows,
                                              .n = b->length,
                                              .step = b->pixels,
                                              .x = part(b, block, 0, row, 0),
                                              .residual = part(b, block, 1, row, 0),
                                              .y = part(b, block, 2, row, 0),
                                              .mask = mask_part(block, 3, row, 0),
                                              .scale = coefficient(b, b->scale, channel),
                                              .shift = coefficient(b, b->shift, channel),
                                              .stream = may_stream(b, block, 2),
                                              .relu = b->relu});
}

ls_status ls_batch_moments(const ls_operand *x, const ls_operand *mean, const ls_operand *var, ls_message *why)
{
    batch b = batch_of(x);
    ls_rows rows = ls_rows_of(x, b.dims);
    b.gather = gather_moments;
    b.merge = ls_moments_merge;
    if (!b.channels) return LS_OK;
    ls_status status = alloc_statistics(&b, why);
    if (status == LS_OK) status = gather(&b, &rows, 1, 0, why);
    for (int64_t c = 0; status == LS_OK && c < b.channels; c++) {
        ls_channel_set(mean, c, b.first[c]);
        ls_channel_set(var, c, b.second[c] / (double)(b.elements ? b.elements : 1));
    }
    return status;
}

/* in: x [N,C] or [N,C,...], weight [C]?, bias [C]?, mean [C]?, var [C]?, residual (as x)?
 * out: y (as x), save_mean [C]?, save_rstd [C]?, mask [rows, bytes]? (u8), running_mean [C]?, running_var [C]?
 * attrs.norm.training: normalises by the statistics of x, saves them, and moves the running ones towards them (the
 * variance unbiased) by attrs.norm.momentum; if mean and var are given, they are those statistics (the variance
 * biased). Otherwise normalises by mean and var, and of the outputs only y and mask are written.
 * attrs.norm.activation: LS_ACT_RELU or LS_ACT_NONE, after the residual has been added. x, residual and y are of one
 * type, vectors of any floating type. mask is for the gradient: a bit per element, set where the input of ReLU was
 * positive, in rows of whole 64-bit words. If channels of x are adjacent in memory, or x is [N,C], a row is the
 * channels of a pixel, otherwise a plane of one channel. */
ls_status ls_cpu_batch_norm(const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0];
    ls_running running = {call->out[4], call->out[5], call->attrs.norm.momentum};
    batch b = batch_of(x);
    if (!b.channels) return LS_OK;
    bool training = call->attrs.norm.training, given = call->in[3];
    ls_dtype wide = ls_compute_dtype(x->dtype);
    ls_rows rows[4] = {ls_rows_of(x, b.dims), ls_rows_of(call->in[5], b.dims), ls_rows_of(call->out[0], b.dims),
                       ls_rows_of(call->out[3], 1u << 1)};
    b.relu = call->attrs.norm.activation == LS_ACT_RELU;
    b.gather = gather_moments;
    b.merge = ls_moments_merge;
    b.write = write_y;
    ls_status status = alloc_statistics(&b, why);
    if (status == LS_OK && !given) status = gather(&b, rows, 1, 0, why);
    if (status != LS_OK) return status;

    const double *mean = b.first, *m2 = b.second;
    for (int64_t c = 0; c < b.channels; c++) {
        double center = given ? ls_channel_get(call->in[3], c, 0) : mean[c];
        double var = given ? ls_channel_get(call->in[4], c, 1) : m2[c] / (double)(b.elements ? b.elements : 1);
        double rstd = 1 / sqrt(var + call->attrs.norm.epsilon), gain = rstd * ls_channel_get(call->in[1], c, 1);
        ls_put(wide, b.scale, c, gain);
        ls_put(wide, b.shift, c, ls_channel_get(call->in[2], c, 0) - center * gain);
        if (!training || !b.elements) continue;
        ls_channel_set(call->out[1], c, center);
        ls_channel_set(call->out[2], c, rstd);
        ls_running_move(&running, c, center, given ? var * (double)b.elements : m2[c], b.elements);
    }
    return write(&b, rows, 2, 2, why);
}

/* ---- Backward ---------------------------------------------------------------------------------------------------- */

/* Totals of d and of d (x - mean), d = dy where the ReLU let x through. */
static void gather_totals(const batch *b, const ls_block *block, tile t, double *sum, double *dot)
{
    int64_t channel = b->pixels ? t.column : (block->first + t.row) % b->channels;
    b->norm->totals[b->dtype](&(ls_norm_totals){.dtype = b->dtype,
                                                .rows = t.rows,
                                                .n = t.columns,
                                                .step = b->pixels,
                                                .dy = part(b, block, 0, t.row, t.column),
                                                .x = part(b, block, 1, t.row, t.column),
                                                .mask = mask_part(block, 2, t.row, t.column),
                                                .masked = part(b, block, 3, t.row, t.column),
                                                .mean = coefficient(b, b->mean, channel),
                                                .sum = sum,
                                                .dot = dot});
}

static void merge_totals(double *restrict sum, double *restrict dot, int64_t seen, const double *restrict more_sum,
                         const double *restrict more_dot, int64_t n, int64_t channels)
{
    (void)seen, (void)n;
    for (int64_t c = 0; c < channels; c++) {
        sum[c] += more_sum[c];
        dot[c] += more_dot[c];
    }
}

static void write_dx(const batch *b, const ls_block *block, int64_t row, int64_t rows, int64_t channel)
{
    b->norm->slope[b->dtype](&(ls_norm_slope){.dtype = b->dtype,
                                              .rows = rows,
                                              .n = b->length,
                                              .step = b->pixels,
                                              .dy = part(b, block, 0, row, 0),
                                              .x = part(b, block, 1, row, 0),
                                              .mask = mask_part(block, 2, row, 0),
                                              .dx = part(b, block, 3, row, 0),
                                              .scale = coefficient(b, b->scale, channel),
                                              .slope = coefficient(b, b->slope, channel),
                                              .stream = may_stream(b, block, 3),
                                              .shift = coefficient(b, b->shift, channel)});
}

/* in: dy, x [N,C] or [N,C,...], mask [rows, bytes]? (given when ReLU was fused), mean [C], rstd [C], weight [C]?
 * out: dx?, dweight [C]?, dbias [C]?, dresidual (as x)? (absent: not wanted)
 * attrs.norm.training: mean and rstd are those that forward saved. Otherwise mean and *variance* are the running ones,
 * and constants. attrs.norm.accumulate: dweight, dbias. dresidual = dy where the mask is set, and may be in the place
 * of dy, element by element. dy, x, dx and dresidual are of one type, vectors of any floating type. */
ls_status ls_cpu_batch_norm_grad(const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[1], *dx = call->out[0], *dweight = call->out[1], *dbias = call->out[2];
    batch b = batch_of(x);
    if (!b.channels) return LS_OK;
    bool training = call->attrs.norm.training;
    ls_dtype wide = ls_compute_dtype(x->dtype);
    ls_rows rows[4] = {ls_rows_of(call->in[0], b.dims), ls_rows_of(x, b.dims), ls_rows_of(call->in[2], 1u << 1),
                       ls_rows_of(call->out[3], b.dims)};
    b.gather = gather_totals;
    b.merge = merge_totals;
    b.write = write_dx;
    ls_status status = alloc_statistics(&b, why);
    if (status != LS_OK) return status;
    for (int64_t c = 0; c < b.channels; c++) ls_put(wide, b.mean, c, ls_channel_get(call->in[3], c, 0));
    if ((training && dx) || dweight || dbias || call->out[3]) status = gather(&b, rows, 3, 1, why);
    if (status != LS_OK) return status;

    const double *sum = b.first, *dot = b.second;
    for (int64_t c = 0; c < b.channels; c++) {
        double rstd = training ? ls_channel_get(call->in[4], c, 1)
                               : 1 / sqrt(ls_channel_get(call->in[4], c, 1) + call->attrs.norm.epsilon);
        double gain = rstd * ls_channel_get(call->in[5], c, 1), slope = 0, shift = 0;
        if (training && b.elements) {
            slope = -gain * rstd * rstd * dot[c] / (double)b.elements;
            shift = -gain * sum[c] / (double)b.elements - slope * ls_channel_get(call->in[3], c, 0);
        }
        ls_put(wide, b.scale, c, gain);
        ls_put(wide, b.slope, c, slope);
        ls_put(wide, b.shift, c, shift);
        ls_channel_set(dweight, c,
                       dot[c] * rstd + (call->attrs.norm.accumulate & 2 ? ls_channel_get(dweight, c, 0) : 0));
        ls_channel_set(dbias, c, sum[c] + (call->attrs.norm.accumulate & 4 ? ls_channel_get(dbias, c, 0) : 0));
    }
    if (!dx) return LS_OK;
    if (call->out[3]) { /* already masked */
        rows[0] = rows[3];
        rows[2] = ls_rows_of(NULL, 0);
    }
    if (!training) rows[1] = ls_rows_of(NULL, 0);
    rows[3] = ls_rows_of(dx, b.dims);
    return write(&b, rows, 3, 1, why);
}
