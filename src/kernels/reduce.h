/* reduce.h - kernels that fold many numbers into few.
 *
 * Every call starts a new fold and returns its result in a wide type: double for floating types, int64_t for integers
 * and bool, so that results of parts can be merged without loss. MOMENTS gives the mean and, through m2, the sum of
 * squared deviations from it; the others ignore m2. Within a call, f32 partial sums stay short (hundreds of terms),
 * which keeps the error of a whole sum near one rounding. MAX and MIN are NaN if any element is.
 * SQUARES and MOMENTS are for floating types only. */
#ifndef LOCKSTEP_KERNELS_REDUCE_H
#define LOCKSTEP_KERNELS_REDUCE_H

#include <lockstep/base.h>

typedef enum ls_summary {
    LS_SUMMARY_SUM,
    LS_SUMMARY_SQUARES,
    LS_SUMMARY_MAX,
    LS_SUMMARY_MIN,
    LS_SUMMARY_MOMENTS,
    LS_SUMMARY_COUNT,
} ls_summary;

/* x [n], n > 0 -> value [1], m2 [1] */
typedef void ls_summary_run_fn(ls_dtype dtype, const void *x, int64_t n, void *value, double *m2);
/* x [rows, n] with `pitch` elements from row to row, rows > 0 -> value [n], m2 [n]: one fold per column */
typedef void ls_summary_columns_fn(ls_dtype dtype, const void *x, int64_t rows, int64_t pitch, int64_t n, void *value,
                                   double *m2);

#define LS_SUMMARY_ROWS 256     /* most rows per call of a columns kernel */
#define LS_SUMMARY_COLUMNS 1024 /* most columns */

typedef struct ls_reduce_kernels {
    ls_summary_run_fn *run[LS_DTYPE_COUNT][LS_SUMMARY_COUNT];
    ls_summary_columns_fn *columns[LS_DTYPE_COUNT][LS_SUMMARY_COUNT];
} ls_reduce_kernels;

/* The table in use. */
const ls_reduce_kernels *ls_reduce_table(void);

extern const ls_reduce_kernels ls_reduce_ref, ls_reduce_neon, ls_reduce_avx2, ls_reduce_avx512;

#endif
