/* index.c - elements and slices picked, or added, at places that an index tensor names.
 *
 * Indices are i64 or i32. All of them are looked at before anything is written: one that is out of range (a negative
 * one is) fails the call and leaves the outputs as they were. Sums are split between workers by destination, so their
 * order, and with it the result, does not depend on the number of workers. */
#include "base/half.h"
#include "base/parallel.h"
#include "device/cpu/cpu.h"
#include "device/cpu/grid.h"
#include "device/cpu/order.h"
#include "device/cpu/rows.h"
#include "kernels/combine.h"

#include <stdatomic.h>

#define GRAIN 16384 /* elements a worker should at least have to do */
#define CHUNK 256   /* indices looked at together */

static inline void *element(const ls_operand *operand, int64_t at)
{
    return (char *)operand->data + at * (int64_t)ls_dtype_size(operand->dtype);
}

/* n <= CHUNK indices, `step` apart: where they lie, or else in `buffer`. */
static const int64_t *indices(const ls_operand *index, int64_t at, int64_t step, int64_t n, int64_t buffer[CHUNK])
{
    const int64_t *wide = (const int64_t *)index->data + at;
    const int32_t *narrow = (const int32_t *)index->data + at;
    if (index->dtype == LS_I64 && step == 1) return wide;
    for (int64_t i = 0; i < n; i++) buffer[i] = index->dtype == LS_I64 ? wide[i * step] : narrow[i * step];
    return buffer;
}

/* The end of a piece that starts at `begin` and goes no further than `end`. */
static inline int64_t cut(int64_t begin, int64_t end, int64_t most)
{
    return end - begin < most ? end : begin + most;
}

/* ---- Range ---------------------------------------------------------------------------------------------------- */

typedef struct range_check {
    const ls_operand *index;
    ls_grid grid;
    uint64_t limit;
    atomic_bool found;
} range_check;

static void check_range(void *arg, int64_t begin, int64_t end)
{
    range_check *job = arg;
    uint64_t limit = job->limit;
    int64_t buffer[CHUNK];
    bool found = false;
    for (ls_span span; begin < end; begin += span.size) {
        span = ls_grid_span(&job->grid, begin, cut(begin, end, CHUNK));
        const int64_t *index = indices(job->index, span.at[0], span.step[0], span.size, buffer);
        for (int64_t i = 0; i < span.size; i++) found |= (uint64_t)index[i] >= limit;
    }
    if (found) atomic_store(&job->found, true);
}

static ls_status check_index(const ls_operand *index, int64_t limit, ls_message *why)
{
    range_check job = {.index = index, .limit = (uint64_t)limit};
    for (int d = 0; d < index->ndim; d++) ls_grid_add(&job.grid, index->dim[d], index->stride[d], 0, 0);
    int64_t count = ls_grid_size(&job.grid);
    ls_parallel_for(count, GRAIN, check_range, &job);
    for (int64_t i = 0; atomic_load(&job.found) && i < count; i++) { /* all over again, to name the first one */
        int64_t value = ls_get_int(index->dtype, index->data, ls_grid_span(&job.grid, i, i + 1).at[0]);
        if ((uint64_t)value >= job.limit)
            return ls_cpu_fail(why, LS_ERR_VALUE, "index %lld at position %lld is out of range for %lld rows",
                               (long long)value, (long long)i, (long long)limit);
    }
    return LS_OK;
}

/* ---- Picking -------------------------------------------------------------------------------------------------- */

/* y[p] = x[p, with index[p] along the dimension picked from], for all positions p of y. */
typedef struct picking {
    const ls_operand *x, *index, *y;
    ls_grid grid;      /* offsets in y, x, index */
    int64_t pick_step; /* of x along the dimension picked from */
} picking;

static void pick_elements(const picking *job, const ls_span *span)
{
    int64_t buffer[CHUNK], pick = job->pick_step, n = span->size, to = span->step[0], from = span->step[1];
    const int64_t *index = indices(job->index, span->at[2], span->step[2], n, buffer);
    char *y = element(job->y, span->at[0]);
    const char *x = element(job->x, span->at[1]);
#define PICK(bytes)                                                                                                    \
    case bytes:                                                                                                        \
        for (int64_t i = 0; i < n; i++) memcpy(y + i * to * bytes, x + (index[i] * pick + i * from) * bytes, bytes);   \
        break;
    switch (ls_dtype_size(job->y->dtype)) {
        PICK(1)
        PICK(2)
        PICK(4)
        PICK(8)
    }
#undef PICK
}

static void pick_range(void *arg, int64_t begin, int64_t end)
{
    const picking *job = arg;
    for (ls_span span; begin < end; begin += span.size) {
        span = ls_grid_span(&job->grid, begin, end);
        if (span.step[2] == 0 && span.step[0] == 1 && span.step[1] == 1) { /* one index for all */
            int64_t from = ls_get_int(job->index->dtype, job->index->data, span.at[2]) * job->pick_step;
            size_t bytes = (size_t)span.size * ls_dtype_size(job->y->dtype);
            memcpy(element(job->y, span.at[0]), element(job->x, span.at[1] + from), bytes);
        } else {
            if (span.size > CHUNK) span.size = CHUNK;
            pick_elements(job, &span);
        }
    }
}

/* in: x, index i64 (as many dimensions, sizes not above x's but along dim)  out: y, of index's shape.   axis: dim
 * y[i,j,k] = x[i,index[i,j,k],k] for dim 1. */
ls_status ls_cpu_gather(const ls_call *call, ls_message *why)
{
    picking job = {.x = call->in[0], .index = call->in[1], .y = call->out[0]};
    int dim = call->attrs.axis.dim;
    bool scalar = job.x->ndim == 0;
    ls_status status = check_index(job.index, scalar ? 1 : job.x->dim[dim], why);
    if (status) return status;
    job.pick_step = scalar ? 0 : job.x->stride[dim];
    for (int d = 0; d < job.y->ndim; d++)
        ls_grid_add(&job.grid, job.y->dim[d], job.y->stride[d], d == dim ? 0 : job.x->stride[d], job.index->stride[d]);
    ls_parallel_for(ls_grid_size(&job.grid), GRAIN, pick_range, &job);
    return LS_OK;
}

/* in: x, index i64 [K]  out: y, of x's shape but K along dim.   axis: dim */
ls_status ls_cpu_index_select(const ls_call *call, ls_message *why)
{
    picking job = {.x = call->in[0], .index = call->in[1], .y = call->out[0]};
    int dim = call->attrs.axis.dim;
    ls_status status = check_index(job.index, job.x->dim[dim], why);
    if (status) return status;
    job.pick_step = job.x->stride[dim];
    for (int d = 0; d < job.y->ndim; d++) {
        bool picked = d == dim;
        ls_grid_add(&job.grid, job.y->dim[d], job.y->stride[d], picked ? 0 : job.x->stride[d],
                    picked ? job.index->stride[0] : 0);
    }
    ls_parallel_for(ls_grid_size(&job.grid), GRAIN, pick_range, &job);
    return LS_OK;
}

/* in: weight [V,D], index i64 [...]  out: y [...,D]
 * Its gradient is index_add along dim 0, with index and dy flattened to [K] and [K,D]. */
ls_status ls_cpu_embedding(const ls_call *call, ls_message *why)
{
    picking job = {.x = call->in[0], .index = call->in[1], .y = call->out[0]};
    ls_status status = check_index(job.index, job.x->dim[0], why);
    if (status) return status;
    job.pick_step = job.x->stride[0];
    int last = job.y->ndim - 1;
    for (int d = 0; d < last; d++) ls_grid_add(&job.grid, job.y->dim[d], job.y->stride[d], 0, job.index->stride[d]);
    ls_grid_add(&job.grid, job.y->dim[last], job.y->stride[last], job.x->stride[1], 0);
    ls_parallel_for(ls_grid_size(&job.grid), GRAIN, pick_range, &job);
    return LS_OK;
}

/* ---- Adding elements ------------------------------------------------------------------------------------------ */

/* Lines side by side that are worked on together where the index does not follow the line in memory: a cache line of
 * f32. */
#define LANES 16

typedef struct adding {
    const ls_operand *x, *index, *src, *y;
    ls_grid copies; /* offsets in y, x */
    ls_grid lines;  /* along dim of index; offsets in y, index, src */
    int64_t lanes;
    int64_t n, y_n; /* elements of a line of index, of y */
    int64_t y_step, index_step, src_step;
    atomic_bool out_of_memory;
} adding;

/* Halves are summed in f32. */
static bool is_half(const adding *job)
{
    return job->y->dtype == LS_BF16 || job->y->dtype == LS_F16;
}

static void copy_range(void *arg, int64_t begin, int64_t end)
{
    const adding *job = arg;
    size_t size = ls_dtype_size(job->y->dtype);
    for (ls_span span; begin < end; begin += span.size) {
        span = ls_grid_span(&job->copies, begin, end);
        char *y = element(job->y, span.at[0]);
        const char *x = element(job->x, span.at[1]);
        bool dense = span.step[0] == 1 && span.step[1] == 1;
        if (dense) memcpy(y, x, (size_t)span.size * size);
        for (int64_t i = 0; !dense && i < span.size; i++)
            memcpy(y + i * span.step[0] * (int64_t)size, x + i * span.step[1] * (int64_t)size, size);
    }
}

#define ADD(dtype, type, sum_type, plus, get)                                                                          \
    case dtype:                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            sum_type *sum = (sum_type *)sums + index[i] * pick + i * beside;                                           \
            *sum = (sum_type)(*sum plus get(((const type *)src)[i * step]));                                           \
        }                                                                                                              \
        break;

/* sums[index[i] * pick + i * beside] += src[i * step] */
static void add_run(ls_dtype dtype, void *sums, int64_t pick, int64_t beside, const void *src, int64_t step,
                    const int64_t *index, int64_t n)
{
    switch (dtype) {
        ADD(LS_BOOL, uint8_t, uint8_t, |, )
        ADD(LS_U8, uint8_t, uint8_t, +, )
        ADD(LS_I8, int8_t, int8_t, +, )
        ADD(LS_I32, uint32_t, uint32_t, +, ) /* unsigned: sums wrap instead of being undefined */
        ADD(LS_I64, uint64_t, uint64_t, +, )
        ADD(LS_F16, ls_f16, float, +, ls_f16_to_f32)
        ADD(LS_BF16, ls_bf16, float, +, ls_bf16_to_f32)
        ADD(LS_F32, float, float, +, )
        ADD(LS_F64, double, double, +, )
    default: break;
    }
}

/* Some lines side by side; `sums` is for halves. Runs go along the line where there is one, else across the lines. */
static void add_bundle(const adding *job, const ls_span *span, float *sums)
{
    struct {
        int64_t n, sum, index, src;
    } along = {job->n, 0, job->index_step, job->src_step}, run, next;
    bool half = is_half(job);
    int64_t pick = half ? job->lanes : job->y_step, beside = half ? 1 : span->step[0], buffer[CHUNK];
    for (int64_t i = 0; half && i < job->y_n * span->size; i++) {
        int64_t row = i / span->size, lane = i % span->size,
                at = span->at[0] + row * job->y_step + lane * span->step[0];
        sums[row * pick + lane] = (float)ls_get(job->y->dtype, job->y->data, at);
    }
    char *to = half ? (char *)sums : element(job->y, span->at[0]);
    int64_t size = half ? (int64_t)sizeof *sums : (int64_t)ls_dtype_size(job->y->dtype);
    run = next = along;
    if (span->size == 1) {
        next.n = 1;
    } else {
        run.n = span->size;
        run.sum = beside;
        run.index = span->step[1];
        run.src = span->step[2];
    }
    for (int64_t i = 0; i < next.n; i++) {
        for (int64_t begin = 0, end; begin < run.n; begin = end) {
            end = cut(begin, run.n, CHUNK);
            int64_t index_at = span->at[1] + i * next.index + begin * run.index;
            const int64_t *index = indices(job->index, index_at, run.index, end - begin, buffer);
            add_run(job->y->dtype, to + begin * run.sum * size, pick, run.sum,
                    element(job->src, span->at[2] + i * next.src + begin * run.src), run.src, index, end - begin);
        }
    }
    for (int64_t i = 0; half && i < job->y_n * span->size; i++) {
        int64_t row = i / span->size, lane = i % span->size,
                at = span->at[0] + row * job->y_step + lane * span->step[0];
        ls_put(job->y->dtype, job->y->data, at, (double)sums[row * pick + lane]);
    }
}

static void add_lines(void *arg, ls_worker worker)
{
    adding *job = arg;
    float *sums = is_half(job) ? ls_scratch(worker, 0, (size_t)(job->y_n * job->lanes) * sizeof *sums) : NULL;
    if (is_half(job) && !sums) {
        atomic_store(&job->out_of_memory, true);
        return;
    }
    int64_t begin, end;
    ls_worker_range(worker, ls_grid_size(&job->lines), job->lanes, &begin, &end);
    for (ls_span span; begin < end; begin += span.size) {
        span = ls_grid_span(&job->lines, begin, cut(begin, end, job->lanes));
        add_bundle(job, &span, sums);
    }
}

/* in: x, index i64, src (as many dimensions; index's sizes not above src's, nor x's but along dim)  out: y, of x's shape
 * axis: dim.   y = x, then y[i,index[i,j,k],k] += src[i,j,k] for dim 1 and every position of index. y may be x. */
ls_status ls_cpu_scatter_add(const ls_call *call, ls_message *why)
{
    adding job = {.x = call->in[0], .index = call->in[1], .src = call->in[2], .y = call->out[0], .n = 1, .y_n = 1};
    int dim = call->attrs.axis.dim;
    if (job.y->ndim > 0) {
        job.n = job.index->dim[dim];
        job.y_n = job.y->dim[dim];
        job.y_step = job.y->stride[dim];
        job.index_step = job.index->stride[dim];
        job.src_step = job.src->stride[dim];
    }
    ls_status status = check_index(job.index, job.y_n, why);
    if (status) return status;
    for (int d = 0; d < job.y->ndim; d++) {
        ls_grid_add(&job.copies, job.y->dim[d], job.y->stride[d], job.x->stride[d], 0);
        if (d == dim) continue;
        ls_grid_add(&job.lines, job.index->dim[d], job.y->stride[d], job.index->stride[d], job.src->stride[d]);
    }
    if (job.y->data != job.x->data) ls_parallel_for(ls_grid_size(&job.copies), GRAIN, copy_range, &job);
    int64_t lines = ls_grid_size(&job.lines);
    if (lines == 0 || job.n == 0) return LS_OK;
    job.lanes = job.index_step == 1 ? 1 : LANES;
    ls_parallel(add_lines, &job, ls_workers_for(lines * job.n));
    if (atomic_load(&job.out_of_memory))
        return ls_cpu_fail(why, LS_ERR_MEMORY, "no memory to sum %lld rows", (long long)job.y_n);
    return LS_OK;
}

/* ---- Adding slices -------------------------------------------------------------------------------------------- */

typedef struct slice_adding {
    const ls_operand *src, *y;
    ls_grid grid;           /* positions of a slice; offsets in y, src */
    const ls_keyed *order;  /* [k] rows of y, ascending, and the slices of src that go there */
    const int64_t *offsets; /* [k] of those slices in src */
    int64_t k, y_step;
    bool by_row; /* workers share the rows of y, not the positions of a slice */
    const ls_combine_table *kernels;
} slice_adding;

static void add_slices(void *arg, ls_worker worker)
{
    const slice_adding *job = arg;
    int64_t begin = 0, end = ls_grid_size(&job->grid), first = 0, last = job->k;
    if (job->by_row) ls_worker_range(worker, job->k, 1, &first, &last);
    else ls_worker_range(worker, end, LANES, &begin, &end);
    for (ls_span span; begin < end; begin += span.size) {
        span = ls_grid_span(&job->grid, begin, end);
        bool dense = span.step[0] == 1 && span.step[1] == 1;
        for (int64_t from = 0, to; from < job->k && from < last; from = to) {
            uint64_t row = job->order[from].key;
            for (to = from + 1; to < job->k && job->order[to].key == row;) to++;
            if (from < first) continue; /* whose first slice is another worker's is that worker's */
            int64_t y = span.at[0] + (int64_t)row * job->y_step;
            for (int64_t i = 0; i < (dense ? 1 : span.size); i++)
                job->kernels->add_rows(job->src->dtype, job->y->dtype, element(job->y, y + i * span.step[0]),
                                       element(job->src, span.at[1] + i * span.step[1]), job->offsets + from, to - from,
                                       dense ? span.size : 1);
        }
    }
}

/* in: index i64 [K], src (f32, f64, bf16, f16), of y's shape but K along dim  out: y (src's type, or f32).   axis: dim
 * y[:,index[k],:] += src[:,k,:] for dim 1, in place. Rows that occur several times are summed in the order of k, in f32
 * (f64), and rounded once. */
ls_status ls_cpu_index_add(const ls_call *call, ls_message *why)
{
    const ls_operand *index = call->in[0];
    slice_adding job = {.src = call->in[1], .y = call->out[0], .k = index->dim[0]};
    int dim = call->attrs.axis.dim;
    ls_status status = check_index(index, job.y->dim[dim], why);
    if (status) return status;
    for (int d = 0; d < job.y->ndim; d++)
        if (d != dim) ls_grid_add(&job.grid, job.y->dim[d], job.y->stride[d], job.src->stride[d], 0);
    int64_t positions = ls_grid_size(&job.grid);
    if (positions == 0 || job.k == 0) return LS_OK;

    size_t items = (size_t)job.k * sizeof(ls_keyed), bytes = 2 * items + (size_t)job.k * sizeof(int64_t);
    ls_keyed *unordered = ls_scratch((ls_worker){0, 1}, 0, bytes);
    if (!unordered) return ls_cpu_fail(why, LS_ERR_MEMORY, "no memory to order %lld indices", (long long)job.k);
    int64_t *offsets = (int64_t *)(unordered + 2 * job.k);
    for (int64_t i = 0; i < job.k; i++)
        unordered[i] = (ls_keyed){(uint64_t)ls_get_int(index->dtype, index->data, i * index->stride[0]), i};
    job.order = ls_order(unordered, unordered + job.k, job.k);
    for (int64_t i = 0; i < job.k; i++) offsets[i] = job.order[i].index * job.src->stride[dim];
    job.offsets = offsets;
    job.y_step = job.y->stride[dim];
    job.by_row = positions < LANES * ls_parallel_width();
    job.kernels = ls_combine_kernels();
    ls_parallel(add_slices, &job, ls_workers_for(positions * job.k));
    return LS_OK;
}
