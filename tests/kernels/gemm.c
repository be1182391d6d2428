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
    if (ls_gemm()->large_f32) check_kernel(ls_gemm()->large_f32);
}

/* ---- f32 as three parts ------------------------------------------------------------------------------------------ */

enum { SIDE = 40, DEPTH = 250 }; /* more than one tile, and more than one call */

/* c [SIDE,SIDE] = a [SIDE,DEPTH] b [DEPTH,SIDE], by panels. */
static void multiply(const ls_gemm_kernel *kernel, const float *a, const float *b, float *c)
{
    int64_t width = kernel->a.width, k = ls_gemm_round_up(DEPTH, kernel->kr), bytes = ls_gemm_packed_bytes(kernel);
    int64_t panels = (SIDE + width - 1) / width;
    size_t size = ((size_t)(panels * width * k * bytes) + 63) & ~(size_t)63;
    char *pa = aligned_alloc(64, size), *pb = aligned_alloc(64, size);
    const void *rows[SIDE], *steps[DEPTH];
    float *tile = calloc((size_t)(width * width), sizeof *tile);
    for (int i = 0; i < SIDE; i++) rows[i] = a + i * DEPTH;
    for (int i = 0; i < DEPTH; i++) steps[i] = b + i * SIDE;
    ls_gemm_lines from_a = {.line = rows, .dtype = LS_F32}, from_b = {.line = steps, .dtype = LS_F32, .across = true};
    ls_gemm_pack(kernel, &kernel->a, pa, width * k, &from_a, SIDE, DEPTH);
    ls_gemm_pack(kernel, &kernel->b, pb, width * k, &from_b, SIDE, DEPTH);
    if (kernel->begin) kernel->begin();
    for (int64_t i = 0; i < SIDE; i += width) {
        for (int64_t j = 0; j < SIDE; j += width) {
            whole_tile(kernel, k, pa + i * k * bytes, pb + j * k * bytes, tile, width);
            for (int64_t m = 0; m < width && i + m < SIDE; m++)
                for (int64_t n = 0; n < width && j + n < SIDE; n++) c[(i + m) * SIDE + j + n] = tile[m * width + n];
        }
    }
    if (kernel->end) kernel->end();
    free(pa);
    free(pb);
    free(tile);
}

/* A number whose 24 bits all count. */
static float dense_number(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return ((float)(random_state >> 8) + 0.5f) / (float)(1 << 23) - 1;
}

static float a[SIDE * DEPTH], b[DEPTH * SIDE], result[SIDE * SIDE], others[SIDE * SIDE];

static void fill_factors(void)
{
    for (int i = 0; i < SIDE * DEPTH; i++) a[i] = dense_number(), b[i] = dense_number();
}

/* The sum of products in double, and that of their magnitudes. */
static double true_sum(int row, int column, double *size)
{
    double sum = *size = 0;
    for (int k = 0; k < DEPTH; k++) {
        double term = (double)a[row * DEPTH + k] * b[k * SIDE + column];
        sum += term;
        *size += fabs(term);
    }
    return sum;
}

/* No bit of a factor is lost: on the whole, sums of parts are nearer to the truth than sums of products of f32. */
static void parts_are_exact(void)
{
    const ls_gemm_kernel *kernel = ls_gemm()->large_f32;
    double of_parts = 0, of_products = 0, size;
    if (!kernel) return;
    fill_factors();
    multiply(kernel, a, b, result);
    for (int i = 0; i < SIDE; i++) {
        for (int j = 0; j < SIDE; j++) {
            double want = true_sum(i, j, &size), part_error = (result[i * SIDE + j] - want) / size;
            float chain = 0;
            for (int k = 0; k < DEPTH; k++) chain = fmaf(a[i * DEPTH + k], b[k * SIDE + j], chain);
            CHECK(fabs(part_error) < 1.2e-7);
            of_parts += part_error * part_error;
            of_products += (chain - want) * (chain - want) / (size * size);
        }
    }
    CHECK_MSG(of_parts < of_products, "error %g, of products %g", sqrt(of_parts), sqrt(of_products));
}

/* Every number there is, in either factor: results are those of f32, and others stay the same to the bit. */
static void special_numbers(void)
{
    static const float special[] = {NAN,      INFINITY,  -INFINITY, 0,          -0.0f,     1e-45f,    -3e-42f,
                                    1.2e-38f, 1e-30f,    0x1p-90f,  0x1.fp-91f, 0x1p-126f, 3e38f,     -1e30f,
                                    0x1p17f,  131071.9f, -0x1p17f,  1e10f,      6e4f,      0x1.8p-80f};
    const ls_gemm_kernel *kernel = ls_gemm()->large_f32;
    if (!kernel) return;
    for (size_t s = 0; s < sizeof special / sizeof *special; s++) {
        for (int place = 0; place < 6; place++) {
            int row = place * 7 + 1, k = place * 49, column = 38 - place * 7;
            double size;
            fill_factors();
            for (int i = 0; i < SIDE; i++)
                a[i * DEPTH + k] *= place % 3 == 1 ? 1e-36f : 1;                        /* beside numbers as small */
            for (int i = 0; i < SIDE * DEPTH; i++) a[i] *= place % 3 == 2 ? 1e-40f : 1; /* sums that are subnormal */
            multiply(kernel, a, b, others);
            if (place & 2) a[row * DEPTH + k] = special[s];
            else b[k * SIDE + column] = special[s];
            multiply(kernel, a, b, result);
            for (int i = 0; i < SIDE; i++) {
                for (int j = 0; j < SIDE; j++) {
                    double got = result[i * SIDE + j], want = true_sum(i, j, &size);
                    if (place & 2 ? i != row : j != column)
                        CHECK_MSG(memcmp(&result[i * SIDE + j], &others[i * SIDE + j], sizeof(float)) == 0,
                                  "%g beside %g in place %d", got, special[s], place);
                    if (isfinite(want))
                        CHECK_MSG(fabs(got - want) <= 2e-6 * size + DEPTH * 0x1p-149, "with %g in place %d: %g, not %g",
                                  special[s], place, got, want);
                    else CHECK_MSG(isnan(want) ? isnan(got) : got == want, "%g, not %g", got, want);
                }
            }
        }
    }
}

/* Numbers of any size, all of them alike: none is too small for its last bit. */
static void sizes_of_all_kinds(void)
{
    const ls_gemm_kernel *kernel = ls_gemm()->large_f32;
    if (!kernel) return;
    for (int power = -140; power <= 120; power += 4) {
        for (int other = -140; other <= 120; other += 20) {
            double size;
            if (power + other > 115) continue;
            fill_factors();
            for (int i = 0; i < SIDE * DEPTH; i++) a[i] = ldexpf(a[i], power), b[i] = ldexpf(b[i], other);
            multiply(kernel, a, b, result);
            for (int i = 0; i < SIDE * SIDE; i += 13) {
                double want = true_sum(i / SIDE, i % SIDE, &size);
                CHECK_MSG(fabs(result[i] - want) <= 3e-7 * size + DEPTH * 0x1p-149, "2^%d times 2^%d: %g, not %g",
                          power, other, result[i], want);
            }
        }
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

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
        CHECK_RUN(parts_are_exact);
        CHECK_RUN(special_numbers);
        CHECK_RUN(sizes_of_all_kinds);
        CHECK_RUN(finished_rows);
        CHECK_RUN(channelwise_products);
        CHECK_RUN(rows_in_place);
    }
    return check_done();
}
