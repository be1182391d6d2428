/* gemm.c - the kernels of matrix products, on every ISA this CPU runs: packing from every type and orientation, tiles
 * whole and in parts, finishing of rows, channelwise products. Truth is plain loops in double. */
#include "kernels/gemm.h"

#include "base/half.h"
#include "check.h"
#include "kernels/kernels.h"

#include <stdlib.h>

static const ls_dtype float_types[] = {LS_F32, LS_F64, LS_BF16, LS_F16};
#define EACH_TYPE(dtype)                                                                                               \
    for (int dtype##_i = 0; dtype##_i < 4; dtype##_i++)                                                                \
        for (ls_dtype dtype = float_types[dtype##_i], *once_##dtype = &dtype; once_##dtype; once_##dtype = NULL)

static uint32_t random_state;

/* Small multiples of 1/8: exact in every type, so that only sums round. */
static double random_number(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return ((int)(random_state >> 24) - 128) / 64.0;
}

static void store(void *data, ls_dtype dtype, int64_t i, double x)
{
    switch (dtype) {
    case LS_F64: ((double *)data)[i] = x; break;
    case LS_BF16: ((ls_bf16 *)data)[i] = ls_bf16_from_f32((float)x); break;
    case LS_F16: ((ls_f16 *)data)[i] = ls_f16_from_f32((float)x); break;
    default: ((float *)data)[i] = (float)x;
    }
}

static double load(const void *data, ls_dtype dtype, int64_t i)
{
    switch (dtype) {
    case LS_F64: return ((const double *)data)[i];
    case LS_BF16: return ls_bf16_to_f32(((const ls_bf16 *)data)[i]);
    case LS_F16: return ls_f16_to_f32(((const ls_f16 *)data)[i]);
    default: return ((const float *)data)[i];
    }
}

static double unit_of(ls_dtype dtype)
{
    switch (dtype) {
    case LS_F64: return 1e-13;
    case LS_BF16: return 0x1p-8;
    case LS_F16: return 0x1p-10;
    default: return 3e-6;
    }
}

/* An operand [rows, k] of random numbers, every fifth line missing, as lines of exactly their size. */
typedef struct operand {
    int64_t rows, k, lines, length;
    double *value; /* [rows, k] */
    void **line;
    ls_gemm_lines source;
} operand;

static operand operand_new(int64_t rows, int64_t k, ls_dtype dtype, bool across)
{
    operand o = {.rows = rows, .k = k, .lines = across ? k : rows, .length = across ? rows : k};
    int64_t offset = 3;
    o.value = calloc((size_t)(rows * k), sizeof *o.value);
    o.line = calloc((size_t)o.lines, sizeof *o.line);
    for (int64_t l = 0; l < o.lines; l++) {
        if (l % 5 == 4) continue;
        o.line[l] = calloc((size_t)(o.length + offset), ls_dtype_size(dtype));
        for (int64_t i = 0; i < o.length; i++) {
            double x = random_number();
            store(o.line[l], dtype, offset + i, x);
            o.value[across ? i * k + l : l * k + i] = x;
        }
    }
    o.source = (ls_gemm_lines){.line = (const void *const *)o.line, .offset = offset, .dtype = dtype, .across = across};
    return o;
}

static void operand_free(operand *o)
{
    for (int64_t l = 0; l < o->lines; l++) free(o->line[l]);
    free(o->line);
    free(o->value);
}

/* All tiles of C = A B with panels packed in two parts of k, multiplied in two runs. */
static void check_product(const ls_gemm_kernel *kernel, const operand *a, const operand *b)
{
    int64_t k = ls_gemm_round_up(a->k, kernel->kr), mr = kernel->a.width, nr = kernel->b.width, unit = kernel->kr;
    int64_t panels_a = (a->rows + mr - 1) / mr, panels_b = (b->rows + nr - 1) / nr, split = k / unit / 2 * unit;
    size_t bytes = ls_dtype_size(kernel->panel), sum_bytes = kernel->panel == LS_F64 ? 8 : 4;
    void *pa = aligned_alloc(64, ((size_t)(panels_a * mr * k) * bytes + 63) & ~(size_t)63);
    void *pb = aligned_alloc(64, ((size_t)(panels_b * nr * k) * bytes + 63) & ~(size_t)63);
    void *partial = aligned_alloc(64, LS_GEMM_MAX_WIDTH * LS_GEMM_MAX_WIDTH * 8);
    void *tile = calloc((size_t)(mr * (nr + 5)), sum_bytes);
    ls_gemm_pack(kernel, &kernel->a, pa, mr * k, &a->source, a->rows, a->k);
    ls_gemm_pack(kernel, &kernel->b, pb, nr * k, &b->source, b->rows, b->k);
    if (kernel->begin) kernel->begin();
    for (int64_t i = 0; i < panels_a; i++) {
        for (int64_t j = 0; j < panels_b; j++) {
            const char *ta = (char *)pa + (size_t)(i * mr * k) * bytes, *tb = (char *)pb + (size_t)(j * nr * k) * bytes;
            if (split) kernel->tile(split, ta, tb, NULL, partial, 0);
            kernel->tile(k - split, ta + (size_t)(split * mr) * bytes, tb + (size_t)(split * nr) * bytes,
                         split ? partial : NULL, tile, nr + 5);
            for (int64_t m = 0; m < mr; m++) {
                for (int64_t n = 0; n < nr; n++) {
                    double want = 0, size = 1;
                    bool inside = i * mr + m < a->rows && j * nr + n < b->rows;
                    for (int64_t p = 0; inside && p < a->k; p++) {
                        double term = a->value[(i * mr + m) * a->k + p] * b->value[(j * nr + n) * a->k + p];
                        want += term;
                        size += fabs(term);
                    }
                    double got = load(tile, sum_bytes == 8 ? LS_F64 : LS_F32, m * (nr + 5) + n);
                    CHECK_MSG(fabs(got - want) <= size * 1e-6, "%s: [%d,%d] of %dx%dx%d is %g, not %g", kernel->name,
                              (int)(i * mr + m), (int)(j * nr + n), (int)a->rows, (int)b->rows, (int)a->k, got, want);
                }
            }
        }
    }
    if (kernel->end) kernel->end();
    free(pa);
    free(pb);
    free(partial);
    free(tile);
}

static void products(void)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {3, 5, 2},     {12, 8, 8},   {8, 12, 16},
                                       {25, 37, 19}, {9, 130, 300}, {101, 7, 129}};
    EACH_TYPE(compute)
    {
        for (int shape = 0; shape < 2; shape++) {
            EACH_TYPE(source)
            {
                for (int turned = 0; turned < 4; turned++) {
                    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                        operand a = operand_new(sizes[s][0], sizes[s][2], source, turned & 1);
                        operand b = operand_new(sizes[s][1], sizes[s][2], source, turned & 2);
                        check_product(ls_gemm_kernels(compute)[shape], &a, &b);
                        operand_free(&a);
                        operand_free(&b);
                    }
                }
            }
        }
    }
}

static double activated(ls_activation activation, double x)
{
    switch (activation) {
    case LS_ACT_RELU: return x > 0 ? x : 0;
    case LS_ACT_GELU: return x * 0.5 * (1 + erf(x / sqrt(2)));
    case LS_ACT_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case LS_ACT_SILU: return x / (1 + exp(-x));
    case LS_ACT_TANH: return tanh(x);
    case LS_ACT_SIGMOID: return 1 / (1 + exp(-x));
    default: return x;
    }
}

static void finished_rows(void)
{
    enum { LENGTH = 523 };
    static double sums_f64[LENGTH], bias_f64[LENGTH], out[LENGTH], pre[LENGTH];
    static float sums_f32[LENGTH], bias_f32[LENGTH];
    for (int64_t i = 0; i < LENGTH; i++) {
        sums_f32[i] = (float)(sums_f64[i] = 3 * random_number());
        bias_f32[i] = (float)(bias_f64[i] = random_number());
    }
    for (int variant = 0; variant < 7 * 16; variant++) {
        ls_activation activation = (ls_activation)(variant % 7);
        bool wide = variant / 7 & 1, accumulate = variant / 7 & 2, has_bias = variant / 7 & 4,
             has_pre = variant / 7 & 8;
        ls_gemm_finish_fn *finish = wide ? ls_gemm()->finish_f64 : ls_gemm()->finish_f32;
        EACH_TYPE(dtype)
        {
            double tolerance = fmax(unit_of(dtype), unit_of(wide ? LS_F64 : LS_F32));
            for (int64_t n = 1; n <= LENGTH; n = n * 3 + 1) {
                ls_gemm_finish how = {activation, accumulate, dtype, dtype};
                for (int64_t i = 0; i < LENGTH; i++) store(out, dtype, i, 0.25), store(pre, dtype, i, 7);
                finish(&how, n, wide ? (void *)sums_f64 : sums_f32,
                       !has_bias ? NULL
                       : wide    ? (void *)bias_f64
                                 : bias_f32,
                       out, has_pre ? pre : NULL);
                for (int64_t i = 0; i < n; i++) {
                    double x = sums_f64[i] + (has_bias ? bias_f64[i] : 0);
                    CHECK_NEAR(load(out, dtype, i), activated(activation, x) + (accumulate ? 0.25 : 0), tolerance);
                    CHECK_NEAR(load(pre, dtype, i), has_pre ? x : 7, tolerance);
                }
                if (n < LENGTH) CHECK(load(out, dtype, n) == 0.25 && load(pre, dtype, n) == 7);
            }
        }
    }
}

static void channelwise_products(void)
{
    enum { LINES = 11 };
    EACH_TYPE(u_type)
    {
        EACH_TYPE(v_type)
        {
            for (int64_t n = 1; n < 90; n = n * 2 + 1) {
                operand u = operand_new(LINES, n, u_type, false), v = operand_new(LINES, n, v_type, false);
                double sums[100];
                for (int wide = 0; wide < 2; wide++) {
                    ls_dtype type = wide ? LS_F64 : LS_F32;
                    for (int64_t c = 0; c < n; c++) store(sums, type, c, 1);
                    (wide ? ls_gemm()->channelwise_f64 : ls_gemm()->channelwise_f32)(sums, n, LINES, &u.source,
                                                                                     &v.source);
                    for (int64_t c = 0; c < n; c++) {
                        double want = 1;
                        for (int i = 0; i < LINES; i++) want += u.value[i * n + c] * v.value[i * n + c];
                        CHECK_NEAR(load(sums, type, c), want, 1e-5);
                    }
                }
                operand_free(&u);
                operand_free(&v);
            }
        }
    }
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (!ls_isa_usable((ls_isa)isa)) continue;
        ls_isa_cap((ls_isa)isa);
        CHECK_RUN(products);
        CHECK_RUN(finished_rows);
        CHECK_RUN(channelwise_products);
    }
    return check_done();
}
