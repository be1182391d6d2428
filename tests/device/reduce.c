/* reduce.c - reductions, argmax, argmin and cumsum against plain loops. */
#include "operands.h"

static const char *const op_names[LS_OP_COUNT] = {[LS_OP_sum] = "sum", [LS_OP_mean] = "mean", [LS_OP_max] = "max",
                                                  [LS_OP_min] = "min", [LS_OP_var] = "var",   [LS_OP_norm] = "norm"};

static const ls_opcode ops[] = {LS_OP_sum, LS_OP_mean, LS_OP_max, LS_OP_min, LS_OP_var, LS_OP_norm};
enum { OPS = 6 };

static ls_shape reduced_shape(ls_shape shape, uint32_t mask)
{
    for (int32_t d = 0; d < shape.ndim; d++) {
        if (mask >> d & 1) shape.dim[d] = 1;
    }
    return shape;
}

/* The inputs of a reduction: the elements of x in order, and the output that each contributes to. */
typedef struct problem {
    const operand *x;
    ls_shape shape;
    uint32_t mask;
    int64_t n, outputs;
    double *value;
    int64_t *to;
} problem;

static problem problem_new(const operand *x, ls_shape shape, uint32_t mask)
{
    problem p = {x, shape, mask, numel(&x->view), ls_shape_numel(reduced_shape(shape, mask)), NULL, NULL};
    p.value = calloc((size_t)p.n + 1, sizeof *p.value);
    p.to = calloc((size_t)p.n + 1, sizeof *p.to);
    for (int64_t i = 0; i < p.n; i++) {
        int64_t step = 1, rest = i;
        for (int32_t d = shape.ndim - 1; d >= 0; rest /= shape.dim[d--]) {
            if (mask >> d & 1) continue;
            p.to[i] += rest % shape.dim[d] * step;
            step *= shape.dim[d];
        }
        p.value[i] = get(x, i);
    }
    return p;
}

static void problem_free(problem *p)
{
    free(p->value);
    free(p->to);
}

static void expect(ls_opcode op, const problem *p, double *want)
{
    double each = p->outputs ? (double)(p->n / p->outputs) : 0, *mean = calloc((size_t)p->outputs + 1, sizeof *mean);
    for (int64_t i = 0; i < p->outputs; i++) want[i] = op == LS_OP_max ? -INFINITY : op == LS_OP_min ? INFINITY : 0;
    for (int64_t i = 0; i < p->n; i++) mean[p->to[i]] += p->value[i] / each;
    for (int64_t i = 0; i < p->n; i++) {
        int64_t o = p->to[i];
        double v = p->value[i];
        if (op == LS_OP_max) want[o] = v > want[o] || isnan(v) ? v : want[o];
        else if (op == LS_OP_min) want[o] = v < want[o] || isnan(v) ? v : want[o];
        else if (op == LS_OP_var) want[o] += (v - mean[o]) * (v - mean[o]);
        else if (op == LS_OP_norm) want[o] += v * v;
        else want[o] += v;
    }
    for (int64_t i = 0; i < p->outputs; i++) {
        if (op == LS_OP_mean) want[i] /= each;
        if (op == LS_OP_var) want[i] /= each > 1 ? each - 1 : 0;
        if (op == LS_OP_norm) want[i] = sqrt(want[i]);
    }
    free(mean);
}

static void compare(ls_opcode op, const problem *p, placement y_layout)
{
    ls_dtype dtype = p->x->view.dtype;
    ls_dtype out = ls_dtype_is_float(dtype) || op == LS_OP_max || op == LS_OP_min ? dtype : LS_I64;
    operand y = operand_new(out, reduced_shape(p->shape, p->mask), y_layout);
    double *want = calloc((size_t)p->outputs + 1, sizeof *want);
    expect(op, p, want);
    run(&(ls_call){.op = op,
                   .n_in = 1,
                   .n_out = 1,
                   .in = {&p->x->view},
                   .out = {&y.view},
                   .attrs.reduce = {.mask = p->mask, .correction = 1}});
    /* A sum is as accurate as the magnitude of its terms. */
    double terms = p->outputs ? (double)(p->n / p->outputs) : 1;
    double magnitude = op == LS_OP_sum && ls_dtype_is_float(out) ? fmax(1, sqrt(terms)) : 1;
    for (int64_t i = 0; i < p->outputs; i++) {
        double got = get(&y, i), limit = tolerance(out) * fmax(magnitude, fabs(want[i]));
        CHECK_MSG((isnan(got) && isnan(want[i])) || got == want[i] || fabs(got - want[i]) <= limit,
                  "%s %s, %d dims of [%lld,%lld..], mask %u: [%lld] = %.9g, expected %.9g", op_names[op],
                  ls_dtype_name(dtype), (int)p->shape.ndim, (long long)p->shape.dim[0], (long long)p->shape.dim[1],
                  p->mask, (long long)i, got, want[i]);
    }
    free(want);
    operand_free(&y);
}

static void reductions(void)
{
    const ls_shape shapes[] = {LS_SCALAR,         LS_SHAPE(1),       LS_SHAPE(7),      LS_SHAPE(3, 5),
                               LS_SHAPE(2, 1, 3), LS_SHAPE(3, 4, 5), LS_SHAPE(67, 33), LS_SHAPE(2, 3, 4, 5)};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (ls_dtype dtype = LS_BOOL; dtype < LS_DTYPE_COUNT; dtype++) {
            for (int layout = 0; layout < LAYOUTS; layout++) {
                operand x = operand_noise(dtype, shapes[s], (placement)layout, 7 * s + 1);
                for (uint32_t mask = 0; mask < 1u << shapes[s].ndim; mask++) {
                    problem p = problem_new(&x, shapes[s], mask);
                    for (int k = 0; k < OPS; k++) {
                        bool any_type = ops[k] == LS_OP_sum || ops[k] == LS_OP_max || ops[k] == LS_OP_min;
                        if (any_type || ls_dtype_is_float(dtype)) compare(ops[k], &p, layout == GAPS ? GAPS : PLAIN);
                    }
                    problem_free(&p);
                }
                operand_free(&x);
            }
        }
    }
}

static void long_reductions(void)
{
    const ls_shape shapes[] = {LS_SHAPE(70001),      LS_SHAPE(3, 8200),  LS_SHAPE(600, 33),
                               LS_SHAPE(2, 300, 65), LS_SHAPE(300, 300), LS_SHAPE(3, 1100)};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (int t = 0; t < FLOAT_TYPES; t++) {
            for (int layout = PLAIN; layout <= (t == 0 ? GAPS : PLAIN); layout += GAPS) {
                operand x = operand_noise(float_types[t], shapes[s], (placement)layout, s + 1);
                for (uint32_t mask = 1; mask < 1u << shapes[s].ndim; mask++) {
                    problem p = problem_new(&x, shapes[s], mask);
                    for (int k = 0; k < OPS; k++) compare(ops[k], &p, PLAIN);
                    problem_free(&p);
                }
                operand_free(&x);
            }
        }
    }
}

static void nan_is_the_extreme(void)
{
    for (int t = 0; t < FLOAT_TYPES; t++) {
        for (int64_t where = 0; where < 45; where++) {
            operand x = operand_noise(float_types[t], LS_SHAPE(3, 45), PLAIN, 5);
            operand y = operand_new(LS_I64, LS_SHAPE(3, 1), PLAIN);
            set(&x, where, NAN);
            for (uint32_t mask = 1; mask < 4; mask++) {
                problem p = problem_new(&x, LS_SHAPE(3, 45), mask);
                compare(LS_OP_max, &p, PLAIN);
                compare(LS_OP_min, &p, PLAIN);
                problem_free(&p);
            }
            ls_call call = {.n_in = 1, .n_out = 1, .in = {&x.view}, .out = {&y.view}, .attrs.axis.dim = 1};
            call.op = LS_OP_argmax;
            run(&call);
            CHECK(get(&y, 0) == (double)where);
            call.op = LS_OP_argmin;
            run(&call);
            CHECK(get(&y, 0) == (double)where);
            operand_free(&x);
            operand_free(&y);
        }
    }
}

static void expanded_input(void)
{
    float data[3] = {1, 2, 4}, result[4] = {0};
    ls_operand x = {.data = data, .dtype = LS_F32, .ndim = 2, .dim = {4, 3}, .stride = {0, 1}};
    ls_operand y = {.data = result, .dtype = LS_F32, .ndim = 2, .dim = {1, 1}, .stride = {1, 1}};
    ls_call call = {.op = LS_OP_sum, .n_in = 1, .n_out = 1, .in = {&x}, .out = {&y}, .attrs.reduce.mask = 3};
    run(&call);
    CHECK(result[0] == 28);
    y.dim[1] = 3;
    call.attrs.reduce.mask = 1;
    run(&call);
    CHECK(result[0] == 4 && result[1] == 8 && result[2] == 16);
    y.dim[1] = 1;
    y.dim[0] = 4;
    call.attrs.reduce.mask = 2;
    run(&call);
    CHECK(result[0] == 7 && result[3] == 7);
}

static void nothing_to_reduce(void)
{
    operand x = operand_new(LS_F32, LS_SHAPE(3, 0), PLAIN), y = operand_new(LS_F32, LS_SHAPE(3, 1), PLAIN);
    const double want[OPS] = {0, NAN, 0, 0, NAN, 0};
    ls_call call = {.n_in = 1, .n_out = 1, .in = {&x.view}, .out = {&y.view}, .attrs.reduce.mask = 2};
    for (int k = 0; k < OPS; k++) {
        call.op = ops[k];
        if (ops[k] == LS_OP_max || ops[k] == LS_OP_min) {
            ls_message why;
            CHECK(ls_cpu_run(&call, &why) == LS_ERR_VALUE);
            CHECK(strstr(why.text, "of zero elements is undefined"));
            continue;
        }
        run(&call);
        for (int64_t i = 0; i < 3; i++) CHECK_NEAR(get(&y, i), want[k], 0);
    }
    operand_free(&y);
    y = operand_new(LS_F32, LS_SHAPE(1, 0), PLAIN); /* no outputs: no error */
    call.op = LS_OP_max;
    call.attrs.reduce.mask = 1;
    run(&call);
    operand_free(&x);
    operand_free(&y);
}

static void variance_of_an_outlier(void)
{
    enum { N = 20000 };
    operand x = operand_noise(LS_F32, LS_SHAPE(N, 3), PLAIN, 9), y = operand_new(LS_F32, LS_SHAPE(1, 3), PLAIN);
    for (int64_t i = 0; i < 3 * N; i++) set(&x, i, get(&x, i) + 3000);
    for (int64_t c = 0; c < 3; c++) set(&x, c, -5000);
    problem p = problem_new(&x, LS_SHAPE(N, 3), 1);
    double want[3];
    expect(LS_OP_var, &p, want);
    run(&(ls_call){.op = LS_OP_var,
                   .n_in = 1,
                   .n_out = 1,
                   .in = {&x.view},
                   .out = {&y.view},
                   .attrs.reduce = {.mask = 1, .correction = 1}});
    for (int64_t c = 0; c < 3; c++) CHECK_NEAR(get(&y, c), want[c], 2e-5);
    problem_free(&p);
    operand_free(&x);
    operand_free(&y);
}

static void same_result_on_any_team(void)
{
    enum { M = 3000, N = 77 };
    operand x = operand_noise(LS_F32, LS_SHAPE(M, N), PLAIN, 3), y[2];
    for (uint32_t mask = 1; mask < 4; mask++) {
        for (int width = 1; width <= 2; width++) {
            ls_parallel_set_width(width);
            y[width - 1] = operand_new(LS_F32, reduced_shape(LS_SHAPE(M, N), mask), PLAIN);
            run(&(ls_call){.op = LS_OP_sum,
                           .n_in = 1,
                           .n_out = 1,
                           .in = {&x.view},
                           .out = {&y[width - 1].view},
                           .attrs.reduce.mask = mask});
        }
        for (int64_t i = 0; i < numel(&y[0].view); i++) CHECK(get(&y[0], i) == get(&y[1], i));
        operand_free(&y[0]);
        operand_free(&y[1]);
    }
    operand_free(&x);
    ls_parallel_set_width(0);
}

/* ---- Along one dimension --------------------------------------------------------------------------------------- */

static void check_along(const operand *x, ls_shape shape, int32_t dim, placement layout)
{
    ls_dtype dtype = x->view.dtype;
    operand most = operand_new(LS_I64, reduced_shape(shape, 1u << dim), PLAIN);
    operand least = operand_new(LS_I64, reduced_shape(shape, 1u << dim), GAPS);
    operand sums = operand_new(ls_dtype_is_float(dtype) ? dtype : LS_I64, shape, layout);
    const struct {
        ls_opcode op;
        operand *out;
    } calls[] = {{LS_OP_argmax, &most}, {LS_OP_argmin, &least}, {LS_OP_cumsum, &sums}};
    for (int k = 0; k < 3; k++)
        run(&(ls_call){.op = calls[k].op,
                       .n_in = 1,
                       .n_out = 1,
                       .in = {&x->view},
                       .out = {&calls[k].out->view},
                       .attrs.axis.dim = dim});
    int64_t n = shape.dim[dim], inner = 1;
    for (int32_t d = dim + 1; d < shape.ndim; d++) inner *= shape.dim[d];
    for (int64_t o = 0; o < numel(&most.view); o++) {
        int64_t first = o / inner * inner * n + o % inner, max = 0, min = 0;
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            double v = get(x, first + i * inner);
            if (v > get(x, first + max * inner)) max = i;
            if (v < get(x, first + min * inner)) min = i;
            sum += v;
            CHECK_NEAR(get(&sums, first + i * inner), sum, tolerance(dtype));
        }
        CHECK(get(&most, o) == (double)max && get(&least, o) == (double)min);
    }
    operand_free(&most);
    operand_free(&least);
    operand_free(&sums);
}

static void along_one_dimension(void)
{
    const ls_shape shapes[] = {LS_SHAPE(1), LS_SHAPE(9), LS_SHAPE(4, 37), LS_SHAPE(3, 5, 17), LS_SHAPE(2, 70, 65)};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (ls_dtype dtype = LS_BOOL; dtype < LS_DTYPE_COUNT; dtype++) {
            for (int layout = 0; layout < LAYOUTS; layout++) {
                operand x = operand_noise(dtype, shapes[s], (placement)layout, s);
                for (int32_t dim = 0; dim < shapes[s].ndim; dim++) check_along(&x, shapes[s], dim, (placement)layout);
                operand_free(&x);
            }
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN_ISAS(reductions);
    CHECK_RUN_ISAS_SLOW(long_reductions);
    CHECK_RUN_ISAS(nan_is_the_extreme);
    CHECK_RUN_ISAS(variance_of_an_outlier);
    CHECK_RUN(expanded_input);
    CHECK_RUN(nothing_to_reduce);
    CHECK_RUN(same_result_on_any_team);
    CHECK_RUN(along_one_dimension);
    return check_done();
}
