/* sort.c - sort and topk against the definition of their order. */
#include "base/rng.h"
#include "operands.h"

/* a is smaller than b; NaN is the greatest of all. */
static bool less(double a, double b)
{
    return isnan(b) ? !isnan(a) : a < b;
}

static bool before(double a, int64_t index_a, double b, int64_t index_b, bool descending)
{
    if (descending ? less(b, a) : less(a, b)) return true;
    if (descending ? less(a, b) : less(b, a)) return false;
    return index_a < index_b;
}

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Adjacent values and indices are in order, and exactly that many elements of x come before the last one: so they are
 * the first ones, in order. */
static void check_order(const operand *x, const operand *values, const operand *indices, int dim, bool descending)
{
    int64_t n = x->view.dim[dim], wanted = values->view.dim[dim], inner = 1;
    for (int d = dim + 1; d < x->view.ndim; d++) inner *= x->view.dim[d];
    for (int64_t line = 0; wanted && line < numel(&x->view) / n; line++) {
        int64_t from = line / inner * inner * n + line % inner, to = line / inner * inner * wanted + line % inner;
        int64_t in_front = 0, last = -1;
        double last_value = 0;
        for (int64_t i = 0; i < wanted; i++) {
            int64_t index = (int64_t)get(indices, to + i * inner);
            double value = get(values, to + i * inner);
            CHECK(index >= 0 && index < n && same(value, get(x, from + index * inner)));
            if (i > 0) CHECK(before(last_value, last, value, index, descending));
            last = index;
            last_value = value;
        }
        for (int64_t i = 0; i < n; i++) in_front += before(get(x, from + i * inner), i, last_value, last, descending);
        CHECK(in_front == wanted - 1);
    }
}

/* k < 0: sort. */
static void order(const operand *x, placement how, int dim, int64_t k, bool descending)
{
    ls_shape shape = shape_of(x);
    if (k >= 0) shape.dim[dim] = k;
    operand values = operand_new(x->view.dtype, shape, how), indices = operand_new(LS_I64, shape, how);
    ls_call call = {.op = k < 0 ? LS_OP_sort : LS_OP_topk, .n_in = 1, .n_out = 2, .in = {&x->view}};
    call.out[0] = &values.view;
    call.out[1] = &indices.view;
    call.attrs.axis.dim = dim;
    call.attrs.axis.flag = descending;
    call.attrs.axis.k = k;
    CHECK(ls_cpu_run(&call, NULL) == LS_OK);
    check_order(x, &values, &indices, dim, descending);
    operand_free(&values);
    operand_free(&indices);
}

static void orders_all_types_and_layouts(void)
{
    const ls_shape shapes[] = {LS_SHAPE(1),       LS_SHAPE(0),   LS_SHAPE(9, 5),  LS_SHAPE(3, 40, 2),
                               LS_SHAPE(2, 0, 3), LS_SHAPE(700), LS_SHAPE(4, 600)};
    for (int t = LS_BOOL; t < LS_DTYPE_COUNT; t++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            for (int how = 0; how < LAYOUTS; how++) {
                operand x = operand_noise((ls_dtype)t, shapes[s], (placement)how, s);
                for (int dim = 0; dim < shapes[s].ndim; dim++) {
                    int64_t n = shapes[s].dim[dim];
                    const int64_t k[] = {-1, 0, n < 1 ? n : 1, n / 3, n};
                    for (size_t i = 0; i < 2 * (sizeof k / sizeof *k); i++)
                        order(&x, (placement)(LAYOUTS - 1 - how), dim, k[i / 2], i % 2);
                }
                operand_free(&x);
            }
        }
    }
}

/* Few different values, both zeros, both infinities and NaN, in lines long enough for every sorting method. */
static void is_stable_and_puts_nan_last(void)
{
    const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, -NAN, 1, -1, 0x1p-20, -0x1p-20};
    for (int t = LS_F16; t <= LS_F64; t++) {
        for (int64_t n = 5; n <= 5000; n *= 10) {
            operand x = operand_new((ls_dtype)t, LS_SHAPE(n), PLAIN);
            for (int64_t i = 0; i < n; i++) set(&x, i, special[(int)(noise(1, i) * 2.5 + 5)]);
            for (int descending = 0; descending < 2; descending++) {
                order(&x, PLAIN, 0, -1, descending);
                order(&x, PLAIN, 0, 2, descending);
                order(&x, PLAIN, 0, n / 8, descending);
            }
            operand_free(&x);
        }
    }
}

static void orders_all_bits_of_integers(void)
{
    enum { N = 300 };
    int64_t x[N], sorted[N], indices[N];
    for (int i = 0; i < N; i++) {
        ls_philox4 bits = ls_philox(3, (uint64_t)i);
        x[i] = (int64_t)((uint64_t)bits.lane[0] << 32 | bits.lane[1]);
    }
    x[17] = INT64_MAX;
    x[18] = INT64_MIN;
    ls_operand in = {.data = x, .dtype = LS_I64, .ndim = 1, .dim = {N}, .stride = {1}}, values = in, positions = in;
    values.data = sorted;
    positions.data = indices;
    ls_call call = {.op = LS_OP_sort, .n_in = 1, .n_out = 2, .in = {&in}, .out = {&values, &positions}};
    CHECK(ls_cpu_run(&call, NULL) == LS_OK);
    CHECK(indices[0] == 18 && indices[N - 1] == 17);
    for (int i = 0; i < N - 1; i++) CHECK(sorted[i] <= sorted[i + 1]);
}

static void orders_a_scalar(void)
{
    float x = 3, value = 0;
    int64_t index = 7;
    ls_operand in = {.data = &x, .dtype = LS_F32}, values = {.data = &value, .dtype = LS_F32};
    ls_operand indices = {.data = &index, .dtype = LS_I64};
    ls_call call = {.op = LS_OP_sort, .n_in = 1, .n_out = 2, .in = {&in}, .out = {&values, &indices}};
    CHECK(ls_cpu_run(&call, NULL) == LS_OK);
    CHECK(value == 3 && index == 0);
}

static void all(void)
{
    CHECK_RUN(orders_all_types_and_layouts);
    CHECK_RUN(is_stable_and_puts_nan_last);
    CHECK_RUN(orders_all_bits_of_integers);
    CHECK_RUN(orders_a_scalar);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    for (int width = 1; width <= 2; width++) {
        ls_parallel_set_width(width);
        all();
    }
    return check_done();
}
