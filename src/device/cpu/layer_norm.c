/* layer_norm.c - layer normalisation, also of residual + dropout(x) and of rows gathered from tables, and gradients. */
#include "device/cpu/cpu.h"
#include "device/cpu/index.h"
#include "device/cpu/rows.h"
#include "kernels/elementwise.h"
#include "kernels/norm.h"

#include <stdatomic.h>
#include <string.h>

#define SUM_ROWS 64 /* rows whose gradients are summed in the compute type before they are added to a double */

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

static void *data_of(const ls_operand *operand)
{
    return operand ? operand->data : NULL;
}

/* A vector of n elements in the compute type; if it is absent, a buffer filled with `absent`. */
static const void *coefficients(const ls_operand *vector, ls_dtype wide, void *buffer, int64_t n, double absent)
{
    for (int64_t i = 0; !vector && i < n; i++) ls_put(wide, buffer, i, absent);
    return vector ? ls_plain(vector, wide, buffer) : buffer;
}

/* ---- Dropout -------------------------------------------------------------------------------------------------- */

/* Dropout of rows of n elements by the kernel of the operator `dropout`: the same bits. */
typedef struct dropping {
    ls_dropout_fn *kernel; /* NULL: no dropout */
    ls_dropout_rule how;
    int64_t unit; /* rows that start a group of bits are multiples of this */
} dropping;

/* note, noted: bits of plain rows to be written or read; else NULL. */
static dropping dropping_of(const ls_call *call, ls_dtype dtype, const ls_operand *note, const ls_operand *noted)
{
    dropping d = {.unit = 1};
    if (call->attrs.norm.dropout <= 0) return d;
    d.kernel = ls_elementwise_kernels()->dropout[dtype];
    d.how = (ls_dropout_rule){.seed = call->attrs.norm.seed,
                              .offset = call->attrs.norm.offset,
                              .p = call->attrs.norm.dropout,
                              .note = data_of(note),
                              .noted = data_of(noted)};
    while ((note || noted) && d.unit * call->attrs.norm.groups % LS_DROPOUT_GROUP) d.unit *= 2;
    return d;
}

/* Apply dropout to rows [first, first + rows) of the tensor. If bits are kept, first is a multiple of the unit. */
static void drop_rows(const dropping *d, ls_dtype dtype, int64_t n, int64_t first, int64_t rows, ls_matrix to,
                      ls_matrix from)
{
    ls_dropout_rule how = d->how;
    if (how.note) how.note += first * n / 8;
    if (how.noted) how.noted += first * n / 8;
    if (to.pitch == n && from.pitch == n) {
        d->kernel(rows * n, first * n, to.data, from.data, &how);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        d->kernel(n, (first + r) * n, advance(to.data, dtype, r * to.pitch), advance(from.data, dtype, r * from.pitch),
                  &how);
}

static int64_t whole_units(const dropping *d, int64_t rows)
{
    return (rows + d->unit - 1) / d->unit * d->unit;
}

/* ---- Rows of tables ------------------------------------------------------------------------------------------- */

#define PICKED_ROWS 64 /* rows whose addresses are looked up together */

/* Source of rows that are gathered from tables. */
typedef struct picking {
    int tables;
    ls_matrix table[LS_PICKED_TABLES];
    int64_t limit[LS_PICKED_TABLES]; /* rows of each */
    ls_rows index[LS_PICKED_TABLES]; /* one element per row of the result */
    atomic_bool failed;              /* an index is out of range */
} picking;

/* Gather rows [first, first + rows) of the result; rows with an index out of range are unspecified. */
static void pick_rows(picking *p, ls_dtype dtype, int64_t n, int64_t first, int64_t rows, ls_matrix to)
{
    const void *at[LS_PICKED_TABLES][PICKED_ROWS];
    ls_picked_rows args = {.dtype = dtype, .n = n, .tables = p->tables};
    for (int64_t done = 0; done < rows; done += args.rows) {
        args.rows = rows - done < PICKED_ROWS ? rows - done : PICKED_ROWS;
        for (int k = 0; k < p->tables; k++) {
            ls_dtype type = p->index[k].size == sizeof(int64_t) ? LS_I64 : LS_I32;
            for (int64_t r = 0; r < args.rows; r++) {
                int64_t row = ls_get_int(type, ls_row_at(&p->index[k], first + done + r), 0);
                bool inside = row >= 0 && row < p->limit[k];
                if (!inside) atomic_store(&p->failed, true);
                at[k][r] = advance(p->table[k].data, dtype, inside ? row * p->table[k].pitch : 0);
            }
            args.at[k] = at[k];
        }
        args.sum = (ls_matrix){advance(to.data, dtype, done * to.pitch), to.pitch};
        ls_norm_table()->add_picked[dtype](&args);
    }
}

static ls_status check_index(const picking *p, int k, const ls_operand *index, ls_message *why)
{
    ls_message reason;
    ls_status status = ls_index_check(index, p->limit[k], &reason);
    return status ? ls_explain(why, status, "table %d: %s", k, reason.text) : LS_OK;
}

/* Set up from pairs of table and index, absent ones last. */
static ls_status set_tables(picking *p, const ls_operand *const *pairs, ls_message *why)
{
    size_t room = 0, used = 0; /* bytes for copies of tables whose rows have gaps */
    for (int k = 0; k < LS_PICKED_TABLES && pairs[2 * k]; k++) {
        const ls_operand *table = pairs[2 * k];
        p->tables = k + 1;
        p->table[k] = (ls_matrix){table->data, table->stride[0]};
        p->limit[k] = table->dim[0];
        p->index[k] = ls_rows_of(pairs[2 * k + 1], 0);
        if (table->stride[1] != 1) room += (size_t)ls_operand_numel(table) * ls_dtype_size(table->dtype);
        ls_status status = p->limit[k] ? LS_OK : check_index(p, k, pairs[2 * k + 1], why);
        if (status) return status;
    }
    char *plain = room ? ls_scratch((ls_worker){0, 1}, 2, room) : NULL;
    if (room && !plain) return ls_explain(why, LS_ERR_MEMORY, "no scratch memory for tables of %zu bytes", room);
    for (int k = 0; k < p->tables; k++) {
        const ls_operand *table = pairs[2 * k];
        if (table->stride[1] == 1) continue;
        p->table[k] = (ls_matrix){(void *)(uintptr_t)ls_plain(table, table->dtype, plain + used), table->dim[1]};
        used += (size_t)ls_operand_numel(table) * ls_dtype_size(table->dtype);
    }
    return LS_OK;
}

/* ---- Forward -------------------------------------------------------------------------------------------------- */

typedef struct forward {
    ls_layer_norm_rows args;
    void (*kernel)(const ls_layer_norm_rows *args);
    dropping drop;
    picking *pick; /* NULL: rows are given */
    bool large;    /* y, which is written once */
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
    args.stream = f->large && ls_block_may_stream(block, 2, ls_dtype_size(args.dtype));
    if (f->drop.kernel) { /* y holds dropout(x) for now */
        drop_rows(&f->drop, args.dtype, args.n, block->first, args.rows, args.y, args.x);
        args.x = args.y;
    }
    if (f->pick) {
        args.x = args.sum.data ? args.sum : args.y;
        pick_rows(f->pick, args.dtype, args.n, block->first, args.rows, args.x);
    }
    f->kernel(&args);
}

/* y = norm(x), or of dropout(x) + residual, or of a sum of gathered rows; that sum also goes to `sum`, if present. */
static ls_status normalise(const ls_call *call, const ls_operand *x, const ls_operand *residual,
                           const ls_operand *const vectors[2], const ls_operand *sum, forward *f, ls_message *why)
{
    const ls_operand *y = call->out[0];
    int64_t n = call->attrs.norm.groups;
    uint32_t dims = trailing_dims(y, n);
    ls_rows rows[4] = {ls_rows_of(x, dims), ls_rows_of(residual, dims), ls_rows_of(y, dims), ls_rows_of(sum, dims)};
    if (!n || !rows[2].count) return LS_OK;
    ls_dtype wide = ls_compute_dtype(y->dtype);
    size_t vector = (size_t)n * ls_dtype_size(wide);
    char *buffer = ls_scratch((ls_worker){0, 1}, 1, 2 * vector);
    if (!buffer) return ls_explain(why, LS_ERR_MEMORY, "no scratch memory for weight and bias");
    f->args.dtype = y->dtype;
    f->args.n = n;
    f->args.epsilon = call->attrs.norm.epsilon;
    f->args.weight = coefficients(vectors[0], wide, buffer, n, 1);
    f->args.bias = coefficients(vectors[1], wide, buffer + vector, n, 0);
    f->kernel = ls_norm_table()->layer_norm[y->dtype];
    f->large =
        !f->drop.kernel && !f->pick && (!residual || sum) && ls_rows_large(&rows[2], ls_norm_table()->stream_bytes);
    int64_t block_rows = f->drop.unit > 1 ? whole_units(&f->drop, ls_block_rows(n, 16384)) : 0;
    return ls_rows_walk(rows, 2, 2, block_rows, forward_rows, f, why);
}

/* in: x [..., D], weight [D]?, bias [D]?  out: y (as x), mean [rows]?, rstd [rows]?
 * D stands for one or more trailing dimensions of attrs.norm.groups elements. x and y are of one type; weight and bias
 * of any floating type; mean and rstd, plain arrays, f32 (f64 for f64). */
ls_status ls_cpu_layer_norm(const ls_call *call, ls_message *why)
{
    forward f = {.args = {.mean = data_of(call->out[1]), .rstd = data_of(call->out[2])}, .drop = {.unit = 1}};
    return normalise(call, call->in[0], NULL, call->in + 1, NULL, &f, why);
}

/* Statistics [2, rows], a plain array: mean, then rstd. */
static void *statistics_row(const ls_operand *statistics, int row)
{
    return statistics ? advance(statistics->data, statistics->dtype, row * statistics->dim[1]) : NULL;
}

/* in: x [..., D], residual (as x), weight [D]?, bias [D]?
 * out: y (as x), sum (as x)?, statistics [2, rows]? (mean, rstd), kept?
 * sum = residual + dropout(x), each rounded to the type, is what is normalised; the numbers are those of the operators
 * dropout, add and layer_norm in turn. kept: bytes private to this device for the gradient, one bit per element in
 * whole groups of 256; only for x, residual, y and sum without gaps. D and types as in layer_norm.
 * attrs.norm: dropout (0: none), seed, offset, epsilon, groups. */
ls_status ls_cpu_dropout_add_layer_norm(const ls_call *call, ls_message *why)
{
    const ls_operand *statistics = call->out[2];
    forward f = {.args = {.mean = statistics_row(statistics, 0), .rstd = statistics_row(statistics, 1)},
                 .drop = dropping_of(call, call->in[0]->dtype, call->out[3], NULL)};
    return normalise(call, call->in[0], call->in[1], call->in + 2, call->out[1], &f, why);
}

/* in: three pairs of table [V,D] (of one type and D) and index i64 [...] (of y's shape before D), of which the second
 * and third may be absent; weight [D]?, bias [D]?   out: y [...,D], sum (as y)?, mean [rows]?, rstd [rows]?
 * sum = the rows of the tables at their indices, added in order and rounded to the type each time, is what is
 * normalised. Weight, bias, mean and rstd as in layer_norm, whose gradient is used here, too, followed by index_add for
 * each table. */
ls_status ls_cpu_embedding_layer_norm(const ls_call *call, ls_message *why)
{
    const ls_operand *const *in = call->in;
    picking pick = {0};
    ls_status status = set_tables(&pick, in, why);
    if (status) return status;
    forward f = {
        .args = {.mean = data_of(call->out[2]), .rstd = data_of(call->out[3])}, .drop = {.unit = 1}, .pick = &pick};
    status = normalise(call, NULL, NULL, in + 2 * LS_PICKED_TABLES, call->out[1], &f, why);
    for (int k = 0; k < pick.tables && !status && atomic_load(&pick.failed); k++)
        status = check_index(&pick, k, in[2 * k + 1], why);
    return status;
}

/* ---- Backward ------------------------------------------------------------------------------------------------- */

typedef struct backward {
    ls_layer_norm_grad_rows args;
    void (*kernel)(const ls_layer_norm_grad_rows *args);
    bool sums;      /* dweight or dbias is wanted */
    size_t vector;  /* bytes of n elements of the compute type */
    char *partial;  /* per block: dweight and dbias of some rows [2, n], compute type */
    double *totals; /* per block: of all its rows [2, n] */
    int64_t blocks;
    dropping drop;
    bool large; /* dsum, which is not read again */
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

static ls_matrix rows_from(ls_dtype dtype, ls_matrix x, int64_t row)
{
    return (ls_matrix){advance(x.data, dtype, row * x.pitch), x.pitch};
}

/* Operands of the walk: dy, x, more?, dsum?, dx? */
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
    ls_matrix dsum = block->at[block->at[3].data ? 3 : 4], dx = block->at[4];
    args.stream = b->large && ls_block_may_stream(block, 3, ls_dtype_size(args.dtype));
    for (int64_t r = 0, dropped = 0; r < block->rows; r += args.rows) {
        args.rows = block->rows - r;
        if (b->sums && args.rows > SUM_ROWS) args.rows = SUM_ROWS;
        args.dy = rows_from(args.dtype, block->at[0], r);
        args.x = rows_from(args.dtype, block->at[1], r);
        args.more = rows_from(args.dtype, block->at[2], r);
        args.dx = rows_from(args.dtype, dsum, r);
        args.mean = advance((void *)(uintptr_t)b->args.mean, wide, block->first + r);
        args.rstd = advance((void *)(uintptr_t)b->args.rstd, wide, block->first + r);
        if (b->sums) memset(partial, 0, 2 * b->vector);
        b->kernel(&args);
        if (b->sums) add_to_totals(totals, partial, wide, 2 * n);
        int64_t done = r + args.rows, whole = done < block->rows ? done - done % b->drop.unit : done;
        if (dx.data && whole > dropped)
            drop_rows(&b->drop, args.dtype, n, block->first + dropped, whole - dropped,
                      rows_from(args.dtype, dx, dropped), rows_from(args.dtype, dsum, dropped));
        dropped = whole;
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

typedef struct gradient {
    const ls_operand *dy, *x, *weight;             /* x: the input of the normalisation */
    const ls_operand *dsum, *dx, *dweight, *dbias; /* dx: gradient of the input of dropout */
    int32_t accumulate_dsum, accumulate_dweight, accumulate_dbias;
} gradient;

/* Requires b->mean, b->rstd and b->drop. */
static ls_status differentiate(const gradient *g, int64_t n, backward *b, ls_message *why)
{
    const ls_operand *dy = g->dy;
    if (!n) return LS_OK;
    uint32_t dims = trailing_dims(dy, n);
    const ls_operand *more = g->accumulate_dsum ? g->dsum : NULL;
    ls_rows rows[5] = {ls_rows_of(dy, dims), ls_rows_of(g->x, dims), ls_rows_of(more, dims), ls_rows_of(g->dsum, dims),
                       ls_rows_of(g->dx, dims)};
    ls_dtype wide = ls_compute_dtype(dy->dtype);
    b->args.dtype = dy->dtype;
    b->args.n = n;
    b->kernel = ls_norm_table()->layer_norm_grad[dy->dtype];
    b->large = !g->dx && ls_rows_large(&rows[3], ls_norm_table()->stream_bytes);
    b->sums = g->dweight || g->dbias;
    b->vector = (size_t)n * ls_dtype_size(wide);

    /* At most 128 blocks of any size: sums of few rows are not worth the memory to keep them. */
    int64_t block_rows = b->drop.unit > 1 ? whole_units(&b->drop, ls_block_rows(n, 16384)) : 0;
    if (b->sums) {
        block_rows = (rows[0].count + 127) / 128;
        if (block_rows < 16) block_rows = 16;
        block_rows = whole_units(&b->drop, block_rows);
        b->blocks = (rows[0].count + block_rows - 1) / block_rows;
        if (b->blocks < 1) b->blocks = 1;
    }
    size_t totals = (size_t)(b->blocks * 2 * n) * sizeof(double);
    char *scratch = ls_scratch((ls_worker){0, 1}, 1, totals + (size_t)(2 * b->blocks + 1) * b->vector);
    if (!scratch) return ls_explain(why, LS_ERR_MEMORY, "no scratch memory for gradients of weight and bias");
    b->totals = (double *)scratch;
    b->partial = scratch + totals;
    b->args.weight = coefficients(g->weight, wide, b->partial + (size_t)b->blocks * 2 * b->vector, n, 1);
    if (!rows[0].count) memset(b->totals, 0, totals);

    ls_status status = ls_rows_walk(rows, 3, 2, block_rows, backward_rows, b, why);
    if (status != LS_OK) return status;
    if (b->blocks > 1) ls_parallel_for(2 * n, 4096, sum_blocks, b);
    ls_plain_total(g->dweight, b->totals, g->accumulate_dweight);
    ls_plain_total(g->dbias, b->totals + n, g->accumulate_dbias);
    return LS_OK;
}

/* in: dy, x [..., D], mean [rows], rstd [rows], weight [D]?
 * out: dx?, dweight [D]?, dbias [D]? (absent: not wanted)
 * attrs.norm.accumulate: dx, dweight, dbias. D, types and plain arrays as in layer_norm. */
ls_status ls_cpu_layer_norm_grad(const ls_call *call, ls_message *why)
{
    int32_t accumulate = call->attrs.norm.accumulate;
    gradient g = {.dy = call->in[0],
                  .x = call->in[1],
                  .weight = call->in[4],
                  .dsum = call->out[0],
                  .dweight = call->out[1],
                  .dbias = call->out[2],
                  .accumulate_dsum = accumulate & 1,
                  .accumulate_dweight = accumulate & 2,
                  .accumulate_dbias = accumulate & 4};
    backward b = {.args = {.mean = call->in[2]->data, .rstd = call->in[3]->data}, .drop = {.unit = 1}};
    return differentiate(&g, call->attrs.norm.groups, &b, why);
}

/* in: dy, sum [..., D], statistics [2, rows], weight [D]?, kept?
 * out: dx?, dresidual?, dweight [D]?, dbias [D]? (absent: not wanted)
 * dresidual is the gradient of sum; dx is that after the same dropout, and only requested if there is one. kept as
 * forward wrote it, or absent: then the random numbers are drawn again. attrs.norm as in forward, and accumulate:
 * dresidual (dx is then made of the total), dweight, dbias. */
ls_status ls_cpu_dropout_add_layer_norm_grad(const ls_call *call, ls_message *why)
{
    int32_t accumulate = call->attrs.norm.accumulate;
    gradient g = {.dy = call->in[0],
                  .x = call->in[1],
                  .weight = call->in[3],
                  .dsum = call->out[1],
                  .dx = call->out[0],
                  .dweight = call->out[2],
                  .dbias = call->out[3],
                  .accumulate_dsum = accumulate & 2,
                  .accumulate_dweight = accumulate & 4,
                  .accumulate_dbias = accumulate & 8};
    backward b = {.args = {.mean = statistics_row(call->in[2], 0), .rstd = statistics_row(call->in[2], 1)},
                  .drop = dropping_of(call, g.dy->dtype, NULL, call->in[4])};
    return differentiate(&g, call->attrs.norm.groups, &b, why);
}
