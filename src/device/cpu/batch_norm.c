/* batch_norm.c - batch normalisation, optionally + residual and ReLU, and its gradient.
 *
 * Two ways through memory. Where channels are adjacent (channels last, or [N,C]) rows are pixels and coefficients run
 * along the row; elsewhere rows are planes of one channel each. Sums over the batch are taken per block of rows and
 * merged in order. */
#include "device/cpu/cpu.h"
#include "device/cpu/rows.h"
#include "kernels/norm.h"
#include "kernels/reduce.h"

#include <math.h>
#include <string.h>

typedef struct layout {
    bool pixels;                              /* rows are pixels of all channels, else planes of one channel */
    uint32_t dims;                            /* the dimensions that make up a row */
    int64_t channels, rows, length, elements; /* elements per channel */
    int64_t block_rows, blocks; /* partial sums: one set of all channels per block of pixels, or one number per plane */
} layout;

static layout layout_of(const ls_operand *x)
{
    layout l = {.pixels = x->ndim == 2 || (x->stride[1] == 1 && x->dim[1] > 1), .channels = x->dim[1]};
    l.dims = l.pixels ? 1u << 1 : ls_dims(2, x->ndim);
    l.elements = l.channels ? ls_operand_numel(x) / l.channels : 0;
    l.length = l.pixels ? l.channels : l.elements / (x->dim[0] ? x->dim[0] : 1);
    l.rows = l.pixels ? l.elements : x->dim[0] * l.channels;
    l.block_rows = 0;
    l.blocks = x->dim[0];
    if (l.pixels) {
        l.block_rows = (l.rows + 127) / 128;
        if (l.block_rows < LS_FOLD_ROWS) l.block_rows = LS_FOLD_ROWS;
        l.blocks = (l.rows + l.block_rows - 1) / l.block_rows;
    }
    return l;
}

static ls_matrix part(ls_dtype dtype, ls_matrix m, int64_t row, int64_t column)
{
    if (m.data) m.data = (char *)m.data + (row * m.pitch + column) * (int64_t)ls_dtype_size(dtype);
    return m;
}

static const void *at(ls_dtype dtype, const void *vector, int64_t i)
{
    return vector ? (const char *)vector + i * (int64_t)ls_dtype_size(ls_compute_dtype(dtype)) : NULL;
}

/* ---- Statistics ----------------------------------------------------------------------------------------------- */

typedef struct moments {
    ls_dtype dtype;
    const layout *layout;
    const ls_reduce_kernels *kernels;
    double *mean, *m2; /* [blocks, C] */
} moments;

/* Chan's rule: (mean, m2) of `seen` elements each, joined by those of n more. */
static void merge_moments(double *restrict mean, double *restrict m2, int64_t seen, const double *restrict more_mean,
                          const double *restrict more_m2, int64_t n, int64_t channels)
{
    double share = seen + n ? (double)n / (double)(seen + n) : 0, weight = share * (double)seen;
    for (int64_t c = 0; c < channels; c++) {
        double delta = more_mean[c] - mean[c];
        mean[c] += delta * share;
        m2[c] += more_m2[c] + delta * delta * weight;
    }
}

static void moments_of_rows(void *arg, const ls_block *block)
{
    const moments *m = arg;
    const layout *l = m->layout;
    if (!l->pixels) {
        for (int64_t r = 0; r < block->rows; r++) {
            int64_t row = block->first + r;
            m->kernels->run[m->dtype][LS_FOLD_MOMENTS](m->dtype, part(m->dtype, block->at[0], r, 0).data, l->length,
                                                       m->mean + row, m->m2 + row);
        }
        return;
    }
    double mean[LS_FOLD_COLUMNS], m2[LS_FOLD_COLUMNS];
    int64_t before = block->first - block->index * l->block_rows;
    for (int64_t c = 0, n; c < l->channels; c += n) {
        n = l->channels - c < LS_FOLD_COLUMNS ? l->channels - c : LS_FOLD_COLUMNS;
        double *own_mean = m->mean + block->index * l->channels + c, *own_m2 = m->m2 + block->index * l->channels + c;
        for (int64_t r = 0, rows; r < block->rows; r += rows) {
            rows = block->rows - r < LS_FOLD_ROWS ? block->rows - r : LS_FOLD_ROWS;
            bool first = before + r == 0;
            m->kernels->columns[m->dtype][LS_FOLD_MOMENTS](m->dtype, part(m->dtype, block->at[0], r, c).data, rows,
                                                           block->at[0].pitch, n, first ? own_mean : mean,
                                                           first ? own_m2 : m2);
            if (!first) merge_moments(own_mean, own_m2, before + r, mean, m2, rows, n);
        }
    }
}

/* Mean and sum of squared deviations per channel, left in the first block of mean and m2. */
static ls_status batch_moments(const ls_operand *x, const layout *l, double *mean, double *m2, ls_message *why)
{
    moments m = {x->dtype, l, ls_reduce_table(), mean, m2};
    ls_rows rows[1] = {ls_rows_of(x, l->dims)};
    ls_status status = ls_rows_walk(rows, 1, 0, l->block_rows, moments_of_rows, &m, why);
    if (status != LS_OK) return status;
    int64_t per_block = l->pixels ? l->block_rows : l->length;
    for (int64_t b = 1; b < l->blocks; b++) {
        int64_t seen = b * per_block, n = l->elements - seen < per_block ? l->elements - seen : per_block;
        merge_moments(mean, m2, seen, mean + b * l->channels, m2 + b * l->channels, n, l->channels);
    }
    return LS_OK;
}

/* ---- Forward -------------------------------------------------------------------------------------------------- */

typedef struct apply {
    ls_norm_apply args;
    const layout *layout;
    void (*kernel)(const ls_norm_apply *args);
} apply;

static void apply_rows(void *arg, const ls_block *block)
{
    const apply *a = arg;
    ls_norm_apply args = a->args;
    args.rows = a->layout->pixels ? block->rows : 1;
    for (int64_t r = 0; r < block->rows; r += args.rows) {
        int64_t channel = a->layout->pixels ? 0 : (block->first + r) % a->layout->channels;
        args.x = part(args.dtype, block->at[0], r, 0);
        args.residual = part(args.dtype, block->at[1], r, 0);
        args.y = part(args.dtype, block->at[2], r, 0);
        args.scale = at(args.dtype, a->args.scale, channel);
        args.shift = at(args.dtype, a->args.shift, channel);
        a->kernel(&args);
    }
}

/* Element i of an optional vector. */
static double element(const ls_operand *vector, int64_t i, double absent)
{
    return vector ? ls_get(vector->dtype, vector->data, i * vector->stride[0]) : absent;
}

static void set_element(const ls_operand *vector, int64_t i, double value)
{
    if (vector) ls_put(vector->dtype, vector->data, i * vector->stride[0], value);
}

/* in: x [N,C] or [N,C,...], weight [C]?, bias [C]?, running_mean [C]?, running_var [C]?, residual (as x)?
 * out: y (as x), save_mean [C]?, save_rstd [C]?
 * attrs.norm.training: normalises by the statistics of x, saves them, and moves the running ones towards them (the
 * variance unbiased) by attrs.norm.momentum. Otherwise by the running ones, which then must be there, and nothing is
 * saved. attrs.norm.activation: LS_ACT_RELU or LS_ACT_NONE, after the residual has been added. x, residual and y are of
 * one type, vectors of any floating type. */
ls_status ls_cpu_batch_norm(const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0], *running_mean = call->in[3], *running_var = call->in[4];
    layout l = layout_of(x);
    if (!l.channels) return LS_OK;
    bool training = call->attrs.norm.training;
    ls_dtype wide = ls_compute_dtype(x->dtype);
    int64_t moments_count = (training && l.blocks ? l.blocks : 1) * l.channels;
    char *scratch = ls_scratch((ls_worker){0, 1}, 1, (size_t)(2 * moments_count + 2 * l.channels) * sizeof(double));
    if (!scratch) return ls_cpu_fail(why, LS_ERR_MEMORY, "no scratch memory for statistics");
    double *mean = (double *)scratch, *m2 = mean + moments_count;
    void *scale = m2 + moments_count, *shift = (double *)scale + l.channels;

    if (training) {
        memset(mean, 0, (size_t)l.channels * sizeof *mean);
        memset(m2, 0, (size_t)l.channels * sizeof *m2);
        ls_status status = batch_moments(x, &l, mean, m2, why);
        if (status != LS_OK) return status;
    }
    for (int64_t c = 0; c < l.channels; c++) {
        double center = training ? mean[c] : element(running_mean, c, 0);
        double var = training ? m2[c] / (double)(l.elements ? l.elements : 1) : element(running_var, c, 1);
        double rstd = 1 / sqrt(var + call->attrs.norm.epsilon), gain = rstd * element(call->in[1], c, 1);
        ls_put(wide, scale, c, gain);
        ls_put(wide, shift, c, element(call->in[2], c, 0) - center * gain);
        if (!training || !l.elements) continue;
        set_element(call->out[1], c, center);
        set_element(call->out[2], c, rstd);
        double unbiased = m2[c] / (double)(l.elements > 1 ? l.elements - 1 : 1), momentum = call->attrs.norm.momentum;
        set_element(running_mean, c, (1 - momentum) * element(running_mean, c, 0) + momentum * center);
        set_element(running_var, c, (1 - momentum) * element(running_var, c, 0) + momentum * unbiased);
    }
    ls_rows rows[3] = {ls_rows_of(x, l.dims), ls_rows_of(call->in[5], l.dims), ls_rows_of(call->out[0], l.dims)};
    apply a = {{.dtype = x->dtype,
                .n = l.length,
                .step = l.pixels,
                .scale = scale,
                .shift = shift,
                .relu = call->attrs.norm.activation == LS_ACT_RELU},
               &l,
               ls_norm_table()->apply[x->dtype]};
    return ls_rows_walk(rows, 2, 1, 0, apply_rows, &a, why);
}

/* ---- Backward ------------------------------------------------------------------------------------------------- */

typedef struct totals {
    ls_norm_totals args;
    const layout *layout;
    void (*kernel)(const ls_norm_totals *args);
    double *sum, *dot; /* [blocks, C] */
} totals;

static void totals_of_rows(void *arg, const ls_block *block)
{
    const totals *t = arg;
    const layout *l = t->layout;
    ls_norm_totals args = t->args;
    double sum[LS_NORM_COLUMNS], dot[LS_NORM_COLUMNS];
    int64_t rows_at_once = l->pixels ? LS_NORM_ROWS : 1, columns_at_once = l->pixels ? LS_NORM_COLUMNS : l->length;
    for (int64_t r = 0; r < block->rows; r += args.rows) {
        args.rows = block->rows - r < rows_at_once ? block->rows - r : rows_at_once;
        for (int64_t i = 0; i < l->length; i += args.n) {
            args.n = l->length - i < columns_at_once ? l->length - i : columns_at_once;
            args.dy = part(args.dtype, block->at[0], r, i);
            args.x = part(args.dtype, block->at[1], r, i);
            args.y = part(args.dtype, block->at[2], r, i);
            args.masked = part(args.dtype, block->at[3], r, i);
            args.mean = at(args.dtype, t->args.mean, l->pixels ? i : (block->first + r) % l->channels);
            int64_t own = l->pixels ? block->index * l->channels + i : block->first + r;
            bool first = !l->pixels || (block->opens && r == 0);
            args.sum = first ? t->sum + own : sum;
            args.dot = first ? t->dot + own : dot;
            t->kernel(&args);
            for (int64_t c = 0; !first && c < args.n; c++) {
                t->sum[own + c] += sum[c];
                t->dot[own + c] += dot[c];
            }
        }
    }
}

/* Totals per channel, left in the first block of sum and dot. */
static ls_status batch_totals(totals *t, const ls_rows rows[4], ls_message *why)
{
    const layout *l = t->layout;
    ls_status status = ls_rows_walk(rows, 3, 1, l->block_rows, totals_of_rows, t, why);
    for (int64_t i = l->channels; i < l->blocks * l->channels; i++) {
        t->sum[i % l->channels] += t->sum[i];
        t->dot[i % l->channels] += t->dot[i];
    }
    return status;
}

typedef struct slope {
    ls_norm_slope args;
    const layout *layout;
    void (*kernel)(const ls_norm_slope *args);
} slope;

static void slope_rows(void *arg, const ls_block *block)
{
    const slope *s = arg;
    ls_norm_slope args = s->args;
    args.rows = s->layout->pixels ? block->rows : 1;
    for (int64_t r = 0; r < block->rows; r += args.rows) {
        int64_t channel = s->layout->pixels ? 0 : (block->first + r) % s->layout->channels;
        args.dy = part(args.dtype, block->at[0], r, 0);
        args.x = part(args.dtype, block->at[1], r, 0);
        args.y = part(args.dtype, block->at[2], r, 0);
        args.dx = part(args.dtype, block->at[3], r, 0);
        args.scale = at(args.dtype, s->args.scale, channel);
        args.slope = at(args.dtype, s->args.slope, channel);
        args.shift = at(args.dtype, s->args.shift, channel);
        s->kernel(&args);
    }
}

/* in: dy, x [N,C] or [N,C,...], y (as x; given when ReLU was fused)?, mean [C], rstd [C], weight [C]?
 * out: dx?, dweight [C]?, dbias [C]?, dresidual (as x)? (absent: not wanted)
 * attrs.norm.training: mean and rstd are those that forward saved. Otherwise mean and *variance* are the running ones,
 * and constants. dresidual = dy where y > 0. dy, x, y, dx and dresidual are of one type,
 * vectors of any floating type. */
ls_status ls_cpu_batch_norm_grad(const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[1], *dx = call->out[0], *dweight = call->out[1], *dbias = call->out[2];
    layout l = layout_of(x);
    if (!l.channels) return LS_OK;
    bool training = call->attrs.norm.training;
    ls_dtype wide = ls_compute_dtype(x->dtype);
    int64_t count = (l.blocks ? l.blocks : 1) * l.channels;
    double *sum = ls_scratch((ls_worker){0, 1}, 1, (size_t)(2 * count + 4 * l.channels) * sizeof(double));
    if (!sum) return ls_cpu_fail(why, LS_ERR_MEMORY, "no scratch memory for sums");
    double *dot = sum + count;
    void *mean = dot + count, *scale = (double *)mean + l.channels, *along = (double *)scale + l.channels;
    void *shift = (double *)along + l.channels;
    memset(sum, 0, (size_t)(2 * count) * sizeof *sum);

    ls_rows rows[4] = {ls_rows_of(call->in[0], l.dims), ls_rows_of(x, l.dims), ls_rows_of(call->in[2], l.dims),
                       ls_rows_of(call->out[3], l.dims)};
    if ((training && dx) || dweight || dbias || call->out[3]) {
        totals t = {{.dtype = x->dtype, .step = l.pixels, .mean = ls_plain(call->in[3], wide, mean)},
                    &l,
                    ls_norm_table()->totals[x->dtype],
                    sum,
                    dot};
        ls_status status = batch_totals(&t, rows, why);
        if (status != LS_OK) return status;
    }
    for (int64_t c = 0; c < l.channels; c++) {
        double rstd =
            training ? element(call->in[4], c, 1) : 1 / sqrt(element(call->in[4], c, 1) + call->attrs.norm.epsilon);
        double gain = rstd * element(call->in[5], c, 1), slope_c = 0, shift_c = 0;
        if (training && l.elements) {
            slope_c = -gain * rstd * rstd * dot[c] / (double)l.elements;
            shift_c = -gain * sum[c] / (double)l.elements - slope_c * element(call->in[3], c, 0);
        }
        ls_put(wide, scale, c, gain);
        ls_put(wide, along, c, slope_c);
        ls_put(wide, shift, c, shift_c);
        set_element(dweight, c, dot[c] * rstd);
        set_element(dbias, c, sum[c]);
    }
    if (!dx) return LS_OK;
    if (call->out[3]) { /* already masked */
        rows[0] = rows[3];
        rows[2] = ls_rows_of(NULL, 0);
    }
    if (!training) rows[1] = ls_rows_of(NULL, 0);
    rows[3] = ls_rows_of(dx, l.dims);
    slope s = {{.dtype = x->dtype, .n = l.length, .step = l.pixels, .scale = scale, .slope = along, .shift = shift},
               &l,
               ls_norm_table()->slope[x->dtype]};
    return ls_rows_walk(rows, 3, 1, 0, slope_rows, &s, why);
}
