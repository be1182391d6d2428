/* norm.h - kernels of batch, layer and group normalisation.
 *
 * Rows x, y, dy, ... are of `dtype` (f16, bf16, f32, f64). Everything else is of the compute type: f64 for f64, else
 * f32. An absent operand is NULL. Statistics not computed here come from the MOMENTS folds of reduce.h.
 *
 * stream: the result is not read again soon and may bypass the caches; its rows are then multiples of 64 bytes. */
#ifndef LOCKSTEP_KERNELS_NORM_H
#define LOCKSTEP_KERNELS_NORM_H

#include "kernels/element.h"

#define LS_PICKED_TABLES 3

/* For each row: sum = at[0][row] + at[1][row] + ..., rounded to `dtype` after each addition. */
typedef struct ls_picked_rows {
    ls_dtype dtype;
    int64_t rows, n;
    int tables;                              /* 1 .. LS_PICKED_TABLES */
    const void *const *at[LS_PICKED_TABLES]; /* of each table: [rows] pointers to n elements */
    ls_matrix sum;
} ls_picked_rows;

/* For each row: s = x + residual, mean and 1 / sqrt(var + epsilon) of s, y = (s - mean) rstd weight + bias. */
typedef struct ls_layer_norm_rows {
    ls_dtype dtype;
    int64_t rows, n;
    ls_matrix x, residual, y;
    ls_matrix sum;             /* receives s, rounded to `dtype`, before it is normalised; with a residual only */
    const void *weight, *bias; /* [n], required */
    void *mean, *rstd;         /* [rows] */
    double epsilon;
    bool stream; /* y, which is then neither x nor sum */
} ls_layer_norm_rows;

/* For each row, with xhat = (x - mean) rstd and g = dy weight: dx = more + rstd (g - avg(g) - xhat avg(g xhat)).
 * Over all rows: dweight += dy xhat, dbias += dy. */
typedef struct ls_layer_norm_grad_rows {
    ls_dtype dtype;
    int64_t rows, n;
    ls_matrix dy, x, dx;
    ls_matrix more;          /* may be dx itself */
    const void *mean, *rstd; /* [rows] */
    const void *weight;      /* [n], required */
    void *dweight, *dbias;   /* [n], both or neither */
    bool stream;             /* dx, which is then none of the inputs */
} ls_layer_norm_grad_rows;

/* The rest works on rows whose coefficients are one value each (step 0) or one per column (step 1). A mask has a bit
 * per element of its row, lowest bit first, in whole 64-bit words; its pitch counts bytes. */

/* y = x scale + shift + residual, then relu if requested; mask: set where the input of relu was positive. */
typedef struct ls_norm_apply {
    ls_dtype dtype;
    int64_t rows, n, step;
    ls_matrix x, residual, y, mask;
    const void *scale, *shift;
    bool relu;
    bool stream; /* y */
} ls_norm_apply;

/* With d = dy where the mask is set (all of dy where it is absent): sum = total of d, dot = total of d (x - mean), over
 * everything (step 0) or per column (step 1), from zero. masked: where d is stored. rows at most LS_NORM_ROWS, columns
 * at most LS_NORM_COLUMNS where step is 1. */
typedef struct ls_norm_totals {
    ls_dtype dtype;
    int64_t rows, n, step;
    ls_matrix dy, x, mask, masked;
    const void *mean;
    double *sum, *dot;
} ls_norm_totals;

#define LS_NORM_ROWS 256
#define LS_NORM_COLUMNS 1024

/* dx = d scale + x slope + shift, with d as above. */
typedef struct ls_norm_slope {
    ls_dtype dtype;
    int64_t rows, n, step;
    ls_matrix dy, x, mask, dx;
    const void *scale, *slope, *shift;
    bool stream; /* dx */
} ls_norm_slope;

typedef struct ls_norm_kernels {
    int64_t stream_bytes; /* of a result from which on it should bypass the caches; 0: none */
    void (*add_picked[LS_DTYPE_COUNT])(const ls_picked_rows *args);
    void (*layer_norm[LS_DTYPE_COUNT])(const ls_layer_norm_rows *args);
    void (*layer_norm_grad[LS_DTYPE_COUNT])(const ls_layer_norm_grad_rows *args);
    void (*apply[LS_DTYPE_COUNT])(const ls_norm_apply *args);
    void (*totals[LS_DTYPE_COUNT])(const ls_norm_totals *args);
    void (*slope[LS_DTYPE_COUNT])(const ls_norm_slope *args);
} ls_norm_kernels;

/* The table in use. Entries for floating types only. */
const ls_norm_kernels *ls_norm_table(void);

extern const ls_norm_kernels ls_norm_ref, ls_norm_neon, ls_norm_neon_bf16, ls_norm_avx2, ls_norm_avx512,
    ls_norm_avx512_bf16;

#endif
