/* combine.h - kernels that make one row of elements out of several: sums, maxima, and who gave the maximum.
 *
 * With the channels of a pixel as a row they are pooling, resizing and the gradients of both; with the rows of a table
 * they are the gradient of an embedding. Element i of a result depends on element i of each row only. All are for
 * floating types where nothing else is said; halves are computed in f32 and rounded once. */
#ifndef LOCKSTEP_KERNELS_COMBINE_H
#define LOCKSTEP_KERNELS_COMBINE_H

#include <lockstep/base.h>

/* y[i] += sum over r < count of x[offset[r] + i], for i < n. Types may differ; x's own and f32 are fast. */
typedef void ls_add_rows_fn(ls_dtype from, ls_dtype to, void *y, const void *x, const int64_t *offset, int64_t count,
                            int64_t n);

typedef enum ls_fold { LS_FOLD_SUM, LS_FOLD_PROD, LS_FOLD_MAX, LS_FOLD_MIN, LS_FOLD_COUNT } ls_fold;

/* y[k][i] = scale * (x[0][i] fold x[1][i] fold ...), from left to right, for k < copies and i < n. For all types:
 * integers are exact, wrap around and are not scaled; a NaN wins over every number. y may be of another type than x
 * where one of them is f32 and the other a half; else a row of y may be one of x. */
typedef void ls_fold_rows_fn(ls_dtype from, ls_dtype to, ls_fold fold, double scale, void *const *y, int copies,
                             const void *const *x, int count, int64_t n);

/* How a window is walked: its first element is number `first` for each pixel,
 * the next ones lie so far below, beside. */
typedef struct ls_window_walk {
    const int64_t *first; /* [pixels] */
    int64_t below, beside;
} ls_window_walk;

/* A row of pixels of y, each made of a window of pixels of x. A window is `down` pixels high, the same along the row,
 * and `across` wide; either may be 0. */
typedef struct ls_window_row {
    int64_t pixels, channels; /* channels of a pixel lie side by side in every operand */
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

/* y = the largest of x, the first one of equals, the last NaN if there is one; where = its position, which is walked as
 * at.walk says, from at.origin on, and stored at.step from pixel to pixel (where may be NULL). Of no pixel: -infinity
 * and -1. */
typedef void ls_window_max_fn(ls_dtype dtype, void *y, int32_t *where, const void *x, const ls_window_row *row);

/* y = sum of those of x whose element of `where`, walked as at.walk says, is at.origin + the number of the pixel. */
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
