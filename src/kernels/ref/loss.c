/* ref/loss.c - losses in plain scalar C, in double. */
#include "kernels/loss.h"

#include <math.h>

/* Elements of an optional operand: 1 where it is absent. */
static double get_or_one(ls_dtype dtype, const void *data, int64_t i)
{
    return data ? ls_get(dtype, data, i) : 1;
}

static void cross_entropy_slope(const ls_cross_entropy_slope *a)
{
    ls_dtype wide = ls_compute_dtype(a->dtype);
    for (int64_t c = 0; c < a->n; c++) {
        double dx = exp(ls_get(a->dtype, a->x, c) - a->lse) * a->scale - get_or_one(wide, a->weight, c) * a->smooth;
        ls_put(a->dtype, a->dx, c, dx);
    }
}

static double weighted_sum(ls_dtype dtype, const void *x, const void *weight, int64_t n)
{
    double sum = 0;
    for (int64_t c = 0; c < n; c++) sum += ls_get(dtype, x, c) * get_or_one(ls_compute_dtype(dtype), weight, c);
    return sum;
}

/* ---- One element: the loss, and its derivative for x ---------------------------------------------------------- */

static double mse(const ls_pointwise_loss *a, int64_t i)
{
    double d = ls_get(a->dtype, a->x, i) - ls_get(a->dtype, a->t, i);
    return d * d;
}

static double mse_derivative(const ls_pointwise_loss *a, int64_t i)
{
    return 2 * (ls_get(a->dtype, a->x, i) - ls_get(a->dtype, a->t, i));
}

static double smooth_l1(const ls_pointwise_loss *a, int64_t i)
{
    double d = fabs(ls_get(a->dtype, a->x, i) - ls_get(a->dtype, a->t, i));
    return d < a->beta ? d * d / (2 * a->beta) : d - a->beta / 2;
}

static double smooth_l1_derivative(const ls_pointwise_loss *a, int64_t i)
{
    double d = ls_get(a->dtype, a->x, i) - ls_get(a->dtype, a->t, i);
    if (fabs(d) < a->beta) return d / a->beta;
    return d == 0 || d != d ? d : copysign(1, d);
}

static double bce(const ls_pointwise_loss *a, int64_t i)
{
    double x = ls_get(a->dtype, a->x, i), t = ls_get(a->dtype, a->t, i);
    double positive = 1 + (get_or_one(a->dtype, a->pos_weight, i) - 1) * t;
    double log_one_plus_exp = log1p(exp(-fabs(x))) + fmax(-x, 0); /* of -x */
    return get_or_one(a->dtype, a->weight, i) * ((1 - t) * x + positive * log_one_plus_exp);
}

static double bce_derivative(const ls_pointwise_loss *a, int64_t i)
{
    double x = ls_get(a->dtype, a->x, i), t = ls_get(a->dtype, a->t, i);
    double positive = 1 + (get_or_one(a->dtype, a->pos_weight, i) - 1) * t;
    return get_or_one(a->dtype, a->weight, i) * ((1 - t) - positive / (1 + exp(x)));
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

#define ROWS(name)                                                                                                     \
    static double name##_row(const ls_pointwise_loss *a)                                                               \
    {                                                                                                                  \
        double sum = 0;                                                                                                \
        for (int64_t i = 0; i < a->n; i++) {                                                                           \
            double loss = name(a, i);                                                                                  \
            if (a->loss) ls_put(ls_compute_dtype(a->dtype), a->loss, i, loss);                                         \
            sum += loss;                                                                                               \
        }                                                                                                              \
        return sum;                                                                                                    \
    }                                                                                                                  \
    static void name##_slope_row(const ls_pointwise_loss *a)                                                           \
    {                                                                                                                  \
        for (int64_t i = 0; i < a->n; i++) {                                                                           \
            double dloss = get_or_one(ls_compute_dtype(a->dtype), a->dloss, i);                                        \
            ls_put(a->dtype, a->dx, i, dloss * a->scale * name##_derivative(a, i));                                    \
        }                                                                                                              \
    }

ROWS(mse)
ROWS(smooth_l1)
ROWS(bce)

#define FLOATS(kernel)                                                                                                 \
    {                                                                                                                  \
        [LS_F16] = kernel, [LS_BF16] = kernel, [LS_F32] = kernel, [LS_F64] = kernel                                    \
    }

const ls_loss_kernels ls_loss_ref = {.cross_entropy_slope = FLOATS(cross_entropy_slope),
                                     .weighted_sum = FLOATS(weighted_sum),
                                     .mse = FLOATS(mse_row),
                                     .smooth_l1 = FLOATS(smooth_l1_row),
                                     .bce = FLOATS(bce_row),
                                     .mse_slope = FLOATS(mse_slope_row),
                                     .smooth_l1_slope = FLOATS(smooth_l1_slope_row),
                                     .bce_slope = FLOATS(bce_slope_row)};
