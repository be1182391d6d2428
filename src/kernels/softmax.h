/* softmax.h - softmax and log softmax kernels on rows.
 *
 * Rows are of `dtype` (f16, bf16, f32, f64), n > 0. A row whose largest element is infinite gives NaN, as in
 * PyTorch. stream: the result is none of the inputs, not read again soon, and may bypass the caches; its rows are then
 * multiples of 64 bytes. */
#ifndef LOCKSTEP_KERNELS_SOFTMAX_H
#define LOCKSTEP_KERNELS_SOFTMAX_H

#include "kernels/element.h"

typedef struct ls_softmax_rows {
    ls_dtype dtype;
    int64_t rows, n;
    ls_matrix x, y; /* y may be x */
    bool stream;
} ls_softmax_rows;

typedef struct ls_softmax_grad_rows {
    ls_dtype dtype;
    int64_t rows, n;
    ls_matrix dy, y, dx; /* dx may be dy */
    bool stream;
} ls_softmax_grad_rows;

typedef struct ls_softmax_kernels {
    int64_t stream_bytes; /* of a result from which on it should bypass the caches; 0: none */
    /* y = exp(x - max) / sum */
    void (*softmax[LS_DTYPE_COUNT])(const ls_softmax_rows *args);
    /* y = x - log sum exp(x) */
    void (*log_softmax[LS_DTYPE_COUNT])(const ls_softmax_rows *args);
    /* dx = y (dy - sum(dy y)) */
    void (*softmax_grad[LS_DTYPE_COUNT])(const ls_softmax_grad_rows *args);
    /* dx = dy - exp(y) sum(dy) */
    void (*log_softmax_grad[LS_DTYPE_COUNT])(const ls_softmax_grad_rows *args);
    /* log sum exp(x) of one row */
    double (*log_sum_exp[LS_DTYPE_COUNT])(ls_dtype dtype, const void *x, int64_t n);
} ls_softmax_kernels;

/* The table in use. Entries for floating types only. */
const ls_softmax_kernels *ls_softmax_table(void);

extern const ls_softmax_kernels ls_softmax_ref, ls_softmax_neon, ls_softmax_neon_bf16, ls_softmax_avx2,
    ls_softmax_avx512, ls_softmax_avx512_bf16;

#endif
