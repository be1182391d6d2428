/* linear_grad.c - all gradients of a linear layer in one call: through the activation, then two products and a sum.
 *
 *     d  [M,N] = dy activation'(saved)      dx [M,K] = d w      dw [N,K] = d^T x      db [N] = sum of the rows of d
 *
 * With an activation, d is computed a few rows at a time, which are summed for db while they are in cache; so is the
 * activation's result, if it is wanted again. */
#include "base/parallel.h"
#include "device/cpu/cpu.h"
#include "device/cpu/gemm.h"
#include "device/cpu/rows.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"

#include <string.h>

/* ---- Through the activation -------------------------------------------------------------------------------------- */

#define PART_ROWS 128      /* rows summed together; constant, so that results do not depend on the number of workers */
#define CACHED_BYTES 65536 /* of rows of d that are summed right after they are computed */

typedef struct through {
    const ls_operand *dy, *saved, *d, *y; /* y: NULL: not wanted */
    ls_map_fn *slope, *activate;
    ls_summary_columns_fn *fold;
    double *sums; /* [parts, N]; NULL: not wanted */
    int64_t parts, rows, n;
} through;

static void *row_of(const ls_operand *x, int64_t row)
{
    return (char *)x->data + row * x->stride[0] * (int64_t)ls_dtype_size(x->dtype);
}

/* Add the column sums of rows [first, first + rows) of d to `sums`. */
static void add_rows(const through *t, int64_t first, int64_t rows, double *sums)
{
    double more[LS_SUMMARY_COLUMNS], unused[LS_SUMMARY_COLUMNS];
    for (int64_t c = 0, n; c < t->n; c += n) {
        n = smaller(t->n - c, LS_SUMMARY_COLUMNS);
        const char *block = (const char *)row_of(t->d, first) + c * (int64_t)ls_dtype_size(t->d->dtype);
        t->fold(t->d->dtype, block, rows, t->d->stride[0], n, more, unused);
        for (int64_t i = 0; i < n; i++) sums[c + i] += more[i];
    }
}

static void make_parts(void *arg, int64_t begin, int64_t end)
{
    const through *t = arg;
    int64_t cached = CACHED_BYTES / (t->n * (int64_t)ls_dtype_size(t->d->dtype));
    int64_t at_once = cached < 1 ? 1 : smaller(cached, PART_ROWS);
    for (int64_t part = begin; part < end; part++) {
        int64_t last = smaller((part + 1) * PART_ROWS, t->rows);
        double *sums = t->sums ? t->sums + part * t->n : NULL;
        if (sums) memset(sums, 0, (size_t)t->n * sizeof *sums);
        for (int64_t row = part * PART_ROWS, rows; row < last; row += rows) {
            rows = smaller(last - row, at_once);
            for (int64_t r = row; r < row + rows; r++) {
                t->slope(t->n, (void *[]){row_of(t->d, r), row_of(t->dy, r), row_of(t->saved, r)}, NULL);
                if (t->y) t->activate(t->n, (void *[]){row_of(t->y, r), row_of(t->saved, r)}, NULL);
            }
            if (sums) add_rows(t, row, rows, sums);
        }
    }
}

/* Add the sums of all parts to those of the first, in order. */
static void merge_parts(void *arg, int64_t begin, int64_t end)
{
    const through *t = arg;
    for (int64_t part = 1; part < t->parts; part++)
        for (int64_t i = begin; i < end; i++) t->sums[i] += t->sums[part * t->n + i];
}

static ls_map slope_of(ls_activation activation)
{
    switch (activation) {
    case LS_ACT_GELU: return LS_MAP_gelu_grad;
    case LS_ACT_GELU_TANH: return LS_MAP_gelu_tanh_grad;
    case LS_ACT_SILU: return LS_MAP_silu_grad;
    case LS_ACT_TANH: return LS_MAP_tanh_grad;
    case LS_ACT_SIGMOID: return LS_MAP_sigmoid_grad;
    default: return LS_MAP_relu_grad;
    }
}

/* The activation itself, where its slope is computed from its input; NULL for others. */
static ls_map_fn *activation_of_input(ls_activation activation, ls_dtype dtype)
{
    const ls_elementwise *kernels = ls_elementwise_kernels();
    switch (activation) {
    case LS_ACT_GELU: return kernels->map[LS_MAP_gelu][dtype];
    case LS_ACT_GELU_TANH: return kernels->map[LS_MAP_gelu_tanh][dtype];
    case LS_ACT_SILU: return kernels->map[LS_MAP_silu][dtype];
    default: return NULL;
    }
}

static ls_status through_activation(const ls_call *call, const ls_operand *d, ls_message *why)
{
    const ls_operand *dy = call->in[0], *db = call->out[2];
    ls_activation activation = call->attrs.product.activation;
    through t = {.dy = dy,
                 .saved = call->in[3],
                 .d = d,
                 .y = call->n_out > 4 ? call->out[4] : NULL,
                 .slope = ls_elementwise_kernels()->map[slope_of(activation)][dy->dtype],
                 .activate = activation_of_input(activation, dy->dtype),
                 .fold = ls_reduce_table()->columns[dy->dtype][LS_SUMMARY_SUM],
                 .parts = ceil_div(dy->dim[0], PART_ROWS),
                 .rows = dy->dim[0],
                 .n = dy->dim[1]};
    if (t.y && !t.activate)
        return ls_explain(why, LS_ERR_UNSUPPORTED, "activation %d saved its result, which cannot be made again",
                          (int)activation);
    if (db) {
        size_t bytes = (size_t)((t.parts + 1) * t.n) * sizeof *t.sums;
        t.sums = ls_scratch((ls_worker){0, 1}, 1, bytes);
        if (!t.sums) return ls_explain(why, LS_ERR_MEMORY, "no scratch memory for the gradient of the bias");
        if (!t.parts) memset(t.sums, 0, bytes);
    }
    if (t.n) ls_parallel_for(t.parts, 1 + 4096 / (PART_ROWS * t.n), make_parts, &t);
    if (db && t.parts > 1) ls_parallel_for(t.n, 4096, merge_parts, &t);
    ls_plain_total(db, t.sums, call->attrs.product.accumulate & 4);
    return LS_OK;
}

/* ---- The operator ------------------------------------------------------------------------------------------------ */

static ls_status multiply(const ls_call *call, const ls_operand *a, const ls_operand *b, int output, ls_message *why)
{
    ls_call product = {.op = LS_OP_matmul, .n_in = 2, .n_out = 1, .in = {a, b}, .out = {call->out[output]}};
    product.attrs.product.compute = call->attrs.product.compute;
    product.attrs.product.accumulate = call->attrs.product.accumulate >> output & 1;
    return ls_cpu_matmul(&product, why);
}

static ls_operand transposed(const ls_operand *x)
{
    ls_operand t = *x;
    t.dim[0] = x->dim[1], t.dim[1] = x->dim[0];
    t.stride[0] = x->stride[1], t.stride[1] = x->stride[0];
    return t;
}

static ls_status sum_rows(const ls_call *call, const ls_operand *d, ls_message *why)
{
    ls_operand db = *call->out[2]; /* [N] as [1,N] */
    db.ndim = 2;
    db.dim[1] = db.dim[0], db.dim[0] = 1;
    db.stride[1] = db.stride[0];
    ls_call sum = {.op = LS_OP_sum, .n_in = 1, .n_out = 1, .in = {d}, .out = {&db}};
    sum.attrs.reduce.mask = 1;
    sum.attrs.reduce.accumulate = call->attrs.product.accumulate >> 2 & 1;
    return ls_cpu_sum(&sum, why);
}

/* in: dy [M,N], x [M,K]?, w [N,K]?, saved [M,N]?
 * out: dx [M,K]?, dw [N,K]?, db [N]? (absent: not wanted), d [M,N]?, y [M,N]?
 * Gradients of linear with its activation: dx needs w, dw needs x. saved and d are given with an activation: saved is
 * what its slope is computed from, y for ReLU, tanh and sigmoid, else pre; d is memory for the gradient before the
 * activation, private to the device. y is wanted only where saved is pre: the result of the activation, made again.
 * Rows of dy, x, saved, d and y are contiguous; dy, saved, d and y are of one type.
 * attrs.product: compute, activation, accumulate: dx, dw, db. */
ls_status ls_cpu_linear_grad(const ls_call *call, ls_message *why)
{
    const ls_operand *d = call->in[0], *x = call->in[1], *w = call->in[2];
    ls_status status = LS_OK;
    if (call->attrs.product.activation != LS_ACT_NONE) {
        d = call->out[3];
        status = through_activation(call, d, why);
    } else if (call->out[2]) {
        status = sum_rows(call, d, why);
    }
    if (status == LS_OK && call->out[0]) status = multiply(call, d, w, 0, why);
    if (status != LS_OK || !call->out[1]) return status;
    ls_operand across = transposed(d);
    return multiply(call, &across, x, 1, why);
}
