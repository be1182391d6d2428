/* gemm.c - reference kernels for matrix products: panels of four, plain loops, libm. Panels lie [k][width]. */
#include "kernels/gemm.h"

#include "base/half.h"

#include <math.h>

#define WIDTH 4

static double number_load(const void *line, ls_dtype dtype, int64_t i)
{
    switch (dtype) {
    case LS_F64: return ((const double *)line)[i];
    case LS_BF16: return ls_bf16_to_f32(((const ls_bf16 *)line)[i]);
    case LS_F16: return ls_f16_to_f32(((const ls_f16 *)line)[i]);
    default: return ((const float *)line)[i];
    }
}

static void number_store(void *line, ls_dtype dtype, int64_t i, double x)
{
    switch (dtype) {
    case LS_F64: ((double *)line)[i] = x; break;
    case LS_BF16: ((ls_bf16 *)line)[i] = ls_bf16_from_f32((float)x); break;
    case LS_F16: ((ls_f16 *)line)[i] = ls_f16_from_f32((float)x); break;
    default: ((float *)line)[i] = (float)x;
    }
}

static double activate(ls_activation activation, double x)
{
    switch (activation) {
    case LS_ACT_RELU: return x < 0 ? 0 : x; /* NaN passes */
    case LS_ACT_GELU: return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
    case LS_ACT_GELU_TANH: return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case LS_ACT_SILU: return x / (1 + exp(-x));
    case LS_ACT_TANH: return tanh(x);
    case LS_ACT_SIGMOID: return 1 / (1 + exp(-x));
    default: return x;
    }
}

/* REFERENCE(type, number): everything for one type of panels and sums. */
#define REFERENCE(type, number)                                                                                        \
    static void along_##type(void *panel, const void *const *line, int64_t k)                                          \
    {                                                                                                                  \
        type *to = panel;                                                                                              \
        for (int64_t j = 0; j < k; j++)                                                                                \
            for (int i = 0; i < WIDTH; i++) *to++ = ((const type *)line[i])[j];                                        \
    }                                                                                                                  \
    static void across_##type(void *panels, int64_t panel_stride, const void *const *line, int64_t count)              \
    {                                                                                                                  \
        for (int64_t p = 0; p < count; p++)                                                                            \
            for (int i = 0; i < WIDTH; i++)                                                                            \
                ((type *)panels)[p * panel_stride + i] = ((const type *)line[0])[p * WIDTH + i];                       \
    }                                                                                                                  \
    static void convert_##type(void *to, const void *from, ls_dtype from_dtype, int64_t n)                             \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) ((type *)to)[i] = (type)number_load(from, from_dtype, i);                      \
    }                                                                                                                  \
    static void tile_##type(int64_t k, const void *a, const void *b, const void *from, void *to, int64_t ldc)          \
    {                                                                                                                  \
        const type *pa = a, *pb = b, *start = from;                                                                    \
        type sum[WIDTH][WIDTH];                                                                                        \
        for (int i = 0; i < WIDTH; i++)                                                                                \
            for (int j = 0; j < WIDTH; j++) sum[i][j] = start ? start[i * WIDTH + j] : 0;                              \
        for (; k > 0; k--, pa += WIDTH, pb += WIDTH)                                                                   \
            for (int i = 0; i < WIDTH; i++)                                                                            \
                for (int j = 0; j < WIDTH; j++) sum[i][j] += pa[i] * pb[j];                                            \
        for (int i = 0; i < WIDTH; i++)                                                                                \
            for (int j = 0; j < WIDTH; j++) ((type *)to)[i * (ldc ? ldc : WIDTH) + j] = sum[i][j];                     \
    }                                                                                                                  \
    static const ls_gemm_kernel kernel_##type = {                                                                      \
        .name = "ref 4x4 " #type,                                                                                      \
        .panel = number,                                                                                               \
        .kr = 1,                                                                                                       \
        .a = {WIDTH, along_##type, across_##type},                                                                     \
        .b = {WIDTH, along_##type, across_##type},                                                                     \
        .convert = convert_##type,                                                                                     \
        .tile = tile_##type,                                                                                           \
    };                                                                                                                 \
    static void finish_##type(const ls_gemm_finish *how, int64_t rows, int64_t n, const void *sums, int64_t ld,        \
                              const void *bias, void *const *out, void *const *pre)                                    \
    {                                                                                                                  \
        for (int64_t r = 0; r < rows; r++)                                                                             \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                type x = ((const type *)sums)[r * ld + i];                                                             \
                if (how->scale_after) x *= ((const type *)bias)[i + how->scale_after];                                 \
                if (bias) x += ((const type *)bias)[i];                                                                \
                if (pre && how->residual) x += (type)number_load(pre[r], how->pre_dtype, i);                           \
                else if (pre) number_store(pre[r], how->pre_dtype, i, x);                                              \
                x = (type)activate(how->activation, x);                                                                \
                if (how->accumulate) x += (type)number_load(out[r], how->out_dtype, i);                                \
                number_store(out[r], how->out_dtype, i, x);                                                            \
            }                                                                                                          \
    }                                                                                                                  \
    static void channelwise_##type(void *sums, int64_t n, int64_t count, const ls_gemm_lines *u,                       \
                                   const ls_gemm_lines *v)                                                             \
    {                                                                                                                  \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            if (!u->line[i] || !v->line[i]) continue;                                                                  \
            for (int64_t c = 0; c < n; c++)                                                                            \
                ((type *)sums)[c] += (type)(number_load(u->line[i], u->dtype, u->offset + c) *                         \
                                            number_load(v->line[i], v->dtype, v->offset + c));                         \
        }                                                                                                              \
    }

REFERENCE(float, LS_F32)
REFERENCE(double, LS_F64)

static void moments(const float *sums, int64_t ld, int64_t rows, int64_t n, ls_gemm_moments *found)
{
    for (int64_t i = 0; i < n; i++) {
        float pivot = sums[i], sum = 0, squares = 0;
        for (int64_t r = 0; r < rows; r++) {
            float distance = sums[r * ld + i] - pivot;
            sum += distance;
            squares += distance * distance;
        }
        found->pivot[i] = pivot;
        found->sum[i] = sum;
        found->squares[i] = squares;
    }
}

const ls_gemm_table ls_gemm_ref = {
    .f32 = {&kernel_float, &kernel_float},
    .f64 = {&kernel_double, &kernel_double},
    .bf16 = {&kernel_float, &kernel_float},
    .f16 = {&kernel_float, &kernel_float},
    .finish_f32 = finish_float,
    .finish_f64 = finish_double,
    .moments_f32 = moments,
    .channelwise_f32 = channelwise_float,
    .channelwise_f64 = channelwise_double,
};
