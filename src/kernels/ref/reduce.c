/* ref/reduce.c - folds in plain scalar C, in double and int64_t. */
#include "kernels/reduce.h"

#include "kernels/element.h"

static double fold_float(ls_summary fold, ls_dtype dtype, const void *x, int64_t n, int64_t stride, double *m2)
{
    double value = fold == LS_SUMMARY_MAX || fold == LS_SUMMARY_MIN ? ls_get(dtype, x, 0) : 0;
    for (int64_t i = 0; i < n; i++) {
        double v = ls_get(dtype, x, i * stride);
        switch (fold) {
        case LS_SUMMARY_SQUARES: value += v * v; break;
        case LS_SUMMARY_MAX: value = v > value || v != v ? v : value; break;
        case LS_SUMMARY_MIN: value = v < value || v != v ? v : value; break;
        default: value += v; break;
        }
    }
    if (fold != LS_SUMMARY_MOMENTS) return value;
    value /= (double)n;
    *m2 = 0;
    for (int64_t i = 0; i < n; i++) {
        double deviation = ls_get(dtype, x, i * stride) - value;
        *m2 += deviation * deviation;
    }
    return value;
}

static int64_t fold_int(ls_summary fold, ls_dtype dtype, const void *x, int64_t n, int64_t stride)
{
    int64_t value = ls_get_int(dtype, x, 0);
    for (int64_t i = 1; i < n; i++) {
        int64_t v = ls_get_int(dtype, x, i * stride);
        switch (fold) {
        case LS_SUMMARY_MAX: value = v > value ? v : value; break;
        case LS_SUMMARY_MIN: value = v < value ? v : value; break;
        default: value = (int64_t)((uint64_t)value + (uint64_t)v); break; /* wraps around, as in PyTorch */
        }
    }
    return value;
}

static inline void fold_columns(ls_summary fold, ls_dtype dtype, const void *x, int64_t rows, int64_t pitch, int64_t n,
                                void *value, double *m2)
{
    const char *column = x;
    for (int64_t j = 0; j < n; j++, column += ls_dtype_size(dtype)) {
        if (ls_dtype_is_float(dtype)) ((double *)value)[j] = fold_float(fold, dtype, column, rows, pitch, m2 + j);
        else ((int64_t *)value)[j] = fold_int(fold, dtype, column, rows, pitch);
    }
}

#define FOLD(name, fold)                                                                                               \
    static void name##_columns(ls_dtype dtype, const void *x, int64_t rows, int64_t pitch, int64_t n, void *value,     \
                               double *m2)                                                                             \
    {                                                                                                                  \
        fold_columns(fold, dtype, x, rows, pitch, n, value, m2);                                                       \
    }                                                                                                                  \
    static void name##_run(ls_dtype dtype, const void *x, int64_t n, void *value, double *m2)                          \
    {                                                                                                                  \
        fold_columns(fold, dtype, x, n, 1, 1, value, m2);                                                              \
    }

FOLD(sum, LS_SUMMARY_SUM)
FOLD(squares, LS_SUMMARY_SQUARES)
FOLD(max, LS_SUMMARY_MAX)
FOLD(min, LS_SUMMARY_MIN)
FOLD(moments, LS_SUMMARY_MOMENTS)

#define ALL_FOLDS(shape)                                                                                               \
    {                                                                                                                  \
        [LS_SUMMARY_SUM] = sum_##shape, [LS_SUMMARY_SQUARES] = squares_##shape, [LS_SUMMARY_MAX] = max_##shape,        \
        [LS_SUMMARY_MIN] = min_##shape, [LS_SUMMARY_MOMENTS] = moments_##shape,                                        \
    }

const ls_reduce_kernels ls_reduce_ref = {
#define LS_DTYPE(symbol, name, bytes, is_float) [symbol] = ALL_FOLDS(run),
    .run = {LS_DTYPE_LIST(LS_DTYPE)},
#undef LS_DTYPE
#define LS_DTYPE(symbol, name, bytes, is_float) [symbol] = ALL_FOLDS(columns),
    .columns = {LS_DTYPE_LIST(LS_DTYPE)},
#undef LS_DTYPE
};
