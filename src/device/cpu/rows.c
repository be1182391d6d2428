/* rows.c - strided operands as rows, and the walk over them. */
#include "device/cpu/rows.h"

#include "device/cpu/cpu.h"

#include <stdatomic.h>

int64_t ls_operand_numel(const ls_operand *operand)
{
    int64_t n = 1;
    for (int32_t d = 0; d < operand->ndim; d++) n *= operand->dim[d];
    return n;
}

/* ---- Cutting an operand into rows ----------------------------------------------------------------------------- */

/* Append a dimension, merged into the previous one if both step through memory as one. */
static void add_dim(int32_t *ndim, int64_t *dim, int64_t *stride, int64_t size, int64_t step)
{
    if (size == 1) return;
    if (*ndim && stride[*ndim - 1] == size * step) {
        dim[*ndim - 1] *= size;
        stride[*ndim - 1] = step;
    } else {
        dim[*ndim] = size;
        stride[*ndim] = step;
        (*ndim)++;
    }
}

ls_rows ls_rows_of(const ls_operand *operand, uint32_t row_dims)
{
    ls_rows rows = {.count = 1, .length = 1, .direct = true};
    if (!operand) return rows;
    rows.data = operand->data;
    rows.size = ls_dtype_size(operand->dtype);
    for (int32_t d = 0; d < operand->ndim; d++) {
        int64_t size = operand->dim[d], stride = operand->stride[d];
        if (row_dims >> d & 1) {
            rows.length *= size;
            add_dim(&rows.inner_ndim, rows.inner_dim, rows.inner_stride, size, stride);
        } else {
            rows.count *= size;
            add_dim(&rows.outer_ndim, rows.outer_dim, rows.outer_stride, size, stride);
        }
    }
    if (!rows.outer_ndim) {
        rows.outer_ndim = 1;
        rows.outer_dim[0] = 1;
    }
    if (!rows.inner_ndim) {
        rows.inner_ndim = 1;
        rows.inner_dim[0] = rows.inner_stride[0] = 1;
    }
    rows.direct = rows.inner_ndim == 1 && rows.inner_stride[0] == 1;
    return rows;
}

char *ls_row_at(const ls_rows *rows, int64_t row)
{
    int64_t offset = 0;
    for (int32_t d = rows->outer_ndim - 1; d > 0; d--) {
        offset += row % rows->outer_dim[d] * rows->outer_stride[d];
        row /= rows->outer_dim[d];
    }
    return rows->data + (offset + row * rows->outer_stride[0]) * (int64_t)rows->size;
}

/* Number of evenly spaced rows starting at `row`: up to the end of the innermost dimension outside the row. */
static int64_t even_rows(const ls_rows *rows, int64_t row)
{
    int64_t run = rows->outer_dim[rows->outer_ndim - 1];
    return run - row % run;
}

static int64_t row_step(const ls_rows *rows)
{
    return rows->outer_stride[rows->outer_ndim - 1];
}

/* ---- Gathering and scattering --------------------------------------------------------------------------------- */

/* Copy a strided matrix [m, n]; the order of loops follows the smaller strides of the strided side. */
#define COPY_MATRIX(type)                                                                                              \
    for (int64_t i = 0; i < m; i++)                                                                                    \
        for (int64_t j = 0; j < n; j++)                                                                                \
    ((type *)to)[i * to_i + j * to_j] = ((const type *)from)[i * from_i + j * from_j]

static void copy_matrix(size_t size, int64_t m, int64_t n, void *to, int64_t to_i, int64_t to_j, const void *from,
                        int64_t from_i, int64_t from_j)
{
    switch (size) {
    case 1: COPY_MATRIX(uint8_t); break;
    case 2: COPY_MATRIX(uint16_t); break;
    case 4: COPY_MATRIX(uint32_t); break;
    default: COPY_MATRIX(uint64_t); break;
    }
}

/* Copy n rows between the operand and a buffer of plain rows [n, length]. */
static void transfer(const ls_rows *rows, int64_t first, int64_t n, char *buffer, bool gather)
{
    char *base = ls_row_at(rows, first);
    int32_t last = rows->inner_ndim - 1;
    int64_t run = rows->inner_dim[last], step = rows->inner_stride[last], across = row_step(rows);
    int64_t index[LS_MAX_DIMS] = {0}, offset = 0;
    for (int64_t done = 0; done < rows->length; done += run) {
        char *far = base + offset * (int64_t)rows->size, *near = buffer + done * (int64_t)rows->size;
        bool rows_inside = across < step; /* neighbours in memory are in different rows */
        int64_t m = rows_inside ? run : n, far_m = rows_inside ? step : across, near_m = rows_inside ? 1 : rows->length;
        int64_t k = rows_inside ? n : run, far_k = rows_inside ? across : step, near_k = rows_inside ? rows->length : 1;
        if (gather) copy_matrix(rows->size, m, k, near, near_m, near_k, far, far_m, far_k);
        else copy_matrix(rows->size, m, k, far, far_m, far_k, near, near_m, near_k);
        for (int32_t d = last - 1; d >= 0; d--) {
            offset += rows->inner_stride[d];
            if (++index[d] < rows->inner_dim[d]) break;
            offset -= index[d] * rows->inner_stride[d];
            index[d] = 0;
        }
    }
}

/* ---- Past the caches ------------------------------------------------------------------------------------------ */

bool ls_rows_large(const ls_rows *result, int64_t bytes)
{
    return bytes && result->data && result->direct && result->count * result->length * (int64_t)result->size >= bytes;
}

bool ls_block_may_stream(const ls_block *block, int result, size_t size)
{
    ls_matrix to = block->at[result];
    for (int i = 0; i < result; i++)
        if (block->at[i].data == to.data) return false;
    return ((uintptr_t)to.data | (uintptr_t)(to.pitch * (int64_t)size)) % 64 == 0;
}

/* ---- The walk ------------------------------------------------------------------------------------------------- */

typedef struct walk {
    const ls_rows *operands;
    int n_in, n;
    int64_t count, block_rows;
    size_t buffer_bytes[LS_WALK_OPERANDS], scratch_bytes;
    ls_block_fn *fn;
    void *arg;
    atomic_bool out_of_memory;
} walk;

static void walk_block(const walk *w, ls_block *block, int64_t end, char *scratch)
{
    while (block->first < end) {
        block->rows = end - block->first;
        for (int k = 0; k < w->n; k++) {
            if (!w->operands[k].data) continue;
            int64_t even = even_rows(&w->operands[k], block->first);
            if (even < block->rows) block->rows = even;
        }
        char *buffer = scratch;
        for (int k = 0; k < w->n; k++) {
            const ls_rows *rows = &w->operands[k];
            if (!rows->data) continue;
            if (rows->direct) {
                block->at[k] = (ls_matrix){ls_row_at(rows, block->first), row_step(rows)};
            } else {
                block->at[k] = (ls_matrix){buffer, rows->length};
                if (k < w->n_in) transfer(rows, block->first, block->rows, buffer, true);
            }
            buffer += w->buffer_bytes[k];
        }
        w->fn(w->arg, block);
        for (int k = w->n_in; k < w->n; k++) {
            if (w->operands[k].data && !w->operands[k].direct)
                transfer(&w->operands[k], block->first, block->rows, block->at[k].data, false);
        }
        block->first += block->rows;
        block->opens = false;
    }
}

static void walk_worker(void *arg, ls_worker worker)
{
    walk *w = arg;
    int64_t blocks = (w->count + w->block_rows - 1) / w->block_rows, begin, end;
    ls_worker_range(worker, blocks, 1, &begin, &end);
    char *scratch = NULL;
    if (begin < end && w->scratch_bytes) {
        scratch = ls_scratch(worker, 0, w->scratch_bytes);
        if (!scratch) {
            atomic_store(&w->out_of_memory, true);
            return;
        }
    }
    for (int64_t b = begin; b < end; b++) {
        int64_t first = b * w->block_rows, last = first + w->block_rows;
        ls_block block = {.index = b, .first = first, .opens = true};
        walk_block(w, &block, last < w->count ? last : w->count, scratch);
    }
}

int64_t ls_block_rows(int64_t length, int64_t elements)
{
    int64_t rows = length > 0 ? elements / length : elements;
    return rows < 1 ? 1 : rows;
}

int ls_workers_for(int64_t elements)
{
    int64_t workers = elements / 8192;
    return workers < 1 ? 1 : workers > 4096 ? 4096 : (int)workers;
}

ls_status ls_rows_walk(const ls_rows *operands, int n_in, int n_out, int64_t block_rows, ls_block_fn *fn, void *arg,
                       ls_message *why)
{
    walk w = {.operands = operands, .n_in = n_in, .n = n_in + n_out, .block_rows = block_rows, .fn = fn, .arg = arg};
    int64_t length = 0;
    bool all_direct = true;
    for (int k = 0; k < w.n; k++) {
        if (!operands[k].data) continue;
        w.count = operands[k].count;
        if (operands[k].length > length) length = operands[k].length;
        all_direct = all_direct && operands[k].direct;
    }
    if (!w.block_rows) {
        w.block_rows = ls_block_rows(length, 16384);
        if (!all_direct && w.block_rows < 16) w.block_rows = 16; /* gathering uses whole cache lines */
    }
    if (w.block_rows > w.count) w.block_rows = w.count;
    for (int k = 0; k < w.n; k++) {
        if (!operands[k].data || operands[k].direct) continue;
        w.buffer_bytes[k] = ((size_t)(w.block_rows * operands[k].length) * operands[k].size + 63) / 64 * 64;
        w.scratch_bytes += w.buffer_bytes[k];
    }
    if (w.count > 0) ls_parallel(walk_worker, &w, ls_workers_for(w.count * length));
    if (atomic_load(&w.out_of_memory)) return ls_explain(why, LS_ERR_MEMORY, "no scratch memory to gather rows");
    return LS_OK;
}

/* ---- Plain arrays --------------------------------------------------------------------------------------------- */

static bool is_plain(const ls_operand *operand, ls_dtype dtype)
{
    if (operand->dtype != dtype) return false;
    ls_rows rows = ls_rows_of(operand, ls_dims(0, operand->ndim));
    return rows.direct || rows.length == 0;
}

/* Elements between data and the element with row-major index i. */
static int64_t element_offset(const ls_operand *operand, int64_t i)
{
    int64_t offset = 0;
    for (int32_t d = operand->ndim - 1; d >= 0; d--) {
        offset += i % operand->dim[d] * operand->stride[d];
        i /= operand->dim[d];
    }
    return offset;
}

const void *ls_plain(const ls_operand *operand, ls_dtype dtype, void *buffer)
{
    if (!operand || is_plain(operand, dtype)) return operand ? operand->data : NULL;
    for (int64_t i = 0, n = ls_operand_numel(operand); i < n; i++)
        ls_put(dtype, buffer, i, ls_get(operand->dtype, operand->data, element_offset(operand, i)));
    return buffer;
}

void ls_plain_total(const ls_operand *operand, const double *totals, bool accumulate)
{
    if (!operand) return;
    for (int64_t i = 0, n = ls_operand_numel(operand); i < n; i++) {
        int64_t at = element_offset(operand, i);
        double before = accumulate ? ls_get(operand->dtype, operand->data, at) : 0;
        ls_put(operand->dtype, operand->data, at, before + totals[i]);
    }
}
