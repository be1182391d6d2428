/* ref/softmax.c - softmax in plain scalar C, in double. */
#include "kernels/softmax.h"

#include <math.h>

static const void *row_of(ls_dtype dtype, ls_matrix m, int64_t row)
{
    return (const char *)m.data + row * m.pitch * (int64_t)ls_dtype_size(dtype);
}

/* Kept apart: beside a large maximum, log(sum) would be lost in their sum. */
typedef struct exponentials {
    double max, sum; /* of x; of exp(x - max) */
} exponentials;

static exponentials exponentials_of(ls_dtype dtype, const void *x, int64_t n)
{
    exponentials e = {.max = -INFINITY};
    for (int64_t i = 0; i < n; i++) {
        double v = ls_get(dtype, x, i);
        if (v > e.max || v != v) e.max = v;
    }
    for (int64_t i = 0; i < n; i++) e.sum += exp(ls_get(dtype, x, i) - e.max);
    return e;
}

static double log_sum_exp(ls_dtype dtype, const void *x, int64_t n)
{
    exponentials e = exponentials_of(dtype, x, n);
    return e.max + log(e.sum);
}

static void softmax(const ls_softmax_rows *a)
{
    for (int64_t r = 0; r < a->rows; r++) {
        const void *x = row_of(a->dtype, a->x, r);
        exponentials e = exponentials_of(a->dtype, x, a->n);
        for (int64_t i = 0; i < a->n; i++)
            ls_put(a->dtype, a->y.data, r * a->y.pitch + i, exp(ls_get(a->dtype, x, i) - e.max) / e.sum);
    }
}

static void log_softmax(const ls_softmax_rows *a)
{
    for (int64_t r = 0; r < a->rows; r++) {
        const void *x = row_of(a->dtype, a->x, r);
        exponentials e = exponentials_of(a->dtype, x, a->n);
        for (int64_t i = 0; i < a->n; i++)
            ls_put(a->dtype, a->y.data, r * a->y.pitch + i, ls_get(a->dtype, x, i) - e.max - log(e.sum));
    }
}

static void softmax_grad(const ls_softmax_grad_rows *a)
{
    for (int64_t r = 0; r < a->rows; r++) {
        const void *dy = row_of(a->dtype, a->dy, r), *y = row_of(a->dtype, a->y, r);
        double dot = 0;
        for (int64_t i = 0; i < a->n; i++) dot += ls_get(a->dtype, dy, i) * ls_get(a->dtype, y, i);
        for (int64_t i = 0; i < a->n; i++) {
            double dx = ls_get(a->dtype, y, i) * (ls_get(a->dtype, dy, i) - dot);
            ls_put(a->dtype, a->dx.data, r * a->dx.pitch + i, dx);
        }
    }
}

static void log_softmax_grad(const ls_softmax_grad_rows *a)
{
    for (int64_t r = 0; r < a->rows; r++) {
        const void *dy = row_of(a->dtype, a->dy, r), *y = row_of(a->dtype, a->y, r);
        double sum = 0;
        for (int64_t i = 0; i < a->n; i++) sum += ls_get(a->dtype, dy, i);
        for (int64_t i = 0; i < a->n; i++) {
            double dx = ls_get(a->dtype, dy, i) - exp(ls_get(a->dtype, y, i)) * sum;
            ls_put(a->dtype, a->dx.data, r * a->dx.pitch + i, dx);
        }
    }
}

#define FLOATS(kernel)                                                                                                 \
    {                                                                                                                  \
        [LS_F16] = kernel, [LS_BF16] = kernel, [LS_F32] = kernel, [LS_F64] = kernel                                    \
    }

const ls_softmax_kernels ls_softmax_ref = {.softmax = FLOATS(softmax),
                                           .log_softmax = FLOATS(log_softmax),
                                           .softmax_grad = FLOATS(softmax_grad),
                                           .log_softmax_grad = FLOATS(log_softmax_grad),
                                           .log_sum_exp = FLOATS(log_sum_exp)};
