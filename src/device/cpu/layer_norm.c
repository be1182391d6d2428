/* layer_norm.c - layer normalisation, optionally of x + residual, and its gradient. */
#include "device/cpu/cpu.h"
#include "device/cpu/rows.h"
#include "kernels/norm.h"

#include <string.h>

#define SUM_ROWS 64 /* rows whose gradients are summed in the compute type before they go into a double */

/* The trailing dimensions that hold n elements. */
static uint32_t trailing_dims(const ls_operand *x, int64_t n)
{
    int32_t first = x->ndim;
    int64_t elements = 1;
    while (first > 0 && (elements < n || x->dim[first - 1] == 1)) elements *= x->dim[--first];
    return ls_dims(first, x->ndim);
}

static void *advance(void *data, ls_dtype dtype, int64_t n)
{
    return data ? (char *)data + (size_t)n * ls_dtype_size(dtype) : NULL;
}

/* A vector of n elements of the compute type; where it is absent, a buffer full of `otherwise`. */
static const void *coefficients(const ls_operand *vector, ls_dtype wide, void *buffer, int64_t n, double otherwise)
{
    for (int64_t i = 0; !vector && i < n; i++) ls_put(wide, buffer, i, otherwise);
    return vector ? ls_plain(vector, wide, buffer) : buffer;
}

/* ---- Forward -------------------------------------------------------------------------------------------------- */

typedef struct forward {
    ls_layer_norm_rows args;
    void (*kernel)(const ls_layer_norm_rows *args);
} forward;

static void forward_rows(void *arg, const ls_block *block)
{
    const forward *f = arg;
    ls_layer_norm_rows args = f->args;
    ls_dtype wide = ls_compute_dtype(args.dtype);
    args.rows = block->rows;
    args.x = block->at[0];
    args.residual = block->at[1];
    args.y = block->at[2];
    args.sum = block->at[3];
    args.mean = advance(args.mean, wide, block->first);
    args.rstd = advance(args.rstd, wide, block->first);
    f->kernel(&args);
}

/* in: x [..., D], weight [D]?, bias [D]?, residual (as x)?
 * out: y (as x), mean [rows]?, rstd [rows]?, sum (as x)?
 * D stands for one or more trailing dimensions of attrs.norm.groups elements. x, residual, y and sum are of one type;
 * weight and bias of any floating type; mean and rstd, plain arrays, f32 (f64 for f64). sum = x + residual, as rounded
 * to its type and then normalised; absent without a residual. */
ls_status ls_cpu_layer_norm(const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0], *mean = call->out[1], *rstd = call->out[2];
    int64_t n = call->attrs.norm.groups;
    uint32_t dims = trailing_dims(x, n);
    ls_rows rows[4] = {ls_rows_of(x, dims), ls_rows_of(call->in[3], dims), ls_rows_of(call->out[0], dims),
                       ls_rows_of(call->out[3], dims)};
    if (!n || !rows[0].count) return LS_OK;
    ls_dtype wide = ls_compute_dtype(x->dtype);
    size_t vector = (size_t)n * ls_dtype_size(wide);
    char *buffer = ls_scratch((ls_worker){0, 1}, 1, 2 * vector);
    if (!buffer) return ls_cpu_fail(why, LS_ERR_MEMORY, "no scratch memory for weight and bias");
    forward f = {{.dtype = x->dtype, .n = n, .epsilon = call->attrs.norm.epsilon}, NULL};
    f.args.weight = coefficients(call->in[1], wide, buffer, n, 1);
    f.args.bias = coefficients(call->in[2], wide, buffer + vector, n, 0);
    f.args.mean = mean ? mean->data : NULL;
    f.args.rstd = rstd ? rstd->data : NULL;
    f.kernel = ls_norm_table()->layer_norm[x->dtype];
    return ls_rows_walk(rows, 2, 2, 0, forward_rows, &f, why);
}

/* ---- Backward ------------------------------------------------------------------------------------------------- */

typedef struct backward {
    ls_layer_norm_grad_rows args;
    void (*kernel)(const ls_layer_norm_grad_rows *args);
    bool sums;      /* dweight or dbias is wanted */
    size_t vector;  /* bytes of n elements of the compute type */
    char *partial;  /* per block: dweight and dbias of some rows [2, n], compute type, */
    double *totals; /* and of all its rows [2, n] */
    int64_t blocks;
} backward;

static void add_to_totals(double *totals, const void *partial, ls_dtype wide, int64_t n)
{
    const float *f32 = partial;
    const double *f64 = partial;
    if (wide == LS_F32)
        for (int64_t i = 0; i < n; i++) totals[i] += (double)f32[i];
    else
        for (int64_t i = 0; i < n; i++) totals[i] += f64[i];
}

static void backward_rows(void *arg, const ls_block *block)
{
    const backward *b = arg;
    ls_layer_norm_grad_rows args = b->args;
    ls_dtype wide = ls_compute_dtype(args.dtype);
    int64_t n = args.n;
    char *partial = b->sums ? b->partial + (size_t)block->index * 2 * b->vector : NULL;
    double *totals = b->sums ? b->totals + block->index * 2 * n : NULL;
    if (block->opens && b->sums) memset(totals, 0, (size_t)(2 * n) * sizeof *totals);
    args.dweight = partial;
    args.dbias = b->sums ? partial + b->vector : NULL;
    for (int64_t r = 0; r < block->rows; r += args.rows) {
        args.rows = block->rows - r;
        if (b->sums && args.rows > SUM_ROWS) args.rows = SUM_ROWS;
        ls_matrix *to[3] = {&args.dy, &args.x, &args.dx};
        for (int k = 0; k < 3; k++)
            *to[k] = (ls_matrix){advance(block->at[k].data, args.dtype, r * block->at[k].pitch), block->at[k].pitch};
        args.mean = advance((void *)(uintptr_t)b->args.mean, wide, block->first + r);
        args.rstd = advance((void *)(uintptr_t)b->args.rstd, wide, block->first + r);
        if (b->sums) memset(partial, 0, 2 * b->vector);
        b->kernel(&args);
        if (b->sums) add_to_totals(totals, partial, wide, 2 * n);
    }
}

/* Columns begin .. end-1 of the pair [dweight, dbias]: summed over blocks, in order. */
static void sum_blocks(void *arg, int64_t begin, int64_t end)
{
    backward *b = arg;
    double *sum = b->totals;
    for (int64_t block = 1; block < b->blocks; block++) {
        const double *more = b->totals + block * 2 * b->args.n;
        for (int64_t i = begin; i < end; i++) sum[i] += more[i];
    }
}

/* in: dy, x (or the sum of forward) [..., D], mean [rows], rstd [rows], weight [D]?
 * out: dx?, dweight [D]?, dbias [D]? (absent: not wanted)
 * attrs.norm.accumulate: dweight, dbias. D, types and plain arrays as in layer_norm. */
ls_status ls_cpu_layer_norm_grad(const ls_call *call, ls_message *why)
{
    const ls_operand *dy = call->in[0];
    int64_t n = call->attrs.norm.groups;
    uint32_t dims = trailing_dims(dy, n);
    ls_rows rows[3] = {ls_rows_of(dy, dims), ls_rows_of(call->in[1], dims), ls_rows_of(call->out[0], dims)};
    ls_dtype wide = ls_compute_dtype(dy->dtype);
    backward b = {.args = {.dtype = dy->dtype, .n = n, .mean = call->in[2]->data, .rstd = call->in[3]->data},
                  .kernel = ls_norm_table()->layer_norm_grad[dy->dtype],
                  .sums = call->out[1] || call->out[2],
                  .vector = (size_t)n * ls_dtype_size(wide)};
    if (!n) return LS_OK;

    /* At most 128 blocks, of whatever size: sums of few rows are not worth the memory they are kept in. */
    int64_t block_rows = 0;
    if (b.sums) {
        block_rows = (rows[0].count + 127) / 128;
        if (block_rows < 16) block_rows = 16;
        b.blocks = (rows[0].count + block_rows - 1) / block_rows;
        if (b.blocks < 1) b.blocks = 1;
    }
    size_t totals = (size_t)(b.blocks * 2 * n) * sizeof(double);
    char *scratch = ls_scratch((ls_worker){0, 1}, 1, totals + (size_t)(2 * b.blocks + 1) * b.vector);
    if (!scratch) return ls_cpu_fail(why, LS_ERR_MEMORY, "no scratch memory for gradients of weight and bias");
    b.totals = (double *)scratch;
    b.partial = scratch + totals;
    b.args.weight = coefficients(call->in[4], wide, b.partial + (size_t)b.blocks * 2 * b.vector, n, 1);
    if (!rows[0].count) memset(b.totals, 0, totals);

    ls_status status = ls_rows_walk(rows, 2, 1, block_rows, backward_rows, &b, why);
    if (status != LS_OK) return status;
    if (b.blocks > 1) ls_parallel_for(2 * n, 4096, sum_blocks, &b);
    ls_plain_total(call->out[1], b.totals, call->attrs.norm.accumulate & 2);
    ls_plain_total(call->out[2], b.totals + n, call->attrs.norm.accumulate & 4);
    return LS_OK;
}
