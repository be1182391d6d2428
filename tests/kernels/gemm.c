/* gemm.c - the kernels of matrix products, on every ISA this CPU runs: packing from every type and orientation, tiles
 * whole and in parts, finishing of rows, channelwise products, rows in place. Truth is plain loops in double. */
#include "kernels/gemm_check.h"
#include "kernels/gemm_in_place_check.h"
#include "kernels/kernels.h"

static double unit_of(ls_dtype dtype)
{
    switch (dtype) {
    case LS_F64: return 1e-13;
    case LS_BF16: return 0x1p-8;
    case LS_F16: return 0x1p-10;
    default: return 3e-6;
    }
}

static void products(void)
{
    EACH_TYPE(compute)
    {
        for (int shape = 0; shape < LS_GEMM_SHAPES; shape++)
            if (ls_gemm_kernels(compute)[shape]) check_kernel(ls_gemm_kernels(compute)[shape]);
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
    static double sums_f64[LENGTH + 7], out[LENGTH], pre[LENGTH], second[LENGTH], second_pre[LENGTH];
    static double bias_f64[2 * LENGTH]; /* followed by factors */
    static float sums_f32[LENGTH + 7], bias_f32[2 * LENGTH];
    for (int64_t i = 0; i < LENGTH + 7; i++) sums_f32[i] = (float)(sums_f64[i] = 3 * random_number());
    for (int64_t i = 0; i < 2 * LENGTH; i++) bias_f32[i] = (float)(bias_f64[i] = random_number());
    for (int variant = 0; variant < 7 * 64; variant++) {
        ls_activation activation = (ls_activation)(variant % 7);
        bool wide = variant / 7 & 1, accumulate = variant / 7 & 2, scaled = variant / 7 & 16,
             residual = variant / 7 & 32;
        bool has_bias = scaled || variant / 7 & 4, has_pre = residual || variant / 7 & 8;
        ls_gemm_finish_fn *finish = wide ? ls_gemm()->finish_f64 : ls_gemm()->finish_f32;
        EACH_TYPE(dtype)
        {
            double tolerance = fmax(unit_of(dtype), unit_of(wide ? LS_F64 : LS_F32));
            for (int64_t n = 1; n <= LENGTH; n = n * 3 + 1) {
                ls_gemm_finish how = {activation, accumulate, dtype, dtype, scaled ? LENGTH : 0, residual};
                for (int64_t i = 0; i < LENGTH; i++) {
                    store(out, dtype, i, 0.25), store(second, dtype, i, 0.25);
                    store(pre, dtype, i, 0.5), store(second_pre, dtype, i, 0.5);
                }
                finish(&how, 2, n, wide ? (void *)sums_f64 : sums_f32, 7,
                       !has_bias ? NULL
                       : wide    ? (void *)bias_f64
                                 : bias_f32,
                       (void *[]){out, second}, has_pre ? (void *[]){pre, second_pre} : NULL);
                for (int row = 0; row < 2; row++) {
                    const double *got = row ? second : out, *beside = row ? second_pre : pre;
                    for (int64_t i = 0; i < n; i++) {
                        double x = sums_f64[i + 7 * row] * (scaled ? bias_f64[LENGTH + i] : 1);
                        x += (has_bias ? bias_f64[i] : 0) + (residual ? 0.5 : 0);
                        CHECK_NEAR(load(got, dtype, i), activated(activation, x) + (accumulate ? 0.25 : 0), tolerance);
                        CHECK_NEAR(load(beside, dtype, i), has_pre && !residual ? x : 0.5, tolerance);
                    }
                }
                if (n < LENGTH) CHECK(load(out, dtype, n) == 0.25 && load(pre, dtype, n) == 0.5);
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

static void rows_in_place(void)
{
    for (int shape = 0; shape < LS_GEMM_SHAPES; shape++)
        if (ls_gemm_kernels(LS_F32)[shape]) check_in_place(ls_gemm_kernels(LS_F32)[shape]);
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
        CHECK_RUN(rows_in_place);
    }
    return check_done();
}
