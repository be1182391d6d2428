/* combine.h - kernels that combine several rows into one: sums, maxima, and the position of the maximum.
 *
 * With the channels of a pixel as a row they implement pooling, resizing and their gradients; with the rows of a table,
 * the gradient of an embedding. Element i of a result depends only on element i of each row. Floating types only unless
 * noted; f16 and bf16 are computed in f32 and rounded once. */
#ifndef LOCKSTEP_KERNELS_COMBINE_H
#define LOCKSTEP_KERNELS_COMBINE_H

#include <lockstep/base.h>

/* y[i] += sum over r < count of x[offset[r] + i], for i < n. Types may differ; fast if y has x's type or f32. */
typedef void ls_add_rows_fn(ls_dtype from, ls_dtype to, void *y, const void *x, const int64_t *offset, int64_t count,
                            int64_t n);

typedef enum ls_fold { LS_FOLD_SUM, LS_FOLD_PROD, LS_FOLD_MAX, LS_FOLD_MIN, LS_FOLD_COUNT } ls_fold;

/* y[k][i] = scale * (x[0][i] fold x[1][i] fold ...), left to right, for k < copies and i < n. For all types: integers
 * are exact, wrap around and are not scaled; NaN wins over every number. y may have another type than x if one is f32
 * and the other f16 or bf16; otherwise a row of y may be one of x. */
typedef void ls_fold_rows_fn(ls_dtype from, ls_dtype to, ls_fold fold, double scale, void *const *y, int copies,
                             const void *const *x, int count, int64_t n);

/* Layout of windows: element number `first` of each pixel, then the strides down and across. */
typedef struct ls_window_walk {
    const int64_t *first; /* [pixels] */
    int64_t below, beside;
} ls_window_walk;

/* A row of pixels of y, each made of a window of pixels of x. A window is `down` pixels high, the same along the row,
 * and `across` wide; either may be 0. */
typedef struct ls_window_row {
    int64_t pixels, channels; /* channels of a pixel are contiguous in every operand */
    int64_t step;             /* from pixel to pixel of y */
    int64_t down;
    const int64_t *across; /* [pixels] */
    ls_window_walk x;
    union {
        struct {
            const double *down, *across;
            int64_t pitch;
        } weight; /* sum: [down], [pixels, pitch] */
        struct {
            ls_window_walk walk;
            int64_t step;
            int32_t origin;
        } at; /* max, chosen: see there */
    };
} ls_window_row;

/* y = sum of x, weighted by the product of both weights. */
typedef void ls_window_sum_fn(ls_dtype dtype, void *y, const void *x, const ls_window_row *row);

/* y = the largest of x: the first of equal ones, the last NaN if there is one; where = its position, counted as at.walk
 * says, starting at at.origin, and stored at.step apart per pixel (where may be NULL). An empty window: -infinity,
 * -1. */
typedef void ls_window_max_fn(ls_dtype dtype, void *y, int32_t *where, const void *x, const ls_window_row *row);

/* y = sum of the elements of x whose element of `where`, laid out as at.walk says, equals at.origin + the pixel's
 * number. */
typedef void ls_window_chosen_fn(ls_dtype dtype, void *y, const int32_t *where, const void *x,
                                 const ls_window_row *row);

typedef struct ls_combine_table {
    ls_add_rows_fn *add_rows;
    ls_fold_rows_fn *fold_rows;
    ls_window_sum_fn *sum;
    ls_window_max_fn *max;
    ls_window_chosen_fn *chosen;
} ls_combine_table;

/* The table in use. */
const ls_combine_table *ls_combine_kernels(void);

extern const ls_combine_table ls_combine_ref, ls_combine_neon, ls_combine_neon_bf16, ls_combine_avx2, ls_combine_avx512,
    ls_combine_avx512_bf16;

#endif
