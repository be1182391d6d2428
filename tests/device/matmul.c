/* matmul.c - matmul and linear against plain loops in double: types, transposes, strides, broadcasting, odd and empty
 * sizes, every ISA, one worker and two; and the packed forms of weights. */
#include "base/cpus.h"
#include "base/memory.h"
#include "device/cpu/gemm.h"
#include "operands.h"

#include <sys/resource.h>

/* Orders in memory of [batch, head, row, column]. */
static const int row_major[] = {0, 1, 2, 3}, transposed[] = {0, 1, 3, 2}, heads_inside[] = {0, 2, 1, 3};

static double product_tolerance(ls_dtype compute, ls_dtype out)
{
    double unit = out == LS_BF16 ? 0x1p-8 : out == LS_F16 ? 0x1p-11 : 0;
    return unit + (compute == LS_F64 && out == LS_F64 ? 1e-14 : 2e-6);
}

static ls_call matmul_call(const ls_operand *a, const ls_operand *b, const ls_operand *c, ls_dtype compute)
{
    ls_call call = {.op = LS_OP_matmul, .n_in = 2, .n_out = 1, .in = {a, b}, .out = {c}};
    call.attrs.product.compute = compute;
    return call;
}

/* c = a b; other elements of the memory stay untouched. */
static void check_matmul(const ls_operand *a, const ls_operand *b, const ls_operand *c, ls_dtype compute,
                         bool accumulate)
{
    int64_t batch = c->dim[0], heads = c->dim[1], rows = c->dim[2], columns = c->dim[3], depth = a->dim[3];
    size_t n = (size_t)(batch * heads * rows * columns);
    int64_t every = 1 + (int64_t)n * depth / 2000000;
    double *before = malloc((n + 1) * sizeof *before), *old = before;
    for (int64_t i = 0; i < batch; i++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t s = 0; s < columns; s++) *old++ = get_at(c, offset_at(c, i, h, r, s));
    ls_call call = matmul_call(a, b, c, compute);
    call.attrs.product.accumulate = accumulate;
    run(&call);
    old = before;
    for (int64_t i = 0; i < batch; i++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t s = 0; s < columns; s++, old++) {
                    if ((old - before) % every) continue; /* only samples of large ones */
                    double want = accumulate ? *old : 0, size = 1 + fabs(want);
                    for (int64_t k = 0; k < depth; k++) {
                        double term = get_at(a, offset_at(a, i, h, r, k)) * get_at(b, offset_at(b, i, h, k, s));
                        want += term;
                        size += fabs(term);
                    }
                    double got = get_at(c, offset_at(c, i, h, r, s));
                    CHECK_MSG(fabs(got - want) <= product_tolerance(compute, c->dtype) * size,
                              "[%d,%d,%d,%d] of %dx%dx%d is %g, not %g", (int)i, (int)h, (int)r, (int)s, (int)rows,
                              (int)columns, (int)depth, got, want);
                }
    free(before);
}

static void products_of_all_types_and_transposes(void)
{
    static const int64_t sizes[][3] = {{1, 1, 1}, {2, 3, 4}, {13, 9, 5}, {40, 70, 33}, {100, 1, 17}, {1, 100, 17}};
    static const int *const orders[] = {row_major, transposed};
    for (int t = 0; t < 4; t++) {
        ls_dtype type = float_types[t];
        for (int turned = 0; turned < 8; turned++) {
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
                operand a = operand_coarse(type, LS_SHAPE(1, 1, m, k), orders[turned & 1], 1);
                operand b = operand_coarse(type, LS_SHAPE(1, 1, k, n), orders[turned >> 1 & 1], 1);
                operand c = operand_coarse(type, LS_SHAPE(1, 1, m, n), orders[turned >> 2], 1);
                check_matmul(&a.view, &b.view, &c.view, type, turned & 1);
                operand_free(&a);
                operand_free(&b);
                operand_free(&c);
            }
        }
    }
}

static void mixed_types(void)
{
    for (int v = 0; v < 64; v++) {
        ls_dtype ta = float_types[v & 3], tb = float_types[v >> 2 & 3], tc = float_types[v >> 4];
        operand a = operand_coarse(ta, LS_SHAPE(1, 1, 21, 35), v & 1 ? transposed : row_major, 1);
        operand b = operand_coarse(tb, LS_SHAPE(1, 1, 35, 27), v & 2 ? transposed : row_major, 1);
        operand c = operand_coarse(tc, LS_SHAPE(1, 1, 21, 27), row_major, 1);
        check_matmul(&a.view, &b.view, &c.view, LS_BF16, false);
        check_matmul(&a.view, &b.view, &c.view, LS_F32, true);
        operand_free(&a);
        operand_free(&b);
        operand_free(&c);
    }
}

static void batches_broadcast_and_strided(void)
{
    for (int v = 0; v < 32; v++) {
        int64_t step = 1 + (v >> 4);
        operand a = operand_coarse(LS_F32, LS_SHAPE(3, 4, 10, 7), v & 1 ? heads_inside : row_major, step);
        operand b = operand_coarse(LS_F32, LS_SHAPE(3, 4, 7, 11), v & 1 ? heads_inside : transposed, step);
        operand c = operand_coarse(LS_F32, LS_SHAPE(3, 4, 10, 11), v & 1 ? heads_inside : row_major, step);
        ls_operand repeated_a = a.view, repeated_b = b.view;
        if (v & 2) repeated_a.stride[1] = 0;
        if (v & 4) repeated_b.stride[0] = 0;
        if (v & 8) repeated_b.stride[1] = 0;
        check_matmul(&repeated_a, &repeated_b, &c.view, LS_F32, false);
        operand_free(&a);
        operand_free(&b);
        operand_free(&c);
    }
}

static void large_products(void)
{
    static const int64_t sizes[][4] = {{1, 200, 150, 2500}, {1, 20, 30, 9000}, {5, 110, 140, 65}, {1, 1000, 40, 1100}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int v = 0; v < 4; v++) {
            int64_t i = sizes[s][0], m = sizes[s][1], n = sizes[s][2], k = sizes[s][3];
            ls_dtype type = v & 1 ? LS_BF16 : LS_F32;
            operand a = operand_coarse(type, LS_SHAPE(i, 1, m, k), v & 2 ? transposed : row_major, 1);
            operand b = operand_coarse(type, LS_SHAPE(i, 1, k, n), v & 2 ? row_major : transposed, 1);
            operand c = operand_coarse(LS_F32, LS_SHAPE(i, 1, m, n), row_major, 1);
            check_matmul(&a.view, &b.view, &c.view, type, v & 2);
            operand_free(&a);
            operand_free(&b);
            operand_free(&c);
        }
    }
}

static void empty_sizes(void)
{
    static const int64_t sizes[][4] = {{0, 3, 4, 5}, {2, 0, 4, 5}, {2, 3, 0, 5}, {2, 3, 4, 0}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        operand a = operand_coarse(LS_F32, LS_SHAPE(sizes[s][0], 1, sizes[s][1], sizes[s][3]), row_major, 1);
        operand b = operand_coarse(LS_F32, LS_SHAPE(sizes[s][0], 1, sizes[s][3], sizes[s][2]), row_major, 1);
        operand c = operand_coarse(LS_F32, LS_SHAPE(sizes[s][0], 1, sizes[s][1], sizes[s][2]), row_major, 1);
        check_matmul(&a.view, &b.view, &c.view, LS_F32, false);
        check_matmul(&a.view, &b.view, &c.view, LS_F32, true);
        operand_free(&a);
        operand_free(&b);
        operand_free(&c);
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

/* y = activation(x w^T + bias) for x [3,rows,K], in every memory order of x and y. */
static void check_linear(ls_dtype type, ls_activation activation, int64_t rows, int64_t n, int64_t k, int variant,
                         ls_derived *derived)
{
    static const int order_3d[][3] = {{0, 1, 2}, {1, 0, 2}, {2, 0, 1}};
    static const int order_2d[][2] = {{0, 1}, {1, 0}};
    bool plain = variant >= 16; /* all rows of x, y and pre follow each other */
    operand x = operand_coarse(type, LS_SHAPE(3, rows, k), order_3d[plain ? 0 : variant % 3], 1);
    operand w = operand_coarse(variant & 1 ? LS_F32 : type, LS_SHAPE(n, k), order_2d[variant / 3 % 2], 1);
    operand bias = operand_coarse(LS_F32, LS_SHAPE(n), (int[]){0}, 1 + (variant & 1));
    operand y =
        operand_coarse(variant & 2 ? LS_F32 : type, LS_SHAPE(3, rows, n), order_3d[plain ? 0 : (variant + 1) % 3], 1);
    operand pre = operand_coarse(type, LS_SHAPE(3, rows, n), order_3d[plain ? 0 : variant / 2 % 3], 1);
    bool has_bias = !(variant & 4), has_pre = variant & 8;
    w.view.derived = derived;
    ls_call call = {.op = LS_OP_linear,
                    .n_in = 3,
                    .n_out = 2,
                    .in = {&x.view, &w.view, has_bias ? &bias.view : NULL},
                    .out = {&y.view, has_pre ? &pre.view : NULL}};
    call.attrs.product.activation = activation;
    call.attrs.product.compute = type;
    run(&call);
    for (int64_t i = 0; i < 3; i++)
        for (int64_t j = 0; j < rows; j++)
            for (int64_t c = 0; c < n; c++) {
                double sum = has_bias ? get_at(&bias.view, offset_at(&bias.view, c, 0, 0, 0)) : 0, size = 1;
                for (int64_t p = 0; p < k; p++) {
                    double term = get_at(&x.view, offset_at(&x.view, i, j, p, 0)) *
                                  get_at(&w.view, offset_at(&w.view, c, p, 0, 0));
                    sum += term;
                    size += fabs(term);
                }
                double got = get_at(&y.view, offset_at(&y.view, i, j, c, 0)), want = activated(activation, sum);
                CHECK_MSG(fabs(got - want) <= product_tolerance(type, y.view.dtype) * size, "y[%d,%d,%d] is %g, not %g",
                          (int)i, (int)j, (int)c, got, want);
                if (!has_pre) continue;
                got = get_at(&pre.view, offset_at(&pre.view, i, j, c, 0));
                CHECK_MSG(fabs(got - sum) <= product_tolerance(type, type) * size, "pre[%d,%d,%d] is %g, not %g",
                          (int)i, (int)j, (int)c, got, sum);
            }
    operand_free(&x);
    operand_free(&w);
    operand_free(&bias);
    operand_free(&y);
    operand_free(&pre);
}

static void linear_layers(void)
{
    for (int t = 0; t < 4; t++)
        for (int variant = 0; variant < 16; variant++)
            for (int activation = 0; activation < 7; activation++)
                check_linear(float_types[t], (ls_activation)activation, 5, variant & 1 ? 70 : 13, 19, variant, NULL);
    check_linear(LS_F32, LS_ACT_RELU, 5, 9, 0, 8, NULL);
}

/* So many rows of f32 that they may be multiplied in place: rows that follow each other, or lie in wider matrices. */
static void rows_in_place(void)
{
    for (int v = 0; v < 48; v++) {
        int64_t m = v & 1 ? 137 : 98, n = v & 2 ? 300 : 33, k = v & 4 ? 260 : 8;
        int64_t between = (int64_t[]){0, 3, 2 * k}[v / 16];
        operand a = operand_coarse(LS_F32, LS_SHAPE(1, 1, m, k + between), row_major, 1);
        operand b = operand_coarse(LS_F32, LS_SHAPE(1, 1, k, n), v & 8 ? transposed : row_major, 1);
        operand c = operand_coarse(v & 4 ? LS_BF16 : LS_F32, LS_SHAPE(1, 1, m, n + between), row_major, 1);
        ls_operand narrow_a = a.view, narrow_c = c.view;
        narrow_a.dim[3] = k;
        narrow_c.dim[3] = n;
        double beyond = get_at(&c.view, n);
        check_matmul(&narrow_a, &b.view, &narrow_c, LS_F32, v & 8);
        if (between) CHECK_NEAR(get_at(&c.view, n), beyond, 0);
        operand_free(&a);
        operand_free(&b);
        operand_free(&c);
    }
    for (int variant = 0; variant < 16; variant++)
        for (int activation = 0; activation < 7; activation++)
            check_linear(LS_F32, (ls_activation)activation, 45, variant & 1 ? 70 : 13, activation ? 20 : 300,
                         16 + variant, NULL);
}

/* Products that kernels for large ones take: every ending, edges, batches of them, and the same whatever the number of
 * workers. */
static void products_of_128_and_more(void)
{
    for (int activation = 0; activation < 7; activation++)
        check_linear(LS_F32, (ls_activation)activation, 44, 129 + activation, 128 + 40 * (activation % 3),
                     16 + activation + (activation ? 8 : 0), NULL);
    for (int v = 0; v < 16; v += 3) {
        int64_t items = v & 1 ? 2 : 1, k = v & 2 ? 400 : 131;
        operand a = operand_coarse(LS_F32, LS_SHAPE(items, 1, 290, k), v & 4 ? transposed : row_major, 1);
        operand b =
            operand_coarse(LS_F32, LS_SHAPE(v & 1 && v & 2 ? items : 1, 1, k, 203), v & 8 ? transposed : row_major, 1);
        operand c = operand_coarse(LS_F32, LS_SHAPE(items, 1, 290, 203), row_major, 1);
        size_t bytes = (size_t)(items * 290 * 203) * sizeof(float);
        float *one = malloc(bytes);
        for (int64_t i = 0; i < items * 290 * k; i++)
            ((float *)a.view.data)[i] += (float)sin((double)i); /* sums that round */
        if (b.view.dim[0] < items) b.view.dim[0] = items, b.view.stride[0] = 0;
        ls_parallel_set_width(1);
        check_matmul(&a.view, &b.view, &c.view, LS_F32, false);
        memcpy(one, c.view.data, bytes);
        for (int workers = 2; workers <= 5; workers += 3) {
            ls_parallel_set_width(workers);
            ls_call call = matmul_call(&a.view, &b.view, &c.view, LS_F32);
            run(&call);
            CHECK_MSG(memcmp(one, c.view.data, bytes) == 0, "unequal with %d workers, variant %d", workers, v);
        }
        ls_parallel_set_width(0);
        check_matmul(&a.view, &b.view, &c.view, LS_F32, true);
        free(one);
        operand_free(&a);
        operand_free(&b);
        operand_free(&c);
    }
}

/* Products whose workers each pack the panels of their own columns: as many for all, the last of them in part. */
static void columns_of_each_worker(void)
{
    for (int v = 0; v < 16; v++) {
        int64_t m = v & 1 ? 137 : 98, n = v & 2 ? 250 : 128, k = 96;
        operand a = operand_coarse(LS_F32, LS_SHAPE(1, 1, m, k), row_major, 1);
        operand b = operand_coarse(LS_F32, LS_SHAPE(1, 1, k, n), v & 4 ? transposed : row_major, 1);
        operand c = operand_coarse(LS_F32, LS_SHAPE(1, 1, m, n), row_major, 1);
        check_matmul(&a.view, &b.view, &c.view, LS_F32, v & 8);
        operand_free(&a);
        operand_free(&b);
        operand_free(&c);
    }
}

/* Rows at distances at which they drive each other out of a small L1: spread there, and packed where there are many
 * columns. */
static void rows_that_meet_in_l1(void)
{
    for (int v = 0; v < 16; v++) {
        int64_t m = v & 1 ? 117 : 98, n = v & 2 ? 770 : 45, k = v & 4 ? 1024 : 1020;
        operand a = operand_coarse(LS_F32, LS_SHAPE(1, 1, m, 1024), row_major, 1);
        operand b = operand_coarse(LS_F32, LS_SHAPE(1, 1, k, n), transposed, 1);
        operand c = operand_coarse(LS_F32, LS_SHAPE(1, 1, m, n), row_major, 1);
        ls_operand narrow_a = a.view;
        narrow_a.dim[3] = k;
        ls_cpus_pretend_l1(v & 8 ? 48 << 10 : 32 << 10);
        check_matmul(&narrow_a, &b.view, &c.view, LS_F32, v & 8);
        ls_cpus_pretend_l1(-1);
        operand_free(&a);
        operand_free(&b);
        operand_free(&c);
    }
}

/* How many of n numbers are not what `wide` is rounded to. A NaN must be some NaN. */
static int64_t count_unequal(const ls_bf16 *half, const float *wide, int64_t n)
{
    int64_t unequal = 0;
    for (int64_t i = 0; i < n; i++)
        unequal += isnan(wide[i]) ? !isnan(ls_bf16_to_f32(half[i])) : half[i] != ls_bf16_from_f32(wide[i]);
    return unequal;
}

/* All rows but one, from the first cache line on: only there results may bypass the caches. */
static ls_operand on_cache_line(const operand *o)
{
    ls_operand view = o->view;
    view.dim[0]--;
    view.data = (char *)view.data + (64 - (uintptr_t)view.data % 64) % 64;
    return view;
}

/* A layer so large that it is cut into blocks along all sides, or that its result bypasses the caches: rounded results
 * of the activation, and its rounded inputs, equal unrounded ones, whatever the number of workers. */
static void check_large_layer(int64_t m, int64_t n, int64_t k, ls_activation activation, bool has_pre)
{
    ls_derived derived = {.version = 1};
    operand x = operand_coarse(LS_BF16, LS_SHAPE(m, k), (int[]){0, 1}, 1);
    operand w = operand_coarse(LS_BF16, LS_SHAPE(n, k), (int[]){0, 1}, 1);
    operand bias = operand_coarse(LS_F32, LS_SHAPE(n), (int[]){0}, 1);
    operand wide = operand_coarse(LS_F32, LS_SHAPE(m, n), (int[]){0, 1}, 1);
    operand wide_pre = operand_coarse(LS_F32, LS_SHAPE(m, n), (int[]){0, 1}, 1);
    operand half = operand_coarse(LS_BF16, LS_SHAPE(m + 1, n), (int[]){0, 1}, 1);
    operand half_pre = operand_coarse(LS_BF16, LS_SHAPE(m + 1, n), (int[]){0, 1}, 1);
    ls_operand rounded = on_cache_line(&half), rounded_pre = on_cache_line(&half_pre);
    ls_call call = {.op = LS_OP_linear, .n_in = 3, .n_out = 2, .in = {&x.view, &w.view, &bias.view}};
    call.attrs.product.compute = LS_BF16;
    call.attrs.product.activation = activation;
    set_at(&x.view, 40 * k + 1, NAN);
    int64_t row = m - 3, column = n - 5;
    double want = get_at(&bias.view, column), size = 1;
    for (int64_t p = 0; p < k; p++) {
        double term = get_at(&x.view, row * k + p) * get_at(&w.view, column * k + p);
        want += term;
        size += fabs(term);
    }
    want = activated(activation, want);
    for (int workers = 1; workers <= 3; workers += 2) {
        ls_parallel_set_width(workers);
        w.view.derived = workers == 1 ? NULL : &derived;
        if (workers == 1) {
            call.out[0] = &wide.view, call.out[1] = has_pre ? &wide_pre.view : NULL;
            run(&call);
            double got = get_at(&wide.view, row * n + column);
            CHECK_MSG(fabs(got - want) <= 2e-6 * size, "%g, not %g", got, want);
            CHECK(isnan(get_at(&wide.view, 40 * n)));
        }
        memset(rounded.data, 0xff, (size_t)(m * n) * sizeof(ls_bf16));
        memset(rounded_pre.data, 0xff, (size_t)(m * n) * sizeof(ls_bf16));
        call.out[0] = &rounded, call.out[1] = has_pre ? &rounded_pre : NULL;
        run(&call);
        int64_t unequal = count_unequal(rounded.data, wide.view.data, m * n);
        if (has_pre) unequal += count_unequal(rounded_pre.data, wide_pre.view.data, m * n);
        CHECK_MSG(!unequal, "%d of %dx%dx%d with activation %d are unequal with %d workers", (int)unequal, (int)m,
                  (int)n, (int)k, (int)activation, workers);
    }
    derived.release(derived.form);
    operand_free(&x);
    operand_free(&w);
    operand_free(&bias);
    operand_free(&wide);
    operand_free(&wide_pre);
    operand_free(&half);
    operand_free(&half_pre);
}

static void large_layers_round_the_same_way(void)
{
    check_large_layer(700, 96, 1700, LS_ACT_NONE, false);
    check_large_layer(200, 1100, 1600, LS_ACT_GELU, true);
    check_large_layer(2100, 2048, 8, LS_ACT_GELU, true);
    check_large_layer(2100, 2048, 8, LS_ACT_NONE, true);
    check_large_layer(650, 70, 600, LS_ACT_RELU, false);
    check_large_layer(650, 70, 600, LS_ACT_TANH, true);
}

/* Weights that begin where others do, and have some of their rows or columns: none is taken for another. */
static void packed_weights_of_a_part(void)
{
    static const int64_t rows[] = {64, 61, 61, 64}, columns[] = {64, 64, 61, 61};
    ls_derived derived = {.version = 7};
    operand whole = operand_coarse(LS_F32, LS_SHAPE(1, 1, 64, 64), row_major, 1);
    for (int step = 0; step < 16; step++) {
        ls_operand b = whole.view;
        b.dim[2] = rows[step / 2 % 4];
        b.dim[3] = columns[step / 2 % 4];
        b.derived = &derived;
        operand a = operand_coarse(LS_F32, LS_SHAPE(1, 1, 50, b.dim[2]), row_major, 1);
        operand c = operand_coarse(LS_F32, LS_SHAPE(1, 1, 50, b.dim[3]), row_major, 1);
        check_matmul(&a.view, &b, &c.view, LS_F32, false);
        operand_free(&a);
        operand_free(&c);
    }
    derived.release(derived.form);
    operand_free(&whole);
}

/* A weight that changes: the packed form follows its version, and is kept only if a version is used again. */
static void packed_weights(void)
{
    enum { ROWS = 50, OUT = 70, DEPTH = 90 };
    ls_derived derived = {.version = 7};
    operand x = operand_coarse(LS_BF16, LS_SHAPE(ROWS, DEPTH), (int[]){0, 1}, 1);
    operand w = operand_coarse(LS_F32, LS_SHAPE(OUT, DEPTH), (int[]){0, 1}, 1);
    operand y = operand_coarse(LS_F32, LS_SHAPE(ROWS, OUT), (int[]){0, 1}, 1);
    operand dx = operand_coarse(LS_F32, LS_SHAPE(ROWS, DEPTH), (int[]){0, 1}, 1);
    w.view.derived = &derived;
    ls_call forward = {.op = LS_OP_linear, .n_in = 2, .n_out = 1, .in = {&x.view, &w.view}, .out = {&y.view}};
    ls_call backward = {.op = LS_OP_matmul, .n_in = 2, .n_out = 1, .in = {&y.view, &w.view}, .out = {&dx.view}};
    forward.attrs.product.compute = LS_BF16;
    backward.attrs.product.compute = LS_F32;
    uint64_t calls = 0;
    for (int step = 0; step < 5; step++) {
        run(&forward);
        run(&backward);
        if (step == 1) calls = ls_sys_calls();
        double want = 0, want_dx = 0;
        for (int k = 0; k < DEPTH; k++) want += get_at(&x.view, 49 * DEPTH + k) * get_at(&w.view, 69 * DEPTH + k);
        for (int n = 0; n < OUT; n++) want_dx += get_at(&y.view, 49 * OUT + n) * get_at(&w.view, n * DEPTH + 89);
        CHECK_NEAR(get_at(&y.view, 49 * OUT + 69), want, 1e-5);
        CHECK_NEAR(get_at(&dx.view, 49 * DEPTH + 89), want_dx, 1e-4);
        set_at(&w.view, 69 * DEPTH + 89, 100 + step);
        derived.version++;
    }
    CHECK(ls_sys_calls() == calls);
    for (const ls_gemm_form *form = derived.form; form; form = form->next) CHECK(!form->panels);

    /* Without a new version it is packed once more, to be kept, and then not again. */
    derived.version--;
    run(&forward);
    double before = get_at(&y.view, 49 * OUT + 69);
    set_at(&w.view, 69 * DEPTH + 89, 0);
    run(&forward);
    CHECK(get_at(&y.view, 49 * OUT + 69) == before);
    derived.release(derived.form);
    operand_free(&x);
    operand_free(&w);
    operand_free(&y);
    operand_free(&dx);
}

/* Some kernels pack B once for all workers where the result is large, and in each task where it is small: halves of a
 * large result are the same numbers as the whole, whatever the number of workers. Three come first: what one has packed
 * would stand in for what they leave out. */
static void halves_are_like_the_whole(void)
{
    enum { M = 1100, N = 970, K = 1300, LEFT = 500 };
    operand a = operand_coarse(LS_F32, LS_SHAPE(1, 1, M, K), transposed, 1);
    operand b = operand_coarse(LS_F32, LS_SHAPE(1, 1, K, N), row_major, 1);
    operand whole = operand_coarse(LS_F32, LS_SHAPE(1, 1, M, N), row_major, 1);
    operand halves = operand_coarse(LS_F32, LS_SHAPE(1, 1, M, N), row_major, 1);
    for (int64_t i = 0; i < M * K; i++) set_at(&a.view, i, sin((double)i)); /* sums that round */
    ls_parallel_set_width(1);
    for (int64_t column = 0, columns; column < N; column += columns) {
        columns = column ? N - LEFT : LEFT;
        ls_operand part_of_b = b.view, part = halves.view;
        part_of_b.dim[3] = part.dim[3] = columns;
        part_of_b.data = (float *)b.view.data + column;
        part.data = (float *)halves.view.data + column;
        ls_call call = matmul_call(&a.view, &part_of_b, &part, LS_F32);
        run(&call);
    }
    for (int workers = 3; workers > 0; workers -= 2) {
        ls_parallel_set_width(workers);
        memset(whole.view.data, 0xff, M * N * sizeof(float));
        check_matmul(&a.view, &b.view, &whole.view, LS_F32, false);
        CHECK_MSG(memcmp(whole.view.data, halves.view.data, M * N * sizeof(float)) == 0, "unequal with %d workers",
                  workers);
    }
    ls_parallel_set_width(0);
    operand_free(&a);
    operand_free(&b);
    operand_free(&whole);
    operand_free(&halves);
}

static long most_memory(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss >> 10; /* MB */
}

/* A worker does not keep room for all of a large B. First of all: the most memory ever used only grows. */
static void room_for_b_is_limited(void)
{
    enum { M = 200, N = 24 << 10, K = 1024 }; /* B: 96 MB */
    operand a = operand_new(LS_F32, LS_SHAPE(1, 1, K, M), PLAIN), b = operand_new(LS_F32, LS_SHAPE(1, 1, K, N), PLAIN);
    operand c = operand_new(LS_F32, LS_SHAPE(1, 1, M, N), PLAIN);
    for (int64_t i = 0; i < K * M; i++) ((float *)a.view.data)[i] = (float)(i % 5);
    for (int64_t i = 0; i < K * N; i++) ((float *)b.view.data)[i] = (float)(i % 7);
    for (int64_t i = 0; i < M * N; i++) ((float *)c.view.data)[i] = 1;
    ls_operand turned = a.view;
    turned.dim[2] = M, turned.dim[3] = K;
    turned.stride[2] = 1, turned.stride[3] = M;
    ls_parallel_set_width(1);
    long before = most_memory();
    check_matmul(&turned, &b.view, &c.view, LS_F32, false);
    ls_parallel_set_width(0);
    /* Beside it, the test keeps what was in C. */
    long more = most_memory() - before, kept = (long)M * N * (long)sizeof(double) >> 20;
    CHECK_MSG(more < kept + 40, "%ld MB more, of which %ld are the test's", more, kept);
    operand_free(&a);
    operand_free(&b);
    operand_free(&c);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN_SLOW(room_for_b_is_limited);
    CHECK_RUN_ISAS(products_of_all_types_and_transposes);
    CHECK_RUN_ISAS(mixed_types);
    CHECK_RUN_ISAS(batches_broadcast_and_strided);
    CHECK_RUN_ISAS_SLOW(large_products);
    CHECK_RUN_ISAS(empty_sizes);
    CHECK_RUN_ISAS(linear_layers);
    CHECK_RUN_ISAS(rows_in_place);
    CHECK_RUN_ISAS_SLOW(products_of_128_and_more);
    CHECK_RUN_ISAS(columns_of_each_worker);
    CHECK_RUN_ISAS(rows_that_meet_in_l1);
    CHECK_RUN_ISAS_SLOW(large_layers_round_the_same_way);
    CHECK_RUN_ISAS_SLOW(halves_are_like_the_whole);
    CHECK_RUN_ISAS(packed_weights);
    CHECK_RUN_ISAS(packed_weights_of_a_part);
    return check_done();
}
