/* row_sums.h - sums over the rows of a gradient, which the operator that writes it leaves for the linear layer behind.
 *
 * The gradient of a bias is the sum of all rows of the gradient that arrives: a pass over it, unless whoever wrote that
 * has added it up on the way. The operators of a step come one by one: so the writer leaves sums of parts of the rows,
 * and the very next operator may find them. */
#ifndef LOCKSTEP_CUDA_ROW_SUMS_H
#define LOCKSTEP_CUDA_ROW_SUMS_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows [rows, n] without gaps, all of them written by one operator. */
typedef struct cuda_row_sums {
    const void *data;
    ls_dtype dtype;
    int64_t rows, n;
} cuda_row_sums;

/* Memory [chunks, n] of f32 for the sums, which the calling operator promises to fill; NULL if they are not wanted. */
float *cuda_leave_sums(cuda_device *d, cudaStream_t stream, cuda_row_sums of, int64_t chunks);
/* What the last operator left for x [rows, n]; *chunks: how many. NULL: nothing. */
const float *cuda_find_sums(const cuda_device *d, cudaStream_t stream, const ls_operand *x, int64_t *chunks);
void cuda_forget_sums(cuda_device *d); /* and free their memory */

#ifdef __cplusplus
}
#endif
#endif
