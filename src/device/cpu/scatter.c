/* scatter.c - elements and slices added, or elements replaced, at positions given by an index tensor.
 *
 * Indices are checked before anything is written. Work is divided between workers by destination, so the order of sums
 * and replacements, and hence the result, does not depend on the number of workers. */
#include "base/half.h"
#include "base/parallel.h"
#include "device/cpu/cpu.h"
#include "device/cpu/grid.h"
#include "device/cpu/index.h"
#include "device/cpu/order.h"
#include "device/cpu/rows.h"
#include "kernels/combine.h"

#include <stdatomic.h>
#include <string.h>

/* ---- Elements ------------------------------------------------------------------------------------------------- */

/* Adjacent lines processed together if the index is not contiguous along the line: a cache line of f32. */
#define LANES 16

typedef struct adding {
    const ls_operand *x, *index, *src, *y;
    bool replaces;  /* elements of y become those of src; else they are added */
    ls_grid copies; /* offsets in y, x */
    ls_grid lines;  /* along dim of index; offsets in y, index, src */
    int64_t lanes;
    int64_t n, y_n; /* elements of a line of index, of y */
    int64_t y_step, index_step, src_step;
    atomic_bool out_of_memory;
} adding;

/* f16 and bf16 are summed in f32. */
static bool is_half(const adding *job)
{
    if (job->replaces) return false;
    return job->y->dtype == LS_BF16 || job->y->dtype == LS_F16;
}

static void copy_range(void *arg, int64_t begin, int64_t end)
{
    const adding *job = arg;
    size_t size = ls_dtype_size(job->y->dtype);
    for (ls_grid_run span; begin < end; begin += span.size) {
        span = ls_grid_span(&job->copies, begin, end);
        char *y = ls_element_at(job->y, span.at[0]);
        const char *x = ls_element_at(job->x, span.at[1]);
        bool dense = span.step[0] == 1 && span.step[1] == 1;
        if (dense) memcpy(y, x, (size_t)span.size * size);
        for (int64_t i = 0; !dense && i < span.size; i++)
            memcpy(y + i * span.step[0] * (int64_t)size, x + i * span.step[1] * (int64_t)size, size);
    }
}

#define ADD(dtype, type, sum_type, plus, get)                                                                          \
    case dtype: {                                                                                                      \
        const type *from = src;                                                                                        \
        sum_type *to = sums;                                                                                           \
        _Pragma("GCC unroll 4") for (int64_t i = 0; i < n; i++, to += beside, from += step) to[index[i] * pick] =      \
            (sum_type)(to[index[i] * pick] plus get(*from));                                                           \
        break;                                                                                                         \
    }

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

#define REPLACE(bytes)                                                                                                 \
    case bytes:                                                                                                        \
        _Pragma("GCC unroll 4") for (int64_t i = 0; i < n; i++, to += beside * bytes, from += step * bytes)            \
            memcpy(to + index[i] * pick * bytes, from, bytes);                                                         \
        break;

/* y[index[i] * pick + i * beside] = src[i * step], in this order */
static void replace_run(size_t size, void *y, int64_t pick, int64_t beside, const void *src, int64_t step,
                        const int64_t *index, int64_t n)
{
    char *to = y;
    const char *from = src;
    switch (size) {
        REPLACE(1)
        REPLACE(2)
        REPLACE(4)
        REPLACE(8)
    }
}

/* A number of elements and their strides. */
typedef struct strided_run {
    int64_t n, sum, index, src;
} strided_run;

/* Add along adjacent lines. Runs go along the line if there is only one, else across the lines. */
static void add_bundle(const adding *job, const ls_grid_run *span, void *sums, int64_t pick, int64_t beside)
{
    int64_t size = is_half(job) ? (int64_t)sizeof(float) : (int64_t)ls_dtype_size(job->y->dtype);
    strided_run along = {job->n, 0, job->index_step, job->src_step};
    strided_run across = {span->size, beside, span->step[1], span->step[2]};
    bool line = span->size == 1;
    strided_run run = line ? along : across, runs = line ? across : along;
    for (int64_t i = 0; i < runs.n; i++) {
        for (int64_t begin = 0, end; begin < run.n; begin = end) {
            end = ls_index_chunk_end(begin, run.n);
            int64_t at = span->at[1] + i * runs.index + begin * run.index, buffer[LS_INDEX_CHUNK];
            const int64_t *index = ls_indices(job->index, at, run.index, end - begin, buffer);
            const void *src = ls_element_at(job->src, span->at[2] + i * runs.src + begin * run.src);
            char *to = (char *)sums + begin * run.sum * size;
            if (job->replaces) replace_run((size_t)size, to, pick, run.sum, src, run.src, index, end - begin);
            else add_run(job->y->dtype, to, pick, run.sum, src, run.src, index, end - begin);
        }
    }
}

/* The same for f16 and bf16: all sums of the lines are widened, added to and narrowed again. */
static void add_bundle_of_halves(const adding *job, const ls_grid_run *span, float *sums)
{
    int64_t lanes = span->size, count = job->y_n * lanes;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = span->at[0] + i / lanes * job->y_step + i % lanes * span->step[0];
        sums[i] = (float)ls_get(job->y->dtype, job->y->data, at);
    }
    add_bundle(job, span, sums, lanes, 1);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = span->at[0] + i / lanes * job->y_step + i % lanes * span->step[0];
        ls_put(job->y->dtype, job->y->data, at, (double)sums[i]);
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
    for (ls_grid_run span; begin < end; begin += span.size) {
        span = ls_grid_span(&job->lines, begin, end - begin < job->lanes ? end : begin + job->lanes);
        if (sums) add_bundle_of_halves(job, &span, sums);
        else add_bundle(job, &span, ls_element_at(job->y, span.at[0]), job->y_step, span.step[0]);
    }
}

static ls_status scatter(const ls_call *call, bool replaces, ls_message *why)
{
    adding job = {.x = call->in[0],
                  .index = call->in[1],
                  .src = call->in[2],
                  .y = call->out[0],
                  .replaces = replaces,
                  .n = 1,
                  .y_n = 1};
    int dim = call->attrs.axis.dim;
    if (job.y->ndim > 0) {
        job.n = job.index->dim[dim];
        job.y_n = job.y->dim[dim];
        job.y_step = job.y->stride[dim];
        job.index_step = job.index->stride[dim];
        job.src_step = job.src->stride[dim];
    }
    ls_status status = ls_index_check(job.index, job.y_n, why);
    if (status) return status;
    for (int d = 0; d < job.y->ndim; d++) {
        ls_grid_add(&job.copies, job.y->dim[d], job.y->stride[d], job.x->stride[d], 0);
        if (d == dim) continue;
        ls_grid_add(&job.lines, job.index->dim[d], job.y->stride[d], job.index->stride[d], job.src->stride[d]);
    }
    if (job.y->data != job.x->data) ls_parallel_for(ls_grid_size(&job.copies), LS_INDEX_GRAIN, copy_range, &job);
    int64_t lines = ls_grid_size(&job.lines);
    if (lines == 0 || job.n == 0) return LS_OK;
    job.lanes = job.index_step == 1 ? 1 : LANES;
    ls_parallel(add_lines, &job, ls_workers_for(lines * job.n));
    if (atomic_load(&job.out_of_memory))
        return ls_explain(why, LS_ERR_MEMORY, "no memory to sum %lld rows", (long long)job.y_n);
    return LS_OK;
}

/* in: x, index i64, src (as many dimensions; index's sizes at most src's, and at most x's except along dim)
 * out: y, of x's shape
 * axis: dim.   y = x, then y[i,index[i,j,k],k] += src[i,j,k] for dim 1 and every position of index. y may be x. */
ls_status ls_cpu_scatter_add(const ls_call *call, ls_message *why)
{
    return scatter(call, false, why);
}

/* The same, but elements of y become those of src; where an index occurs several times, the last along dim counts. */
ls_status ls_cpu_scatter(const ls_call *call, ls_message *why)
{
    return scatter(call, true, why);
}

/* ---- Adding slices -------------------------------------------------------------------------------------------- */

typedef struct slice_adding {
    const ls_operand *src, *y;
    ls_grid grid;           /* positions of a slice; offsets in y, src */
    const ls_keyed *order;  /* [k] rows of y, ascending, and the slices of src added to them */
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
    for (ls_grid_run span; begin < end; begin += span.size) {
        span = ls_grid_span(&job->grid, begin, end);
        bool dense = span.step[0] == 1 && span.step[1] == 1;
        for (int64_t from = 0, to; from < job->k && from < last; from = to) {
            uint64_t row = job->order[from].key;
            for (to = from + 1; to < job->k && job->order[to].key == row;) to++;
            if (from < first) continue; /* a row belongs to the worker of its first slice */
            int64_t y = span.at[0] + (int64_t)row * job->y_step;
            for (int64_t i = 0; i < (dense ? 1 : span.size); i++)
                job->kernels->add_rows(job->src->dtype, job->y->dtype, ls_element_at(job->y, y + i * span.step[0]),
                                       ls_element_at(job->src, span.at[1] + i * span.step[1]), job->offsets + from,
                                       to - from, dense ? span.size : 1);
        }
    }
}

/* in: index i64 [K], src (f32, f64, bf16, f16), of y's shape except K along dim  out: y (any of these types)
 * axis: dim; flag: slices with index axis.k are skipped.   y[:,index[k],:] += src[:,k,:] for dim 1, in place.
 * Rows that occur several times are summed in the order of k, in f32 (f64), and rounded once. */
ls_status ls_cpu_index_add(const ls_call *call, ls_message *why)
{
    const ls_operand *index = call->in[0];
    slice_adding job = {.src = call->in[1], .y = call->out[0]};
    int dim = call->attrs.axis.dim;
    int64_t count = index->dim[0];
    ls_status status = ls_index_check(index, job.y->dim[dim], why);
    if (status) return status;
    for (int d = 0; d < job.y->ndim; d++)
        if (d != dim) ls_grid_add(&job.grid, job.y->dim[d], job.y->stride[d], job.src->stride[d], 0);
    int64_t positions = ls_grid_size(&job.grid);
    if (positions == 0 || count == 0) return LS_OK;

    size_t items = (size_t)count * sizeof(ls_keyed), bytes = 2 * items + (size_t)count * sizeof(int64_t);
    ls_keyed *unordered = ls_scratch((ls_worker){0, 1}, 0, bytes);
    if (!unordered) return ls_explain(why, LS_ERR_MEMORY, "no memory to order %lld indices", (long long)count);
    int64_t *offsets = (int64_t *)(unordered + 2 * count);
    for (int64_t i = 0; i < count; i++) {
        int64_t row = ls_get_int(index->dtype, index->data, i * index->stride[0]);
        if (!call->attrs.axis.flag || row != call->attrs.axis.k) unordered[job.k++] = (ls_keyed){(uint64_t)row, i};
    }
    job.order = ls_order(unordered, unordered + count, job.k);
    for (int64_t i = 0; i < job.k; i++) offsets[i] = job.order[i].index * job.src->stride[dim];
    job.offsets = offsets;
    job.y_step = job.y->stride[dim];
    job.by_row = positions < LANES * ls_parallel_width();
    job.kernels = ls_combine_kernels();
    ls_parallel(add_slices, &job, ls_workers_for(positions * job.k));
    return LS_OK;
}
