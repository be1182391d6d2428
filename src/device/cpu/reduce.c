/* reduce.c - sums, extremes, moments and norms over any dimensions of any strided operand.
 *
 * Dimensions are sorted by stride and merged. The innermost dimension that remains is either reduced, so that runs of
 * memory fold to single values, or kept, so that rows fold to a row. The work is cut into parts whose size depends only
 * on the shape; parts are folded by all workers and merged in order, so that the result does not depend on the number
 * of workers. */
#include "kernels/reduce.h"

#include "device/cpu/cpu.h"
#include "device/cpu/rows.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define RUN 8192        /* elements folded at a time, if a run is reduced */
#define PART_RUNS 65536 /* elements per part, if one output has more than one part */
#define PART_ROWS 256   /* least rows per part, if rows are folded */
#define SPARSE_ROWS 8   /* rows gathered at a time, if columns are not adjacent */

typedef struct axis {
    int64_t size, x, y; /* strides of x and y */
    bool reduced;
} axis;

typedef struct space { /* some axes, walked row-major */
    int32_t ndim;
    int64_t count;
    axis axes[LS_MAX_DIMS];
} space;

typedef struct reduction {
    ls_opcode op;
    ls_summary fold;
    int32_t correction;
    bool accumulate;
    ls_dtype dtype, out_dtype;
    bool is_float;
    const char *x;
    char *y;
    size_t size;              /* bytes per element of x */
    axis inner;               /* the innermost axis */
    space kept, reduced;      /* the others */
    int64_t elements;         /* of x per output */
    int64_t parts, part_size; /* parts per output; runs or rows per part */
    int64_t runs;             /* runs the inner axis is cut into, if it is reduced */
    int64_t chunks;           /* chunks of columns, if it is kept */
    ls_summary_run_fn *run;
    ls_summary_columns_fn *columns;
    char *value; /* partial results [kept, parts, chunk columns or 1], 8 bytes each, and m2 likewise */
    double *m2;
    atomic_bool out_of_memory;
} reduction;

/* ---- Axes ----------------------------------------------------------------------------------------------------- */

static void append(space *s, axis a)
{
    s->axes[s->ndim++] = a;
    s->count *= a.size;
}

/* Sort order, outermost first: by decreasing stride of x, broadcast axes before all others. */
static bool is_outer(const axis *a, const axis *b)
{
    if (a->x == 0 || b->x == 0) return a->x == 0 && b->x != 0;
    return a->x > b->x;
}

static void set_axes(reduction *r, const ls_operand *x, const ls_operand *y, uint32_t mask)
{
    axis axes[LS_MAX_DIMS];
    int32_t n = 0;
    for (int32_t d = 0; d < x->ndim; d++) {
        if (x->dim[d] == 1) continue;
        axis a = {x->dim[d], x->stride[d], y->stride[d], mask >> d & 1};
        int32_t at = n++;
        for (; at > 0 && is_outer(&a, &axes[at - 1]); at--) axes[at] = axes[at - 1];
        axes[at] = a;
    }
    int32_t merged = 0;
    for (int32_t d = 0; d < n; d++) {
        axis *outer = merged ? &axes[merged - 1] : NULL, a = axes[d];
        bool as_one =
            outer && outer->reduced == a.reduced && outer->x == a.x * a.size && (a.reduced || outer->y == a.y * a.size);
        if (as_one) *outer = (axis){outer->size * a.size, a.x, a.y, a.reduced};
        else axes[merged++] = a;
    }
    r->kept.count = r->reduced.count = 1;
    r->inner = merged ? axes[merged - 1] : (axis){1, 1, 0, true};
    for (int32_t d = 0; d + 1 < merged; d++) append(axes[d].reduced ? &r->reduced : &r->kept, axes[d]);
    r->elements = r->reduced.count * (r->inner.reduced ? r->inner.size : 1);
}

static int64_t offset_of(const space *s, int64_t index, bool in_y)
{
    int64_t offset = 0;
    for (int32_t d = s->ndim - 1; d >= 0; d--) {
        offset += index % s->axes[d].size * (in_y ? s->axes[d].y : s->axes[d].x);
        index /= s->axes[d].size;
    }
    return offset;
}

/* ---- Merging and finishing ------------------------------------------------------------------------------------ */

/* Fold (more, more_m2) of `n` elements into (value, m2) of `seen` elements; with seen == 0 it is copied. */
static void merge(const reduction *r, void *value, double *m2, int64_t seen, const void *more, const double *more_m2,
                  int64_t n)
{
    if (!seen) {
        memcpy(value, more, 8);
        if (r->fold == LS_SUMMARY_MOMENTS) *m2 = *more_m2;
        return;
    }
    if (!r->is_float) {
        int64_t *a = value, b = *(const int64_t *)more;
        if (r->fold == LS_SUMMARY_MAX) *a = b > *a ? b : *a;
        else if (r->fold == LS_SUMMARY_MIN) *a = b < *a ? b : *a;
        else *a = (int64_t)((uint64_t)*a + (uint64_t)b);
        return;
    }
    double *a = value, b = *(const double *)more;
    switch (r->fold) {
    case LS_SUMMARY_MAX: *a = b > *a || b != b ? b : *a; break;
    case LS_SUMMARY_MIN: *a = b < *a || b != b ? b : *a; break;
    case LS_SUMMARY_MOMENTS: { /* Chan's rule */
        double delta = b - *a, share = (double)n / (double)(seen + n);
        *a += delta * share;
        *m2 += *more_m2 + delta * delta * share * (double)seen;
        break;
    }
    default: *a += b; break;
    }
}

static void finish(const reduction *r, int64_t y, const void *value, const double *m2)
{
    double f = r->is_float ? *(const double *)value : (double)*(const int64_t *)value;
    double n = (double)r->elements;
    switch (r->op) {
    case LS_OP_mean: f /= n; break;
    case LS_OP_var: f = *m2 / (n > r->correction ? n - r->correction : 0); break;
    case LS_OP_norm: f = sqrt(f); break;
    default:
        if (!r->is_float) {
            ls_put_int(r->out_dtype, r->y, y, *(const int64_t *)value);
            return;
        }
    }
    if (r->accumulate) f += ls_get(r->out_dtype, r->y, y);
    ls_put(r->out_dtype, r->y, y, f);
}

/* ---- Folding parts -------------------------------------------------------------------------------------------- */

static void gather(const reduction *r, char *to, const char *from, int64_t n, int64_t stride)
{
    for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * r->size, from + (size_t)(i * stride) * r->size, r->size);
}

/* Part `part` of one output: runs of the inner axis, over all of the reduced axes. */
static void fold_runs(const reduction *r, int64_t output, int64_t part, char *buffer, void *value, double *m2)
{
    int64_t total = r->reduced.count * r->runs, seen = 0;
    int64_t begin = part * r->part_size, end = begin + r->part_size < total ? begin + r->part_size : total;
    const char *x = r->x + offset_of(&r->kept, output, false) * (int64_t)r->size;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i % r->runs * RUN, n = r->inner.size - first < RUN ? r->inner.size - first : RUN;
        int64_t at = offset_of(&r->reduced, i / r->runs, false) + first * r->inner.x;
        const char *run = x + at * (int64_t)r->size;
        if (r->inner.x != 1) {
            gather(r, buffer, run, n, r->inner.x);
            run = buffer;
        }
        double more, more_m2;
        r->run(r->dtype, run, n, &more, &more_m2);
        merge(r, value, m2, seen, &more, &more_m2, n);
        seen += n;
    }
}

/* Rows of a part that can be folded in one call: evenly spaced, not too many. */
static int64_t rows_at_once(const reduction *r, int64_t row, int64_t end)
{
    int64_t n = r->inner.x == 1 ? LS_SUMMARY_ROWS : SPARSE_ROWS;
    if (r->reduced.ndim) {
        int64_t run = r->reduced.axes[r->reduced.ndim - 1].size, left = run - row % run;
        if (left < n) n = left;
    }
    return end - row < n ? end - row : n;
}

/* Part `part` of a row of outputs, columns first .. first+n-1 of it. */
static void fold_rows(const reduction *r, int64_t output, int64_t part, int64_t first, int64_t n, char *buffer,
                      double *value, double *m2)
{
    double more[LS_SUMMARY_COLUMNS], more_m2[LS_SUMMARY_COLUMNS]; /* or int64_t */
    int64_t begin = part * r->part_size, end = begin + r->part_size;
    if (end > r->reduced.count) end = r->reduced.count;
    const char *x = r->x + (offset_of(&r->kept, output, false) + first * r->inner.x) * (int64_t)r->size;
    int64_t pitch = r->reduced.ndim ? r->reduced.axes[r->reduced.ndim - 1].x : 0;
    for (int64_t row = begin, rows; row < end; row += rows) {
        rows = rows_at_once(r, row, end);
        const char *block = x + offset_of(&r->reduced, row, false) * (int64_t)r->size;
        int64_t block_pitch = pitch;
        if (r->inner.x != 1) {
            for (int64_t i = 0; i < rows; i++)
                gather(r, buffer + i * n * (int64_t)r->size, block + i * pitch * (int64_t)r->size, n, r->inner.x);
            block = buffer;
            block_pitch = n;
        }
        if (row == begin) {
            r->columns(r->dtype, block, rows, block_pitch, n, value, m2);
            continue;
        }
        r->columns(r->dtype, block, rows, block_pitch, n, more, more_m2);
        if (r->is_float && r->fold == LS_SUMMARY_SUM)
            for (int64_t j = 0; j < n; j++) value[j] += more[j];
        else
            for (int64_t j = 0; j < n; j++) merge(r, value + j, m2 + j, row - begin, more + j, more_m2 + j, rows);
    }
}

/* ---- The two passes ------------------------------------------------------------------------------------------- */

static int64_t columns_of(const reduction *r, int64_t chunk, int64_t *first)
{
    *first = chunk * LS_SUMMARY_COLUMNS;
    int64_t n = r->inner.size - *first;
    return n < LS_SUMMARY_COLUMNS ? n : LS_SUMMARY_COLUMNS;
}

static void fold_parts(void *arg, ls_worker worker)
{
    reduction *r = arg;
    int64_t width = r->inner.reduced ? 1 : r->inner.size, begin, end;
    ls_worker_range(worker, r->kept.count * r->parts * r->chunks, 1, &begin, &end);
    char *buffer = NULL;
    if (begin < end && r->inner.x != 1) {
        buffer = ls_scratch(worker, 0, (size_t)(r->inner.reduced ? RUN : SPARSE_ROWS * LS_SUMMARY_COLUMNS) * r->size);
        if (!buffer) {
            atomic_store(&r->out_of_memory, true);
            return;
        }
    }
    for (int64_t task = begin; task < end; task++) {
        int64_t chunk = task % r->chunks, part = task / r->chunks % r->parts, output = task / r->chunks / r->parts;
        int64_t first = 0, n = r->inner.reduced ? 1 : columns_of(r, chunk, &first);
        double own[LS_SUMMARY_COLUMNS], own_m2[LS_SUMMARY_COLUMNS];
        int64_t at = (output * r->parts + part) * width + first;
        double *value = r->parts > 1 ? (double *)r->value + at : own, *m2 = r->parts > 1 ? r->m2 + at : own_m2;
        if (r->inner.reduced) fold_runs(r, output, part, buffer, value, m2);
        else fold_rows(r, output, part, first, n, buffer, value, m2);
        if (r->parts > 1) continue;
        int64_t y = offset_of(&r->kept, output, true) + first * r->inner.y;
        for (int64_t j = 0; j < n; j++) finish(r, y + j * r->inner.y, value + j, m2 + j);
    }
}

/* Elements that went into a part. */
static int64_t part_elements(const reduction *r, int64_t part)
{
    int64_t total = r->inner.reduced ? r->reduced.count * r->runs : r->reduced.count;
    int64_t begin = part * r->part_size, end = begin + r->part_size < total ? begin + r->part_size : total;
    if (!r->inner.reduced) return end - begin;
    /* All runs but the last of each row hold RUN elements. */
    int64_t short_by = r->runs * RUN - r->inner.size;
    return (end - begin) * RUN - (end / r->runs - begin / r->runs) * short_by;
}

static void merge_parts(void *arg, int64_t begin, int64_t end)
{
    reduction *r = arg;
    int64_t width = r->inner.reduced ? 1 : r->inner.size;
    for (int64_t i = begin; i < end; i++) {
        int64_t output = i / width, column = i % width, seen = 0;
        double value, m2;
        for (int64_t part = 0; part < r->parts; part++) {
            int64_t at = (output * r->parts + part) * width + column, n = part_elements(r, part);
            merge(r, &value, &m2, seen, (double *)r->value + at, r->m2 + at, n);
            seen += n;
        }
        finish(r, offset_of(&r->kept, output, true) + column * r->inner.y, &value, &m2);
    }
}

static void set_parts(reduction *r)
{
    int64_t total;
    r->chunks = r->runs = 1;
    if (r->inner.reduced) {
        r->runs = (r->inner.size + RUN - 1) / RUN;
        total = r->part_size = r->reduced.count * r->runs;
        int64_t longest = r->inner.size < RUN ? r->inner.size : RUN;
        if (r->kept.count < 64) r->part_size = ls_block_rows(longest, PART_RUNS);
    } else {
        r->chunks = (r->inner.size + LS_SUMMARY_COLUMNS - 1) / LS_SUMMARY_COLUMNS;
        total = r->part_size = r->reduced.count;
        if (r->kept.count < 64) {
            r->part_size = ls_block_rows(r->inner.size, PART_RUNS);
            if (r->part_size < PART_ROWS) r->part_size = PART_ROWS;
        }
    }
    r->parts = (total + r->part_size - 1) / r->part_size;
}

static ls_status reduce(const ls_call *call, ls_summary fold, ls_message *why)
{
    const ls_operand *x = call->in[0], *y = call->out[0];
    const ls_reduce_kernels *kernels = ls_reduce_table();
    reduction r = {.op = call->op,
                   .fold = fold,
                   .correction = call->attrs.reduce.correction,
                   .accumulate = call->op == LS_OP_sum && call->attrs.reduce.accumulate,
                   .dtype = x->dtype,
                   .out_dtype = y->dtype,
                   .is_float = ls_dtype_is_float(x->dtype),
                   .x = x->data,
                   .y = y->data,
                   .size = ls_dtype_size(x->dtype),
                   .run = kernels->run[x->dtype][fold],
                   .columns = kernels->columns[x->dtype][fold]};
    set_axes(&r, x, y, call->attrs.reduce.mask);
    int64_t outputs = r.kept.count * (r.inner.reduced ? 1 : r.inner.size);
    if (outputs == 0) return LS_OK;
    if (r.elements == 0) {
        if (fold == LS_SUMMARY_MAX || fold == LS_SUMMARY_MIN)
            return ls_explain(why, LS_ERR_VALUE, "the %s of zero elements is undefined",
                              fold == LS_SUMMARY_MAX ? "maximum" : "minimum");
        int64_t nothing = 0; /* also 0.0 */
        double nan = NAN;
        int64_t width = r.inner.reduced ? 1 : r.inner.size;
        for (int64_t i = 0; i < outputs; i++)
            finish(&r, offset_of(&r.kept, i / width, true) + i % width * r.inner.y, &nothing, &nan);
        return LS_OK;
    }
    set_parts(&r);
    if (r.parts > 1) {
        size_t bytes = (size_t)(outputs * r.parts) * sizeof(double);
        r.value = ls_scratch((ls_worker){0, 1}, 1, 2 * bytes);
        if (!r.value) return ls_explain(why, LS_ERR_MEMORY, "no memory for partial results");
        r.m2 = (double *)(r.value + bytes);
    }
    ls_parallel(fold_parts, &r, ls_workers_for(outputs * r.elements));
    if (atomic_load(&r.out_of_memory)) return ls_explain(why, LS_ERR_MEMORY, "no scratch memory");
    if (r.parts > 1) ls_parallel_for(outputs, 4096, merge_parts, &r);
    return LS_OK;
}

/* Reductions over the dimensions in attrs.reduce.mask. in: x, any strides  out: y, as many dimensions as x, reduced
 * ones of size 1, any strides. Integers and bool sum to the exact i64, then convert to y's type. No elements: sum and
 * norm are 0, mean and var NaN, max and min fail with LS_ERR_VALUE. max and min propagate NaN.
 * attrs.reduce.accumulate (sum of a floating x): y += sum. */
ls_status ls_cpu_sum(const ls_call *call, ls_message *why)
{
    return reduce(call, LS_SUMMARY_SUM, why);
}

ls_status ls_cpu_mean(const ls_call *call, ls_message *why)
{
    return reduce(call, LS_SUMMARY_SUM, why);
}

ls_status ls_cpu_max(const ls_call *call, ls_message *why)
{
    return reduce(call, LS_SUMMARY_MAX, why);
}

ls_status ls_cpu_min(const ls_call *call, ls_message *why)
{
    return reduce(call, LS_SUMMARY_MIN, why);
}

/* sum (x - mean)^2 / max(0, n - attrs.reduce.correction); floating x */
ls_status ls_cpu_var(const ls_call *call, ls_message *why)
{
    return reduce(call, LS_SUMMARY_MOMENTS, why);
}

/* sqrt(sum x^2); floating x */
ls_status ls_cpu_norm(const ls_call *call, ls_message *why)
{
    return reduce(call, LS_SUMMARY_SQUARES, why);
}
