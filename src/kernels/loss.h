/* loss.h - loss kernels, one row at a time.
 *
 * Rows are of `dtype` (f16, bf16, f32, f64); losses and coefficients are of the compute type: f64 for f64, else f32. */
#ifndef LOCKSTEP_KERNELS_LOSS_H
#define LOCKSTEP_KERNELS_LOSS_H

#include "kernels/element.h"

/* dx[c] = exp(x[c] - lse) scale - weight[c] smooth: the gradient of cross entropy except at its target class. weight
 * [n]: all 1 if absent. */
typedef struct ls_cross_entropy_slope {
    ls_dtype dtype;
    int64_t n;
    const void *x, *weight;
    void *dx;
    double lse, scale, smooth;
} ls_cross_entropy_slope;

/* With d = x - t:
 * mse        d^2
 * smooth_l1  d^2 / (2 beta) where |d| < beta, else |d| - beta / 2
 * bce        weight ((1 - t) x + (1 + (pos_weight - 1) t) log(1 + exp(-x))) */
typedef struct ls_pointwise_loss {
    ls_dtype dtype;
    int64_t n;
    const void *x, *t;
    const void *weight, *pos_weight; /* bce only; 1 if absent */
    double beta;
    void *loss;        /* forward: [n], may be absent */
    const void *dloss; /* backward: [n], absent: 1 */
    double scale;      /* backward: dx = dloss scale loss'(x) */
    void *dx;
} ls_pointwise_loss;

typedef double ls_loss_fn(const ls_pointwise_loss *args);     /* the sum over the row */
typedef void ls_loss_slope_fn(const ls_pointwise_loss *args); /* dx */

typedef struct ls_loss_kernels {
    void (*cross_entropy_slope[LS_DTYPE_COUNT])(const ls_cross_entropy_slope *args);
    /* sum of x[c] weight[c] (weight absent: 1) */
    double (*weighted_sum[LS_DTYPE_COUNT])(ls_dtype dtype, const void *x, const void *weight, int64_t n);
    ls_loss_fn *mse[LS_DTYPE_COUNT], *smooth_l1[LS_DTYPE_COUNT], *bce[LS_DTYPE_COUNT];
    ls_loss_slope_fn *mse_slope[LS_DTYPE_COUNT], *smooth_l1_slope[LS_DTYPE_COUNT], *bce_slope[LS_DTYPE_COUNT];
} ls_loss_kernels;

/* The table in use. Entries for floating types only. */
const ls_loss_kernels *ls_loss_table(void);

extern const ls_loss_kernels ls_loss_ref, ls_loss_neon, ls_loss_neon_bf16, ls_loss_avx2, ls_loss_avx512,
    ls_loss_avx512_bf16;

#endif
