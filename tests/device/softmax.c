/* softmax.c - softmax, log softmax and their gradients against plain loops. */
#include "kernels/softmax.h"
#include "kernels/kernels.h"
#include "operands.h"

static double at(const operand *o, int64_t first, int64_t i, int64_t step)
{
    return get(o, first + i * step);
}

/* Lines of n elements, `step` apart, starting at `first`. */
static void check_line(const operand *x, const operand *y, bool is_log, int64_t first, int64_t n, int64_t step)
{
    double max = -INFINITY, sum = 0, limit = tolerance(x->view.dtype);
    for (int64_t i = 0; i < n; i++) max = fmax(max, at(x, first, i, step));
    for (int64_t i = 0; i < n; i++) sum += exp(at(x, first, i, step) - max);
    for (int64_t i = 0; i < n; i++) {
        double z = at(x, first, i, step) - max - log(sum), want = is_log ? z : exp(z);
        double got = at(y, first, i, step), smallest = x->view.dtype == LS_F16 ? 0x1p-24 : 1e-30;
        CHECK_MSG(fabs(got - want) <= limit * (is_log ? fmax(1, fabs(want)) : 2 * want) + smallest,
                  "%s%s of %lld: [%lld] = %.9g, expected %.9g", is_log ? "log " : "", ls_dtype_name(x->view.dtype),
                  (long long)n, (long long)i, got, want);
    }
}

static void check_gradient(const operand *dy, const operand *y, const operand *dx, bool is_log, int64_t first,
                           int64_t n, int64_t step)
{
    double sum = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        double term = at(dy, first, i, step) * (is_log ? 1 : at(y, first, i, step));
        sum += term;
        size += fabs(term);
    }
    for (int64_t i = 0; i < n; i++) {
        double a = at(dy, first, i, step), b = at(y, first, i, step), want = is_log ? a - exp(b) * sum : b * (a - sum);
        double limit = tolerance(dy->view.dtype) * (is_log ? fabs(a) + exp(b) * size : fabs(b) * (fabs(a) + size));
        double got = at(dx, first, i, step);
        CHECK_MSG(fabs(got - want) <= limit + 0x1p-24, "gradient %s of %lld: [%lld] = %.9g, expected %.9g",
                  ls_dtype_name(dy->view.dtype), (long long)n, (long long)i, got, want);
    }
}

static void check_along(ls_dtype dtype, ls_shape shape, placement layout, int32_t dim, bool is_log)
{
    operand x = operand_noise(dtype, shape, layout, 3), dy = operand_noise(dtype, shape, PLAIN, 4);
    operand y = operand_new(dtype, shape, layout), dx = operand_new(dtype, shape, layout);
    for (int64_t i = 0; i < numel(&x.view); i++) set(&x, i, 3 * get(&x, i));
    run(&(ls_call){.op = is_log ? LS_OP_log_softmax : LS_OP_softmax,
                   .n_in = 1,
                   .n_out = 1,
                   .in = {&x.view},
                   .out = {&y.view},
                   .attrs.axis.dim = dim});
    run(&(ls_call){.op = is_log ? LS_OP_log_softmax_grad : LS_OP_softmax_grad,
                   .n_in = 2,
                   .n_out = 1,
                   .in = {&dy.view, &y.view},
                   .out = {&dx.view},
                   .attrs.axis.dim = dim});
    int64_t n = shape.ndim ? shape.dim[dim] : 1, step = 1;
    for (int32_t d = dim + 1; d < shape.ndim; d++) step *= shape.dim[d];
    for (int64_t line = 0; n && line < numel(&x.view) / n; line++) {
        int64_t first = line / step * step * n + line % step;
        check_line(&x, &y, is_log, first, n, step);
        check_gradient(&dy, &y, &dx, is_log, first, n, step);
    }
    operand_free(&x);
    operand_free(&y);
    operand_free(&dx);
    operand_free(&dy);
}

static void lines(void)
{
    const ls_shape shapes[] = {LS_SCALAR,          LS_SHAPE(1),          LS_SHAPE(3, 0),    LS_SHAPE(4, 7),
                               LS_SHAPE(3, 31, 5), LS_SHAPE(2, 3, 4, 5), LS_SHAPE(21, 384), LS_SHAPE(2, 5003)};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (int t = 0; t < FLOAT_TYPES; t++) {
            for (int layout = 0; layout < LAYOUTS; layout++) {
                for (int32_t dim = 0; dim < (shapes[s].ndim ? shapes[s].ndim : 1); dim++) {
                    check_along(float_types[t], shapes[s], (placement)layout, dim, false);
                    check_along(float_types[t], shapes[s], (placement)layout, dim, true);
                }
            }
        }
    }
}

/* Far apart, infinite, not a number, or all the same and far from 0: a row that a mask hides. */
static void extremes(void)
{
    for (int t = 0; t < FLOAT_TYPES; t++) {
        const double far = float_types[t] == LS_F16 ? 3e4 : 1e30;
        for (int64_t n = 2; n < 20; n++) {
            operand x = operand_new(float_types[t], LS_SHAPE(5, n), PLAIN),
                    y = operand_new(float_types[t], LS_SHAPE(5, n), PLAIN);
            operand z = operand_new(float_types[t], LS_SHAPE(5, n), PLAIN);
            for (int64_t i = 0; i < n; i++) {
                set(&x, i, i == n - 1 ? far : -far);
                set(&x, n + i, i == 1 ? 5 : -INFINITY); /* a masked row */
                set(&x, 2 * n + i, -INFINITY);
                set(&x, 3 * n + i, i == n / 2 ? NAN : 1);
                set(&x, 4 * n + i, -far);
            }
            ls_call call = {
                .op = LS_OP_softmax, .n_in = 1, .n_out = 1, .in = {&x.view}, .out = {&y.view}, .attrs.axis.dim = 1};
            run(&call);
            call.op = LS_OP_log_softmax;
            call.out[0] = &z.view;
            run(&call);
            for (int64_t i = 0; i < n; i++) {
                CHECK_NEAR(get(&y, i), i == n - 1, 0);
                CHECK_NEAR(get(&y, n + i), i == 1, 0);
                CHECK(isnan(get(&y, 2 * n + i)) && isnan(get(&y, 3 * n + i)));
                CHECK(get(&z, i) == (i == n - 1 ? 0 : float_types[t] == LS_F16 ? -60000 : get(&x, 0) - get(&x, n - 1)));
                CHECK(get(&z, n + i) == (i == 1 ? 0 : -INFINITY));
                CHECK(isnan(get(&z, 2 * n + i)) && isnan(get(&z, 3 * n + i)));
                CHECK_NEAR(get(&y, 4 * n + i), 1.0 / (double)n, tolerance(float_types[t]));
                CHECK_NEAR(get(&z, 4 * n + i), -log((double)n), 4 * tolerance(float_types[t]));
            }
            operand_free(&x);
            operand_free(&y);
            operand_free(&z);
        }
    }
}

/* A long row that begins with -infinity only. */
static void late_start(void)
{
    enum { N = 9000, START = 8500 };
    operand x = operand_noise(LS_BF16, LS_SHAPE(N), PLAIN, 6), y = operand_new(LS_BF16, LS_SHAPE(N), PLAIN);
    for (int64_t i = 0; i < START; i++) set(&x, i, -INFINITY);
    for (int is_log = 0; is_log < 2; is_log++) {
        double sum = 0;
        run(&(ls_call){.op = is_log ? LS_OP_log_softmax : LS_OP_softmax,
                       .n_in = 1,
                       .n_out = 1,
                       .in = {&x.view},
                       .out = {&y.view}});
        for (int64_t i = START; i < N; i++) sum += exp(get(&x, i));
        for (int64_t i = 0; i < N; i++) {
            double want = is_log ? get(&x, i) - log(sum) : exp(get(&x, i)) / sum;
            CHECK_NEAR(get(&y, i), want, tolerance(LS_BF16));
        }
    }
    operand_free(&x);
    operand_free(&y);
}

/* ---- Results past the caches ------------------------------------------------------------------------------------- */

static const ls_softmax_kernels *real;
static int streamed;

#define WATCH(kernel, rows, type)                                                                                      \
    static void watch_##kernel##_##type(const rows *args)                                                              \
    {                                                                                                                  \
        streamed += args->stream;                                                                                      \
        real->kernel[LS_##type](args);                                                                                 \
    }
#define WATCH_ALL(type)                                                                                                \
    WATCH(softmax, ls_softmax_rows, type)                                                                              \
    WATCH(log_softmax, ls_softmax_rows, type)                                                                          \
    WATCH(softmax_grad, ls_softmax_grad_rows, type)                                                                    \
    WATCH(log_softmax_grad, ls_softmax_grad_rows, type)
WATCH_ALL(F32)
WATCH_ALL(BF16)

/* Forward and backward of rows of n, results `beyond` elements after the start of a cache line or in the place of an
 * input: how many blocks are streamed. */
static int softmax_at(ls_dtype dtype, int64_t n, bool is_log, int64_t beyond, bool in_place)
{
    operand dy = operand_noise(dtype, LS_SHAPE(5, n), PLAIN, 8), x = operand_noise(dtype, LS_SHAPE(5, n), PLAIN, 7);
    int64_t size = (int64_t)ls_dtype_size(dtype), bytes = 5 * n * size;
    operand result[4]; /* x, y, dy, dx */
    char *memory[4];
    for (int i = 0; i < 4; i++) {
        result[i] = i < 2 ? x : dy;
        memory[i] = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
        result[i].view.data = memory[i] + beyond * size;
        memcpy(result[i].view.data, i < 2 ? x.view.data : dy.view.data, (size_t)bytes);
    }
    streamed = 0;
    run(&(ls_call){.op = is_log ? LS_OP_log_softmax : LS_OP_softmax,
                   .n_in = 1,
                   .n_out = 1,
                   .in = {&result[in_place ? 1 : 0].view},
                   .out = {&result[1].view},
                   .attrs.axis.dim = 1});
    run(&(ls_call){.op = is_log ? LS_OP_log_softmax_grad : LS_OP_softmax_grad,
                   .n_in = 2,
                   .n_out = 1,
                   .in = {&result[in_place ? 3 : 2].view, &result[1].view},
                   .out = {&result[3].view},
                   .attrs.axis.dim = 1});
    for (int64_t row = 0; row < 5; row++) {
        check_line(&x, &result[1], is_log, row * n, n, 1);
        check_gradient(&dy, &result[1], &result[3], is_log, row * n, n, 1);
    }
    for (int i = 0; i < 4; i++) free(memory[i]);
    operand_free(&x);
    operand_free(&dy);
    return streamed;
}

/* The same numbers, where rows begin on cache lines; others are stored as usual. */
static void large_results_are_streamed(void)
{
    ls_softmax_kernels was = *ls_softmax_table(), watched = was;
    real = &was;
    watched.stream_bytes = 1;
#define USE(type)                                                                                                      \
    watched.softmax[LS_##type] = watch_softmax_##type, watched.log_softmax[LS_##type] = watch_log_softmax_##type,      \
    watched.softmax_grad[LS_##type] = watch_softmax_grad_##type,                                                       \
    watched.log_softmax_grad[LS_##type] = watch_log_softmax_grad_##type
    USE(F32);
    USE(BF16);
    const void *before = offer_kernels(&ls_family_softmax, &watched);
    ls_parallel_set_width(1); /* the count is not atomic */
    static const int64_t lengths[] = {64, 96, 5024, 1025, 30};
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < 5; i++)
            for (int is_log = 0; is_log < 2; is_log++) {
                ls_dtype dtype = half ? LS_BF16 : LS_F32;
                bool rows_of_lines = lengths[i] * (int64_t)ls_dtype_size(dtype) % 64 == 0;
                CHECK((softmax_at(dtype, lengths[i], is_log, 0, false) > 0) == rows_of_lines);
                CHECK(softmax_at(dtype, lengths[i], is_log, 1, false) == 0);
                CHECK(softmax_at(dtype, lengths[i], is_log, 0, true) == 0);
            }
    ls_parallel_set_width(0);
    offer_kernels(&ls_family_softmax, before);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN_ISAS(lines);
    CHECK_RUN_ISAS(extremes);
    CHECK_RUN_ISAS(late_start);
    CHECK_RUN_ISAS(large_results_are_streamed);
    return check_done();
}
