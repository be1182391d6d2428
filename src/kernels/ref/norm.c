/* ref/norm.c - normalisation in plain scalar C, in double. */
#include "kernels/norm.h"

#include <math.h>

static double get(ls_dtype dtype, ls_matrix m, int64_t row, int64_t i)
{
    return m.data ? ls_get(dtype, m.data, row * m.pitch + i) : 0;
}

static void put(ls_dtype dtype, ls_matrix m, int64_t row, int64_t i, double value)
{
    if (m.data) ls_put(dtype, m.data, row * m.pitch + i, value);
}

static double coefficient(ls_dtype dtype, const void *vector, int64_t i)
{
    return ls_get(ls_compute_dtype(dtype), vector, i);
}

/* x + residual as it reads back from memory. */
static double stored_sum(const ls_layer_norm_rows *a, int64_t r, int64_t i)
{
    double s = get(a->dtype, a->x, r, i), rounded[1];
    if (!a->residual.data) return s;
    ls_put(a->dtype, rounded, 0, s + get(a->dtype, a->residual, r, i));
    return ls_get(a->dtype, rounded, 0);
}

static void add_picked(const ls_picked_rows *a)
{
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t i = 0; i < a->n; i++) {
            put(a->dtype, a->sum, r, i, ls_get(a->dtype, a->at[0][r], i));
            for (int k = 1; k < a->tables; k++)
                put(a->dtype, a->sum, r, i, get(a->dtype, a->sum, r, i) + ls_get(a->dtype, a->at[k][r], i));
        }
    }
}

static void layer_norm(const ls_layer_norm_rows *a)
{
    ls_dtype wide = ls_compute_dtype(a->dtype);
    for (int64_t r = 0; r < a->rows; r++) {
        double mean = 0, var = 0;
        for (int64_t i = 0; i < a->n; i++) {
            double s = stored_sum(a, r, i);
            put(a->dtype, a->sum, r, i, s);
            mean += s;
        }
        mean /= (double)a->n;
        for (int64_t i = 0; i < a->n; i++) var += pow(stored_sum(a, r, i) - mean, 2);
        double rstd = 1 / sqrt(var / (double)a->n + a->epsilon);
        for (int64_t i = 0; i < a->n; i++) {
            double xhat = (stored_sum(a, r, i) - mean) * rstd;
            put(a->dtype, a->y, r, i, xhat * ls_get(wide, a->weight, i) + ls_get(wide, a->bias, i));
        }
        if (a->mean) ls_put(wide, a->mean, r, mean);
        if (a->rstd) ls_put(wide, a->rstd, r, rstd);
    }
}

static void layer_norm_grad(const ls_layer_norm_grad_rows *a)
{
    ls_dtype wide = ls_compute_dtype(a->dtype);
    for (int64_t r = 0; r < a->rows; r++) {
        double mean = ls_get(wide, a->mean, r), rstd = ls_get(wide, a->rstd, r), avg = 0, avg_xhat = 0;
        for (int64_t i = 0; i < a->n; i++) {
            double dy = get(a->dtype, a->dy, r, i), xhat = (get(a->dtype, a->x, r, i) - mean) * rstd;
            double g = dy * ls_get(wide, a->weight, i);
            avg += g;
            avg_xhat += g * xhat;
            if (!a->dweight) continue;
            ls_put(wide, a->dweight, i, ls_get(wide, a->dweight, i) + dy * xhat);
            ls_put(wide, a->dbias, i, ls_get(wide, a->dbias, i) + dy);
        }
        avg /= (double)a->n;
        avg_xhat /= (double)a->n;
        for (int64_t i = 0; i < a->n; i++) {
            double xhat = (get(a->dtype, a->x, r, i) - mean) * rstd;
            double g = get(a->dtype, a->dy, r, i) * ls_get(wide, a->weight, i);
            put(a->dtype, a->dx, r, i, get(a->dtype, a->more, r, i) + rstd * (g - avg - xhat * avg_xhat));
        }
    }
}

static void put_bit(ls_matrix mask, int64_t r, int64_t i, bool set)
{
    if (!mask.data) return;
    uint8_t *byte = (uint8_t *)mask.data + r * mask.pitch + i / 8;
    *byte = (uint8_t)((*byte & ~(1u << i % 8)) | (unsigned)set << i % 8);
}

static bool get_bit(ls_matrix mask, int64_t r, int64_t i)
{
    return ((const uint8_t *)mask.data)[r * mask.pitch + i / 8] >> i % 8 & 1;
}

static void apply(const ls_norm_apply *a)
{
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t i = 0; i < a->n; i++) {
            double scale = coefficient(a->dtype, a->scale, i * a->step);
            double shift = coefficient(a->dtype, a->shift, i * a->step);
            double y = get(a->dtype, a->x, r, i) * scale + shift + get(a->dtype, a->residual, r, i);
            if (a->relu) put_bit(a->mask, r, i, y > 0);
            put(a->dtype, a->y, r, i, a->relu && y < 0 ? 0 : y);
        }
    }
}

static double masked(ls_dtype dtype, ls_matrix dy, ls_matrix mask, int64_t r, int64_t i)
{
    return mask.data && !get_bit(mask, r, i) ? 0 : get(dtype, dy, r, i);
}

static void totals(const ls_norm_totals *a)
{
    for (int64_t i = 0; i < (a->step ? a->n : 1); i++) a->sum[i] = a->dot[i] = 0;
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t i = 0; i < a->n; i++) {
            double d = masked(a->dtype, a->dy, a->mask, r, i);
            double deviation = get(a->dtype, a->x, r, i) - coefficient(a->dtype, a->mean, i * a->step);
            put(a->dtype, a->masked, r, i, d);
            a->sum[i * a->step] += d;
            a->dot[i * a->step] += d * deviation;
        }
    }
}

static void slope(const ls_norm_slope *a)
{
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t i = 0; i < a->n; i++) {
            double scale = coefficient(a->dtype, a->scale, i * a->step);
            double along = coefficient(a->dtype, a->slope, i * a->step);
            double shift = coefficient(a->dtype, a->shift, i * a->step);
            double d = masked(a->dtype, a->dy, a->mask, r, i);
            put(a->dtype, a->dx, r, i, d * scale + (get(a->dtype, a->x, r, i) * along + shift));
        }
    }
}

#define FLOATS(kernel)                                                                                                 \
    {                                                                                                                  \
        [LS_F16] = kernel, [LS_BF16] = kernel, [LS_F32] = kernel, [LS_F64] = kernel                                    \
    }

const ls_norm_kernels ls_norm_ref = {.add_picked = FLOATS(add_picked),
                                     .layer_norm = FLOATS(layer_norm),
                                     .layer_norm_grad = FLOATS(layer_norm_grad),
                                     .apply = FLOATS(apply),
                                     .totals = FLOATS(totals),
                                     .slope = FLOATS(slope)};
