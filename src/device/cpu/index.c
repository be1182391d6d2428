/* index.c - elements and slices gathered by an index tensor, and code shared by all operators with indices. */
#include "device/cpu/index.h"

#include "base/parallel.h"
#include "device/cpu/cpu.h"
#include "device/cpu/grid.h"
#include "kernels/element.h"

#include <stdatomic.h>
#include <string.h>

/* ---- Range ---------------------------------------------------------------------------------------------------- */

typedef struct range_check {
    const ls_operand *index;
    ls_grid grid;
    int64_t limit;
    atomic_bool failed;
} range_check;

static bool all_below(const int64_t *index, int64_t n, int64_t limit)
{
    int64_t signs = 0; /* negative if any index, or its distance from the last valid one, is */
#pragma GCC unroll 4
    for (int64_t i = 0; i < n; i++) signs |= index[i] | (limit - 1 - index[i]);
    return signs >= 0;
}

static void check_range(void *arg, int64_t begin, int64_t end)
{
    range_check *job = arg;
    int64_t buffer[LS_INDEX_CHUNK];
    for (ls_grid_run span; begin < end; begin += span.size) {
        span = ls_grid_span(&job->grid, begin, ls_index_chunk_end(begin, end));
        const int64_t *index = ls_indices(job->index, span.at[0], span.step[0], span.size, buffer);
        if (!all_below(index, span.size, job->limit)) atomic_store(&job->failed, true);
    }
}

static ls_grid grid_of(const ls_operand *index)
{
    ls_grid grid = {0};
    for (int d = 0; d < index->ndim; d++) ls_grid_add(&grid, index->dim[d], index->stride[d], 0, 0);
    return grid;
}

/* Reports the first index that is out of range. */
static ls_status report_first(const ls_operand *index, int64_t limit, ls_message *why)
{
    ls_grid grid = grid_of(index);
    int64_t at = 0, value;
    do value = ls_get_int(index->dtype, index->data, ls_grid_span(&grid, at, at + 1).at[0]);
    while (all_below(&value, 1, limit) && ++at < ls_grid_size(&grid));
    return ls_explain(why, LS_ERR_VALUE, "index %lld at position %lld is out of range for %lld rows", (long long)value,
                      (long long)at, (long long)limit);
}

ls_status ls_index_check(const ls_operand *index, int64_t limit, ls_message *why)
{
    range_check job = {.index = index, .grid = grid_of(index), .limit = limit};
    ls_parallel_for(ls_grid_size(&job.grid), LS_INDEX_GRAIN, check_range, &job);
    return atomic_load(&job.failed) ? report_first(index, limit, why) : LS_OK;
}

/* ---- Picking -------------------------------------------------------------------------------------------------- */

/* y[p] = x[p, with index[p] along the indexed dimension], for all positions p of y. */
typedef struct picking {
    const ls_operand *x, *index, *y;
    ls_grid grid;             /* offsets in y, x, index */
    int64_t limit, pick_step; /* of x, along the indexed dimension */
    atomic_bool failed;
} picking;

static void pick_elements(const picking *job, const ls_grid_run *span, const int64_t *index)
{
    int64_t size = (int64_t)ls_dtype_size(job->y->dtype), n = span->size;
    int64_t pick = job->pick_step * size, to = span->step[0] * size, from = span->step[1] * size;
    char *y = ls_element_at(job->y, span->at[0]);
    const char *x = ls_element_at(job->x, span->at[1]);
#define PICK(bytes)                                                                                                    \
    case bytes:                                                                                                        \
        _Pragma("GCC unroll 4") for (int64_t i = 0; i < n; i++, y += to, x += from)                                    \
            memcpy(y, x + index[i] * pick, bytes);                                                                     \
        break;
    switch (size) {
        PICK(1)
        PICK(2)
        PICK(4)
        PICK(8)
    }
#undef PICK
}

static void pick_range(void *arg, int64_t begin, int64_t end)
{
    picking *job = arg;
    int64_t buffer[LS_INDEX_CHUNK];
    for (ls_grid_run span; begin < end; begin += span.size) {
        span = ls_grid_span(&job->grid, begin, end);
        bool row = span.step[2] == 0 && span.step[0] == 1 && span.step[1] == 1; /* one index for the whole run */
        if (!row && span.size > LS_INDEX_CHUNK) span.size = LS_INDEX_CHUNK;
        int64_t count = row ? 1 : span.size;
        const int64_t *index = ls_indices(job->index, span.at[2], span.step[2], count, buffer);
        if (!all_below(index, count, job->limit)) {
            atomic_store(&job->failed, true);
        } else if (row) {
            const void *from = ls_element_at(job->x, span.at[1] + index[0] * job->pick_step);
            memcpy(ls_element_at(job->y, span.at[0]), from, (size_t)span.size * ls_dtype_size(job->y->dtype));
        } else {
            pick_elements(job, &span, index);
        }
    }
}

static ls_status pick(picking *job, ls_message *why)
{
    ls_parallel_for(ls_grid_size(&job->grid), LS_INDEX_GRAIN, pick_range, job);
    return atomic_load(&job->failed) ? report_first(job->index, job->limit, why) : LS_OK;
}

/* in: x, index i64 (as many dimensions, sizes at most x's except along dim)  out: y, of index's shape.   axis: dim
 * y[i,j,k] = x[i,index[i,j,k],k] for dim 1. */
ls_status ls_cpu_gather(const ls_call *call, ls_message *why)
{
    picking job = {.x = call->in[0], .index = call->in[1], .y = call->out[0], .limit = 1};
    int dim = call->attrs.axis.dim;
    if (job.x->ndim > 0) {
        job.limit = job.x->dim[dim];
        job.pick_step = job.x->stride[dim];
    }
    for (int d = 0; d < job.y->ndim; d++)
        ls_grid_add(&job.grid, job.y->dim[d], job.y->stride[d], d == dim ? 0 : job.x->stride[d], job.index->stride[d]);
    return pick(&job, why);
}

/* in: x, index i64 [K]  out: y, of x's shape except K along dim.   axis: dim */
ls_status ls_cpu_index_select(const ls_call *call, ls_message *why)
{
    picking job = {.x = call->in[0], .index = call->in[1], .y = call->out[0]};
    int dim = call->attrs.axis.dim;
    job.limit = job.x->dim[dim];
    job.pick_step = job.x->stride[dim];
    for (int d = 0; d < job.y->ndim; d++) {
        bool picked = d == dim;
        ls_grid_add(&job.grid, job.y->dim[d], job.y->stride[d], picked ? 0 : job.x->stride[d],
                    picked ? job.index->stride[0] : 0);
    }
    return pick(&job, why);
}

/* in: weight [V,D], index i64 [...]  out: y [...,D]
 * Its gradient is index_add along dim 0, with index and dy flattened to [K] and [K,D]. */
ls_status ls_cpu_embedding(const ls_call *call, ls_message *why)
{
    picking job = {.x = call->in[0], .index = call->in[1], .y = call->out[0]};
    job.limit = job.x->dim[0];
    job.pick_step = job.x->stride[0];
    int last = job.y->ndim - 1;
    for (int d = 0; d < last; d++) ls_grid_add(&job.grid, job.y->dim[d], job.y->stride[d], 0, job.index->stride[d]);
    ls_grid_add(&job.grid, job.y->dim[last], job.y->stride[last], job.x->stride[1], 0);
    return pick(&job, why);
}
