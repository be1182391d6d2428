/* optim.c - optimiser steps, element by element. The f32 form does the same operations in the same order as the vector
 * kernels; RMSprop and Adagrad have only this form, and leave fused multiply-adds to the compiler. */
#include "kernels/optim.h"

#include "kernels/ref/number.h"

#include <math.h>

/* LS_STEPS(dtype, type, suffix of its functions in libm) */
#define LS_STEPS(dtype, type, f)                                                                                       \
    static void adam_##dtype(int64_t n, void *parameters, void *first, void *second, const void *gradients,            \
                             const ls_adam *how)                                                                       \
    {                                                                                                                  \
        type *p = parameters, *m = first, *v = second;                                                                 \
        const type *g = gradients;                                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            type d = fma##f((type)how->l2_decay, p[i], g[i] * (type)how->gradient_sign);                               \
            m[i] = fma##f((type)how->blend1, d - m[i], m[i]);                                                          \
            v[i] = fma##f((type)how->blend2 * d, d, v[i] * (type)how->beta2);                                          \
            type denominator = sqrt##f(v[i]) * (type)how->unbias2 + (type)how->epsilon;                                \
            p[i] = p[i] * (type)how->keep - (type)how->step * m[i] / denominator;                                      \
        }                                                                                                              \
    }                                                                                                                  \
    static void sgd_##dtype(int64_t n, void *parameters, void *momentum, const void *gradients, const ls_sgd *how)     \
    {                                                                                                                  \
        type *p = parameters, *buffer = momentum;                                                                      \
        const type *g = gradients;                                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            type d = fma##f((type)how->l2_decay, p[i], g[i] * (type)how->gradient_sign);                               \
            if (buffer) {                                                                                              \
                buffer[i] = how->first ? d : fma##f((type)how->blend, d, buffer[i] * (type)how->momentum);             \
                d = how->nesterov ? fma##f((type)how->lookahead, buffer[i], d) : buffer[i];                            \
            }                                                                                                          \
            p[i] = fma##f(-(type)how->step, d, p[i]);                                                                  \
        }                                                                                                              \
    }                                                                                                                  \
    static void rmsprop_##dtype(int64_t n, void *parameters, void *squares, void *means, void *momentum,               \
                                const void *gradients, const ls_rmsprop *how)                                          \
    {                                                                                                                  \
        type *p = parameters, *v = squares, *mean = means, *buffer = momentum;                                         \
        const type *g = gradients;                                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            type d = (type)how->l2_decay * p[i] + g[i] * (type)how->gradient_sign;                                     \
            type spread = v[i] = (type)how->blend * d * d + v[i] * (type)how->alpha;                                   \
            if (mean) {                                                                                                \
                mean[i] += (type)how->blend * (d - mean[i]);                                                           \
                spread -= mean[i] * mean[i];                                                                           \
                if (spread < 0) spread = 0; /* by rounding, of gradients that do not change */                         \
            }                                                                                                          \
            d /= sqrt##f(spread) + (type)how->epsilon;                                                                 \
            if (buffer) d = buffer[i] = buffer[i] * (type)how->momentum + d;                                           \
            p[i] -= (type)how->step * d;                                                                               \
        }                                                                                                              \
    }                                                                                                                  \
    static void adagrad_##dtype(int64_t n, void *parameters, void *squares, const void *gradients,                     \
                                const ls_adagrad *how)                                                                 \
    {                                                                                                                  \
        type *p = parameters, *sum = squares;                                                                          \
        const type *g = gradients;                                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            type d = (type)how->l2_decay * p[i] + g[i] * (type)how->gradient_sign;                                     \
            sum[i] += d * d;                                                                                           \
            p[i] -= (type)how->step * d / (sqrt##f(sum[i]) + (type)how->epsilon);                                      \
        }                                                                                                              \
    }
LS_STEPS(LS_F32, float, f)
LS_STEPS(LS_F64, double, )

#define LS_SCALING(dtype, class, type, get, put_whole, put_real, ...)                                                  \
    static double squares_##dtype(int64_t n, const void *x)                                                            \
    {                                                                                                                  \
        const type *from = x;                                                                                          \
        double sum[4] = {0};                                                                                           \
        for (int64_t i = 0; i < n; i++) sum[i % 4] += get_##dtype(from[i]) * get_##dtype(from[i]);                     \
        return (sum[0] + sum[2]) + (sum[1] + sum[3]);                                                                  \
    }                                                                                                                  \
    static bool unscale_##dtype(int64_t n, void *g, double factor)                                                     \
    {                                                                                                                  \
        type *to = g;                                                                                                  \
        bool finite = true;                                                                                            \
        if (dtype != LS_F64) factor = (float)factor;                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            double value = get_##dtype(to[i]);                                                                         \
            finite &= isfinite(value) != 0;                                                                            \
            to[i] = put_real_##dtype(value * factor);                                                                  \
        }                                                                                                              \
        return finite;                                                                                                 \
    }
LS_REAL_LIST(LS_SCALING, )

#define LS_ENTRY(dtype, class, type, get, put_whole, put_real, name) [dtype] = name##_##dtype,

const ls_optim_kernels ls_optim_ref = {
    .adam = {[LS_F32] = adam_LS_F32, [LS_F64] = adam_LS_F64},
    .sgd = {[LS_F32] = sgd_LS_F32, [LS_F64] = sgd_LS_F64},
    .rmsprop = {[LS_F32] = rmsprop_LS_F32, [LS_F64] = rmsprop_LS_F64},
    .adagrad = {[LS_F32] = adagrad_LS_F32, [LS_F64] = adagrad_LS_F64},
    .squares = {LS_REAL_LIST(LS_ENTRY, squares)},
    .unscale = {LS_REAL_LIST(LS_ENTRY, unscale)},
};
