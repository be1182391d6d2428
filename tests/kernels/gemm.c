/* gemm.c - the kernels of matrix products, on every ISA this CPU runs: packing from every type and orientation, tiles
 * whole and in parts, finishing of rows, channelwise products, rows in place. Truth is plain loops in double. */
#include "kernels/gemm_check.h"
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

/* ---- rows in place ----------------------------------------------------------------------------------------------- */

enum { TILES = 4, PANELS = 3, DEEP = 300, MOST_ROWS = 64, GROUP = 3 };

/* C [TILES * in_place_rows, columns of PANELS panels, the last one not whole] = A B, with A in place. Tiles of a few
 * have in_place_run rows. */
typedef struct in_place_product {
    const ls_gemm_kernel *kernel;
    bool few;
    int64_t rows, columns, k, pitch; /* pitch: numbers from row to row of C, and of A */
    int64_t rest;                    /* of the last slice of every group in B, then zeros; 0: all of it */
    float *a, *b, *c, *residual, *panels;
    void *row[TILES * MOST_ROWS], *residual_row[TILES * MOST_ROWS];
} in_place_product;

static float *numbers_new(int64_t n)
{
    float *numbers = aligned_alloc(64, (size_t)ls_gemm_round_up(n * (int64_t)sizeof *numbers, 64));
    for (int64_t i = 0; i < n; i++) numbers[i] = (float)random_number();
    return numbers;
}

static in_place_product in_place_new(const ls_gemm_kernel *kernel, bool few, int64_t slices, bool border, int64_t rest)
{
    in_place_product p = {.kernel = kernel, .few = few, .k = slices * kernel->kr, .rest = rest};
    p.rows = TILES * (few ? kernel->in_place_run : kernel->in_place_rows);
    p.columns = PANELS * kernel->b.width - 3;
    p.pitch = ls_gemm_round_up(p.columns > p.k ? p.columns : p.k, 16);
    p.a = numbers_new(p.rows * p.pitch);
    p.b = numbers_new(p.k * p.columns);
    p.c = numbers_new(p.rows * p.pitch);
    p.residual = numbers_new(p.rows * p.pitch);
    p.panels = numbers_new(PANELS * kernel->b.width * p.k);
    for (int64_t i = 0; i < p.k && rest; i++)
        if (i / kernel->kr % GROUP == GROUP - 1 && i % kernel->kr >= rest)
            memset(p.b + i * p.columns, 0, (size_t)p.columns * sizeof *p.b);
    for (int64_t i = 0; i < p.rows; i++) {
        p.row[i] = border && i % 5 == 0 ? NULL : p.c + i * p.pitch;
        p.residual_row[i] = p.row[i] ? p.residual + i * p.pitch : NULL;
    }
    const void *line[DEEP + LS_GEMM_MAX_KR];
    for (int64_t i = 0; i < p.k; i++) line[i] = p.b + i * p.columns;
    ls_gemm_lines lines = {.line = line, .dtype = LS_F32, .across = true};
    ls_gemm_pack(kernel, &kernel->b, p.panels, kernel->b.width * p.k, &lines, p.columns, p.k);
    return p;
}

static void in_place_free(in_place_product *p)
{
    float *all[] = {p->a, p->b, p->c, p->residual, p->panels};
    for (int i = 0; i < 5; i++) free(all[i]);
}

static double in_place_sum(const in_place_product *p, int64_t row, int64_t column)
{
    double sum = 0;
    for (int64_t i = 0; i < p->k; i++) sum += (double)p->a[row * p->pitch + i] * (double)p->b[i * p->columns + column];
    return sum;
}

static void in_place_run(const in_place_product *p, const ls_gemm_targets *to)
{
    int64_t offset[DEEP];
    for (int64_t i = 0; i < p->k / p->kernel->kr; i++) offset[i] = i * p->kernel->kr * (int64_t)sizeof(float);
    ls_gemm_rows a = {.first = p->a,
                      .stride = p->pitch * (int64_t)sizeof(float),
                      .slices = p->k / p->kernel->kr,
                      .offset = offset,
                      .group = GROUP,
                      .rest = p->rest,
                      .ahead = {(const char *)p->a, 100}};
    ls_gemm_panels b = {.first = p->panels, .count = PANELS, .stride = p->kernel->b.width * p->k};
    if (to->far) b.next = p->panels;
    (p->few ? p->kernel->in_place_few : p->kernel->in_place)(TILES, &a, &b, to);
}

static void check_moments(const in_place_product *p, const ls_gemm_moments *moments)
{
    for (int64_t c = 0; c < p->columns; c++) {
        const ls_gemm_moments *m = &moments[c / p->kernel->b.width];
        int64_t at = c % p->kernel->b.width, count = 0;
        double mean = 0, m2 = 0;
        for (int64_t i = 0; i < p->rows; i++)
            if (p->row[i]) mean += in_place_sum(p, i, c), count++;
        mean /= (double)count;
        for (int64_t i = 0; i < p->rows; i++)
            if (p->row[i]) m2 += (in_place_sum(p, i, c) - mean) * (in_place_sum(p, i, c) - mean);
        double shift = (double)m->sum[at] / (double)count;
        CHECK_NEAR((double)m->pivot[at] + shift, mean, 1e-4);
        CHECK_NEAR((double)m->squares[at] - shift * shift * (double)count, m2, 1e-4 * (1 + m2));
    }
}

/* Few and many slices: panels and rows first; with and without rows that do not count; all ways to take sums; groups of
 * slices that end early; tiles of few rows. */
static void rows_in_place(void)
{
    for (int variant = 0; variant < 256; variant++) {
        const ls_gemm_kernel *kernel = ls_gemm_kernels(LS_F32)[variant & 1];
        if (!kernel || !kernel->in_place || kernel->panel != LS_F32) continue;
        bool stream = variant & 8, added = variant & 16, gathered = variant & 32, few = variant & 128;
        if (few && !kernel->in_place_few) continue;
        if ((added || gathered) && !kernel->in_place_finishes) continue;
        int64_t rest = variant & 64 ? 1 + variant / 2 % (kernel->kr - 1) : 0;
        int64_t slices = variant & 2 ? DEEP / kernel->kr / GROUP * GROUP : GROUP;
        in_place_product p = in_place_new(kernel, few, slices, variant & 4, rest);
        ls_gemm_moments moments[PANELS];
        ls_gemm_targets to = {.row = p.row,
                              .columns = p.columns,
                              .dtype = LS_F32,
                              .far = variant % 3 == 0,
                              .stream = stream,
                              .residual = added ? p.residual_row : NULL,
                              .moments = gathered ? moments : NULL};
        in_place_run(&p, &to);
        for (int64_t i = 0; i < p.rows; i++) {
            if (!p.row[i]) continue;
            for (int64_t c = 0; c < p.columns; c++) {
                double want = in_place_sum(&p, i, c) + (added ? (double)p.residual[i * p.pitch + c] : 0);
                CHECK_NEAR((double)p.c[i * p.pitch + c], want, 1e-4);
            }
        }
        if (gathered) check_moments(&p, moments);
        in_place_free(&p);
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
        CHECK_RUN(rows_in_place);
    }
    return check_done();
}
