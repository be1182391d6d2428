/* softmax.c - softmax, log softmax and their gradients against plain loops. */
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

/* Far apart, infinite, or not a number. */
static void extremes(void)
{
    for (int t = 0; t < FLOAT_TYPES; t++) {
        const double far = float_types[t] == LS_F16 ? 3e4 : 1e30;
        for (int64_t n = 2; n < 20; n++) {
            operand x = operand_new(float_types[t], LS_SHAPE(4, n), PLAIN),
                    y = operand_new(float_types[t], LS_SHAPE(4, n), PLAIN);
            operand z = operand_new(float_types[t], LS_SHAPE(4, n), PLAIN);
            for (int64_t i = 0; i < n; i++) {
                set(&x, i, i == n - 1 ? far : -far);
                set(&x, n + i, i == 1 ? 5 : -INFINITY); /* a masked row */
                set(&x, 2 * n + i, -INFINITY);
                set(&x, 3 * n + i, i == n / 2 ? NAN : 1);
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

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN_ISAS(lines);
    CHECK_RUN_ISAS(extremes);
    CHECK_RUN_ISAS(late_start);
    return check_done();
}
