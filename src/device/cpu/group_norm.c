/* group_norm.c - group normalisation and its gradient. A row is all channels and pixels of one group of one sample. */
#include "device/cpu/cpu.h"
#include "device/cpu/rows.h"
#include "kernels/norm.h"
#include "kernels/reduce.h"

#include <math.h>
#include <string.h>

typedef struct grouping {
    ls_dtype dtype, wide;
    int64_t samples, channels, groups, per_group, pixels; /* channels per group, elements per channel and sample */
} grouping;

static grouping grouping_of(const ls_operand *x, int64_t groups)
{
    grouping g = {.dtype = x->dtype,
                  .wide = ls_compute_dtype(x->dtype),
                  .samples = x->dim[0],
                  .channels = x->dim[1],
                  .groups = groups,
                  .per_group = x->dim[1] / groups,
                  .pixels = 1};
    for (int32_t d = 2; d < x->ndim; d++) g.pixels *= x->dim[d];
    return g;
}

/* [N,C,...] seen as [N,G,C/G,...], rows over all but N and G. */
static ls_rows group_rows(const ls_operand *operand, const grouping *g)
{
    if (!operand) return ls_rows_of(NULL, 0);
    ls_operand split = *operand;
    split.ndim++;
    for (int32_t d = operand->ndim; d > 2; d--) {
        split.dim[d] = operand->dim[d - 1];
        split.stride[d] = operand->stride[d - 1];
    }
    split.dim[1] = g->groups;
    split.stride[1] = operand->stride[1] * g->per_group;
    split.dim[2] = g->per_group;
    split.stride[2] = operand->stride[1];
    return ls_rows_of(&split, ls_dims(2, split.ndim));
}

/* The pixels of channel i of a row. */
static ls_matrix channel_of(const grouping *g, ls_matrix rows, int64_t row, int64_t i)
{
    if (rows.data)
        rows.data = (char *)rows.data + (row * rows.pitch + i * g->pixels) * (int64_t)ls_dtype_size(g->dtype);
    return rows;
}

static double element_or(ls_dtype dtype, const void *vector, int64_t i, double absent)
{
    return vector ? ls_get(dtype, vector, i) : absent;
}

/* A value of the compute type, as kernels take it. */
typedef union number {
    float f32;
    double f64;
} number;

static number as_number(ls_dtype wide, double value)
{
    number n = {.f64 = 0};
    ls_put(wide, &n, 0, value);
    return n;
}

/* ---- Forward -------------------------------------------------------------------------------------------------- */

typedef struct forward {
    grouping g;
    const void *weight, *bias; /* [C] of the compute type */
    void *mean, *rstd;         /* [N,G] likewise */
    double epsilon;
    ls_summary_run_fn *moments;
    void (*apply)(const ls_norm_apply *args);
} forward;

static void forward_rows(void *arg, const ls_block *block)
{
    const forward *f = arg;
    const grouping *g = &f->g;
    int64_t n = g->per_group * g->pixels;
    for (int64_t r = 0; r < block->rows; r++) {
        int64_t row = block->first + r, first = row % g->groups * g->per_group;
        double mean, m2;
        f->moments(g->dtype, channel_of(g, block->at[0], r, 0).data, n, &mean, &m2);
        double rstd = 1 / sqrt(m2 / (double)n + f->epsilon);
        if (f->mean) ls_put(g->wide, f->mean, row, mean);
        if (f->rstd) ls_put(g->wide, f->rstd, row, rstd);
        for (int64_t i = 0; i < g->per_group; i++) {
            double gain = rstd * element_or(g->wide, f->weight, first + i, 1);
            number scale = as_number(g->wide, gain);
            number shift = as_number(g->wide, element_or(g->wide, f->bias, first + i, 0) - mean * gain);
            f->apply(&(ls_norm_apply){.dtype = g->dtype,
                                      .rows = 1,
                                      .n = g->pixels,
                                      .scale = &scale,
                                      .shift = &shift,
                                      .x = channel_of(g, block->at[0], r, i),
                                      .y = channel_of(g, block->at[1], r, i)});
        }
    }
}

/* in: x [N,C,...], weight [C]?, bias [C]?  out: y (as x), mean [N,G]?, rstd [N,G]?
 * G = attrs.norm.groups divides C. y has the type of x, weight and bias any floating type; mean and rstd, plain arrays,
 * are f32 (f64 for f64). */
ls_status ls_cpu_group_norm(const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0], *mean = call->out[1], *rstd = call->out[2];
    forward f = {.g = grouping_of(x, call->attrs.norm.groups),
                 .epsilon = call->attrs.norm.epsilon,
                 .mean = mean ? mean->data : NULL,
                 .rstd = rstd ? rstd->data : NULL,
                 .moments = ls_reduce_table()->run[x->dtype][LS_SUMMARY_MOMENTS],
                 .apply = ls_norm_table()->apply[x->dtype]};
    ls_rows rows[2] = {group_rows(x, &f.g), group_rows(call->out[0], &f.g)};
    if (!rows[0].count || !rows[0].length) return LS_OK;
    double *buffer = ls_scratch((ls_worker){0, 1}, 1, (size_t)(2 * f.g.channels) * sizeof *buffer);
    if (!buffer) return ls_explain(why, LS_ERR_MEMORY, "no scratch memory for weight and bias");
    f.weight = ls_plain(call->in[1], f.g.wide, buffer);
    f.bias = ls_plain(call->in[2], f.g.wide, buffer + f.g.channels);
    return ls_rows_walk(rows, 1, 1, 0, forward_rows, &f, why);
}

/* ---- Backward ------------------------------------------------------------------------------------------------- */

typedef struct backward {
    grouping g;
    const void *mean, *rstd, *weight; /* [N,G], [N,G], [C] of the compute type */
    double *sum, *dot;                /* [N,C]: totals of dy and of dy (x - mean) */
    bool want_dx;
    void (*totals)(const ls_norm_totals *args);
    void (*slope)(const ls_norm_slope *args);
} backward;

static void backward_rows(void *arg, const ls_block *block)
{
    const backward *b = arg;
    const grouping *g = &b->g;
    double n = (double)(g->per_group * g->pixels);
    for (int64_t r = 0; r < block->rows; r++) {
        int64_t row = block->first + r, first = row % g->groups * g->per_group;
        int64_t own = row / g->groups * g->channels + first; /* in sum and dot */
        double mean = ls_get(g->wide, b->mean, row), rstd = ls_get(g->wide, b->rstd, row), sum = 0, dot = 0;
        number center = as_number(g->wide, mean);
        for (int64_t i = 0; i < g->per_group; i++) {
            b->totals(&(ls_norm_totals){.dtype = g->dtype,
                                        .rows = 1,
                                        .n = g->pixels,
                                        .mean = &center,
                                        .dy = channel_of(g, block->at[0], r, i),
                                        .x = channel_of(g, block->at[1], r, i),
                                        .sum = b->sum + own + i,
                                        .dot = b->dot + own + i});
            double weight = element_or(g->wide, b->weight, first + i, 1);
            sum += weight * b->sum[own + i];
            dot += weight * b->dot[own + i];
        }
        double along = -rstd * rstd * rstd * dot / n, shift = -rstd * sum / n - along * mean;
        number along_x = as_number(g->wide, along), constant = as_number(g->wide, shift);
        for (int64_t i = 0; b->want_dx && i < g->per_group; i++) {
            number scale = as_number(g->wide, rstd * element_or(g->wide, b->weight, first + i, 1));
            b->slope(&(ls_norm_slope){.dtype = g->dtype,
                                      .rows = 1,
                                      .n = g->pixels,
                                      .scale = &scale,
                                      .slope = &along_x,
                                      .shift = &constant,
                                      .dy = channel_of(g, block->at[0], r, i),
                                      .x = channel_of(g, block->at[1], r, i),
                                      .dx = channel_of(g, block->at[2], r, i)});
        }
    }
}

/* in: dy, x [N,C,...], mean [N,G], rstd [N,G], weight [C]?  out: dx?, dweight [C]?, dbias [C]? (absent: not wanted)
 * attrs.norm.accumulate: dweight, dbias. Types and plain arrays as in group_norm. */
ls_status ls_cpu_group_norm_grad(const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[1], *dx = call->out[0];
    backward b = {.g = grouping_of(x, call->attrs.norm.groups),
                  .mean = call->in[2]->data,
                  .rstd = call->in[3]->data,
                  .want_dx = dx != NULL,
                  .totals = ls_norm_table()->totals[x->dtype],
                  .slope = ls_norm_table()->slope[x->dtype]};
    const grouping *g = &b.g;
    int64_t planes = g->samples * g->channels;
    b.sum = ls_scratch((ls_worker){0, 1}, 1, (size_t)(2 * planes + 3 * g->channels) * sizeof *b.sum);
    if (!b.sum) return ls_explain(why, LS_ERR_MEMORY, "no scratch memory for sums");
    b.dot = b.sum + planes;
    double *dweight = b.dot + planes, *dbias = dweight + g->channels;
    b.weight = ls_plain(call->in[4], g->wide, dbias + g->channels);
    ls_rows rows[3] = {group_rows(call->in[0], g), group_rows(x, g), group_rows(dx, g)};
    if (rows[0].length) {
        ls_status status = ls_rows_walk(rows, 2, 1, 0, backward_rows, &b, why);
        if (status != LS_OK) return status;
    } else {
        memset(b.sum, 0, (size_t)(2 * planes) * sizeof *b.sum);
    }
    memset(dweight, 0, (size_t)(2 * g->channels) * sizeof *dweight);
    for (int64_t i = 0; i < planes; i++) {
        int64_t channel = i % g->channels;
        double rstd = ls_get(g->wide, b.rstd, i / g->per_group);
        dweight[channel] += b.dot[i] * rstd;
        dbias[channel] += b.sum[i];
    }
    ls_plain_total(call->out[1], dweight, call->attrs.norm.accumulate & 2);
    ls_plain_total(call->out[2], dbias, call->attrs.norm.accumulate & 4);
    return LS_OK;
}
