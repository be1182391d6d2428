/* rows.h - operands seen as rows: some dimensions make up a row, the others count the rows.
 *
 * Most operators of this folder work on rows: a softmax on lines along one dimension, a layer norm on the trailing
 * ones, a group norm on channels and pixels. Here any strided operand is cut into such rows, and the rows of several
 * operands are walked together, block by block, by the team of workers. A contiguous row is used in place; any other is
 * gathered into scratch memory first and scattered afterwards, so kernels only ever see contiguous rows. */
#ifndef LOCKSTEP_DEVICE_CPU_ROWS_H
#define LOCKSTEP_DEVICE_CPU_ROWS_H

#include "base/parallel.h"
#include "kernels/element.h"

#include <lockstep/plugin.h>

#define LS_WALK_OPERANDS 6

typedef struct ls_rows {
    char *data;            /* NULL: the operand is absent */
    size_t size;           /* bytes per element */
    int64_t count, length; /* rows, elements per row; row indices count row-major over the dimensions outside the row */
    bool direct;           /* rows are contiguous */
    int32_t outer_ndim, inner_ndim; /* dimensions left after merging; at least one of each */
    int64_t outer_dim[LS_MAX_DIMS], outer_stride[LS_MAX_DIMS];
    int64_t inner_dim[LS_MAX_DIMS], inner_stride[LS_MAX_DIMS];
} ls_rows;

/* The operand as rows over the dimensions whose bit is set in row_dims. NULL gives an absent operand. */
ls_rows ls_rows_of(const ls_operand *operand, uint32_t row_dims);

/* Address of a row. If it has one dimension, its elements are inner_stride[0] apart. */
char *ls_row_at(const ls_rows *rows, int64_t row);

/* Dimensions first .. last-1 as a mask; 1u << d is one dimension. */
static inline uint32_t ls_dims(int32_t first, int32_t last)
{
    return (uint32_t)((1ull << last) - (1ull << first));
}

/* Some consecutive rows of all operands of a walk, evenly spaced in each. */
typedef struct ls_block {
    int64_t index;       /* which block of the walk; its rows may come in several pieces, in order, on one worker */
    int64_t first, rows; /* the rows of this piece */
    bool opens;          /* the first piece of its block */
    ls_matrix at[LS_WALK_OPERANDS];
} ls_block;

typedef void ls_block_fn(void *arg, const ls_block *block);

/* May a result leave the caches before it is read, which hold `bytes` of it? Never if 0. */
bool ls_rows_large(const ls_rows *result, int64_t bytes);
/* May the rows of a large result bypass the caches? They must begin on cache lines; in the place of an earlier operand
 * they have been read anyway. */
bool ls_block_may_stream(const ls_block *block, int result, size_t size);

/* How many rows hold about `elements` elements: a block size that depends only on the shape, so that what is summed per
 * block does not depend on the number of workers. At least 1. */
int64_t ls_block_rows(int64_t length, int64_t elements);

/* Call fn for all rows of n_in inputs followed by n_out outputs, in blocks of block_rows (0: any size). All present
 * operands have the same number of rows; absent ones are NULL in each block. LS_ERR_MEMORY if there is no scratch
 * memory to gather rows. Uses scratch slot 0. */
ls_status ls_rows_walk(const ls_rows *operands, int n_in, int n_out, int64_t block_rows, ls_block_fn *fn, void *arg,
                       ls_message *why);

/* Workers worth waking for this many elements of memory-bound work. */
int ls_workers_for(int64_t elements);

/* The elements of an operand, row-major, as a contiguous array of `dtype`: in place if possible, else converted into
 * `buffer` (of as many elements). NULL for NULL. */
const void *ls_plain(const ls_operand *operand, ls_dtype dtype, void *buffer);
/* The inverse: store totals, row-major, to an operand or add them. Does nothing for NULL. */
void ls_plain_total(const ls_operand *operand, const double *totals, bool accumulate);

int64_t ls_operand_numel(const ls_operand *operand);

#endif
