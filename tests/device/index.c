/* index.c - gathering and adding by index, checked against loops over logical positions. */
#include "operands.h"

/* i64 or i32 numbers in [0, limit). */
static operand index_noise(ls_dtype dtype, ls_shape shape, placement how, int64_t limit)
{
    operand x = operand_new(dtype, shape, how);
    for (int64_t i = 0; i < numel(&x.view); i++) set(&x, i, floor((noise(5, i) / 4 + 0.5) * (double)limit));
    return x;
}

typedef struct place {
    int64_t at[LS_MAX_DIMS];
} place;

static place place_of(const operand *x, int64_t flat)
{
    place p = {{0}};
    for (int d = x->view.ndim - 1; d >= 0; d--) {
        p.at[d] = flat % x->view.dim[d];
        flat /= x->view.dim[d];
    }
    return p;
}

static int64_t flat_of(const operand *x, place p)
{
    int64_t flat = 0;
    for (int d = 0; d < x->view.ndim; d++) flat = flat * x->view.dim[d] + p.at[d];
    return flat;
}

static ls_status run_on(ls_opcode op, int dim, const operand *a, const operand *b, const operand *c, operand *y,
                        ls_message *why)
{
    ls_call call = {
        .op = op, .n_in = c ? 3 : 2, .n_out = 1, .in = {&a->view, &b->view, c ? &c->view : NULL}, .out = {&y->view}};
    call.attrs.axis.dim = dim;
    return ls_cpu_run(&call, why);
}

#define CHECK_RUNS(...)                                                                                                \
    do {                                                                                                               \
        ls_message why_ = {""};                                                                                        \
        CHECK_MSG(run_on(__VA_ARGS__, &why_) == LS_OK, "failed: %s", why_.text);                                       \
    } while (0)

/* ---- Elements --------------------------------------------------------------------------------------------------- */

static const struct {
    ls_shape x, index;
    int dim;
} elements[] = {
    {{1, {1}}, {1, {1}}, 0},
    {{1, {7}}, {1, {20}}, 0},
    {{2, {5, 3}}, {2, {4, 3}}, 0},
    {{2, {5, 3}}, {2, {5, 9}}, 1},
    {{3, {3, 4, 37}}, {3, {2, 9, 37}}, 1},
    {{4, {2, 3, 4, 5}}, {4, {1, 3, 2, 11}}, 3},
    {{2, {90, 160}}, {2, {220, 160}}, 0},
    {{2, {3, 2}}, {2, {0, 2}}, 0},
};
enum { ELEMENTS = sizeof elements / sizeof *elements };

static void gather(int c, ls_dtype dtype, placement how)
{
    int dim = elements[c].dim;
    operand x = operand_noise(dtype, elements[c].x, how, 1);
    operand index = index_noise(how ? LS_I64 : LS_I32, elements[c].index, how, elements[c].x.dim[dim]);
    operand y = operand_new(dtype, elements[c].index, (placement)((how + 1) % LAYOUTS));
    CHECK_RUNS(LS_OP_gather, dim, &x, &index, NULL, &y);
    for (int64_t i = 0; i < numel(&y.view); i++) {
        place p = place_of(&y, i);
        p.at[dim] = (int64_t)get(&index, i);
        CHECK(get(&y, i) == get(&x, flat_of(&x, p)));
    }
    operand_free(&x);
    operand_free(&index);
    operand_free(&y);
}

/* y is x with src added at index; the sum in double, rounded once. */
static void check_scattered(const operand *x, const operand *index, const operand *src, const operand *y, int dim)
{
    double *sum = malloc((size_t)numel(&x->view) * sizeof *sum);
    for (int64_t i = 0; i < numel(&x->view); i++) sum[i] = get(x, i);
    for (int64_t i = 0; i < numel(&index->view); i++) {
        place p = place_of(index, i);
        double add = get(src, flat_of(src, p));
        p.at[dim] = (int64_t)get(index, i);
        sum[flat_of(x, p)] += add;
    }
    for (int64_t i = 0; i < numel(&x->view); i++) {
        if (y->view.dtype == LS_BOOL) CHECK(get(y, i) == (sum[i] != 0));
        else if (y->view.dtype == LS_U8) CHECK(get(y, i) == (uint8_t)(int64_t)sum[i]);
        else if (y->view.dtype == LS_I8) CHECK(get(y, i) == (int8_t)(int64_t)sum[i]);
        else CHECK_NEAR(get(y, i), sum[i], tolerance(y->view.dtype) / 2);
    }
    free(sum);
}

static void scatter(int c, ls_dtype dtype, placement how)
{
    int dim = elements[c].dim;
    operand x = operand_noise(dtype, elements[c].x, how, 1), before = operand_noise(dtype, elements[c].x, how, 1);
    operand y = operand_new(dtype, elements[c].x, (placement)((how + 1) % LAYOUTS));
    operand index = index_noise(how ? LS_I64 : LS_I32, elements[c].index, how, elements[c].x.dim[dim]);
    ls_shape larger = elements[c].index;
    larger.dim[0] += 2; /* elements beyond index are not added */
    operand src = operand_noise(dtype, larger, how, 2);
    CHECK_RUNS(LS_OP_scatter_add, dim, &x, &index, &src, &y);
    check_scattered(&before, &index, &src, &y, dim);
    CHECK(same_bits(&x, &before));
    CHECK_RUNS(LS_OP_scatter_add, dim, &x, &index, &src, &x);
    check_scattered(&before, &index, &src, &x, dim);
    operand_free(&x);
    operand_free(&before);
    operand_free(&y);
    operand_free(&index);
    operand_free(&src);
}

static void picks_and_adds_elements(void)
{
    for (int c = 0; c < ELEMENTS; c++) {
        for (int t = LS_BOOL; t < LS_DTYPE_COUNT; t++) {
            for (int how = 0; how < LAYOUTS; how++) {
                gather(c, (ls_dtype)t, (placement)how);
                scatter(c, (ls_dtype)t, (placement)how);
            }
        }
    }
}

/* ---- Slices ------------------------------------------------------------------------------------------------------ */

static const struct {
    ls_shape x;
    int dim;
    int64_t k;
} slices[] = {
    {{1, {9}}, 0, 30},         {{2, {6, 5}}, 1, 13},     {{3, {4, 3, 33}}, 0, 9},    {{3, {2, 3, 1}}, 1, 4},
    {{2, {500, 1}}, 0, 9000},  {{2, {90, 257}}, 0, 301}, {{3, {3, 50, 70}}, 1, 200}, {{3, {2, 0, 3}}, 2, 4},
    {{4, {3, 4, 5, 6}}, 2, 7}, {{2, {4, 3}}, 0, 0},
};
enum { SLICES = sizeof slices / sizeof *slices };

static void select_slices(int c, ls_dtype dtype, placement how)
{
    int dim = slices[c].dim;
    operand x = operand_noise(dtype, slices[c].x, how, 1);
    operand index = index_noise(how ? LS_I64 : LS_I32, LS_SHAPE(slices[c].k), how, slices[c].x.dim[dim]);
    ls_shape shape = slices[c].x;
    shape.dim[dim] = slices[c].k;
    operand y = operand_new(dtype, shape, how);
    CHECK_RUNS(LS_OP_index_select, dim, &x, &index, NULL, &y);
    for (int64_t i = 0; i < numel(&y.view); i++) {
        place p = place_of(&y, i);
        p.at[dim] = (int64_t)get(&index, p.at[dim]);
        CHECK(get(&y, i) == get(&x, flat_of(&x, p)));
    }
    operand_free(&x);
    operand_free(&index);
    operand_free(&y);
}

static void add_slices(int c, ls_dtype from, ls_dtype to, placement how)
{
    int dim = slices[c].dim;
    operand y = operand_noise(to, slices[c].x, how, 1), before = operand_noise(to, slices[c].x, how, 1);
    operand index = index_noise(how ? LS_I64 : LS_I32, LS_SHAPE(slices[c].k), how, slices[c].x.dim[dim]);
    ls_shape shape = slices[c].x;
    shape.dim[dim] = slices[c].k;
    operand src = operand_noise(from, shape, how, 2);
    CHECK_RUNS(LS_OP_index_add, dim, &index, &src, NULL, &y);

    double *sum = malloc((size_t)numel(&y.view) * sizeof *sum + 1);
    for (int64_t i = 0; i < numel(&y.view); i++) sum[i] = get(&before, i);
    for (int64_t i = 0; i < numel(&src.view); i++) {
        place p = place_of(&src, i);
        p.at[dim] = (int64_t)get(&index, p.at[dim]);
        sum[flat_of(&y, p)] += get(&src, i);
    }
    for (int64_t i = 0; i < numel(&y.view); i++) CHECK_NEAR(get(&y, i), sum[i], tolerance(to) / 2);
    free(sum);
    operand_free(&y);
    operand_free(&before);
    operand_free(&index);
    operand_free(&src);
}

static void skips_slices_of_one_index(void)
{
    float y[4] = {1, 2, 3, 4}, src[5] = {10, 20, 30, 40, 50};
    int64_t index[5] = {2, 0, 2, 3, 0};
    ls_operand at = {.data = index, .dtype = LS_I64, .ndim = 1, .dim = {5}, .stride = {1}};
    ls_operand from = {.data = src, .dtype = LS_F32, .ndim = 1, .dim = {5}, .stride = {1}};
    ls_operand to = {.data = y, .dtype = LS_F32, .ndim = 1, .dim = {4}, .stride = {1}};
    ls_call call = {.op = LS_OP_index_add, .n_in = 2, .n_out = 1, .in = {&at, &from}, .out = {&to}};
    call.attrs.axis.flag = true;
    call.attrs.axis.k = 2;
    ls_message why;
    CHECK(ls_cpu_run(&call, &why) == LS_OK && y[0] == 71 && y[1] == 2 && y[2] == 3 && y[3] == 44);
    for (int i = 0; i < 5; i++) index[i] = 2;
    CHECK(ls_cpu_run(&call, &why) == LS_OK && y[0] == 71 && y[2] == 3);
}

static void picks_and_adds_slices(void)
{
    for (int c = 0; c < SLICES; c++) {
        for (int how = 0; how < LAYOUTS; how++) {
            for (int t = LS_BOOL; t < LS_DTYPE_COUNT; t++) select_slices(c, (ls_dtype)t, (placement)how);
            for (int t = LS_F16; t < LS_DTYPE_COUNT; t++) add_slices(c, (ls_dtype)t, (ls_dtype)t, (placement)how);
            add_slices(c, LS_BF16, LS_F32, (placement)how);
            add_slices(c, LS_F16, LS_F32, (placement)how);
        }
    }
}

static void looks_up_rows_of_a_table(void)
{
    const ls_shape indices[] = {LS_SCALAR, LS_SHAPE(5), LS_SHAPE(3, 4), LS_SHAPE(0, 2), LS_SHAPE(40, 50)};
    for (size_t c = 0; c < sizeof indices / sizeof *indices; c++) {
        for (int how = 0; how < LAYOUTS; how++) {
            operand weight = operand_noise(how ? LS_BF16 : LS_F32, LS_SHAPE(31, 19), (placement)how, 1);
            operand index = index_noise(how ? LS_I64 : LS_I32, indices[c], (placement)how, 31);
            ls_shape shape = indices[c];
            shape.dim[shape.ndim++] = 19;
            operand y = operand_new(weight.view.dtype, shape, (placement)how);
            CHECK_RUNS(LS_OP_embedding, 0, &weight, &index, NULL, &y);
            for (int64_t i = 0; i < numel(&y.view); i++)
                CHECK(get(&y, i) == get(&weight, (int64_t)get(&index, i / 19) * 19 + i % 19));
            operand_free(&weight);
            operand_free(&index);
            operand_free(&y);
        }
    }
}

/* ---- Sums and errors --------------------------------------------------------------------------------------------- */

/* Inexact sums have the same bits whatever the number of workers. */
static void sums_do_not_depend_on_the_number_of_workers(void)
{
    for (int t = LS_F16; t <= LS_F64; t++) {
        for (int64_t columns = 3; columns <= 160; columns += 157) {
            ls_shape shape = LS_SHAPE(40, columns);
            operand src = operand_new((ls_dtype)t, LS_SHAPE(9000, columns), PLAIN), results[3][2];
            operand rows = index_noise(LS_I64, LS_SHAPE(9000), PLAIN, 40);
            operand places = index_noise(LS_I64, shape_of(&src), PLAIN, 40);
            for (int64_t i = 0; i < numel(&src.view); i++) set(&src, i, sin((double)i));
            for (int width = 1; width <= 3; width++) {
                operand *y = results[width - 1];
                y[0] = operand_noise((ls_dtype)t, shape, PLAIN, 1);
                y[1] = operand_noise((ls_dtype)t, shape, PLAIN, 1);
                ls_parallel_set_width(width);
                CHECK_RUNS(LS_OP_index_add, 0, &rows, &src, NULL, &y[0]);
                CHECK_RUNS(LS_OP_scatter_add, 0, &y[1], &places, &src, &y[1]);
                CHECK(same_bits(&y[0], &results[0][0]) && same_bits(&y[1], &results[0][1]));
            }
            for (int i = 0; i < 6; i++) operand_free(&results[i / 2][i % 2]);
            operand_free(&rows);
            operand_free(&places);
            operand_free(&src);
        }
    }
}

/* Rounded after every addition, 4096 times 1 would stay at 256. */
static void many_halves_add_up(void)
{
    ls_shape shape = LS_SHAPE(2, 20);
    operand src = operand_new(LS_BF16, LS_SHAPE(4096, 20), PLAIN);
    operand rows = index_noise(LS_I64, LS_SHAPE(4096), PLAIN, 1);
    operand places = index_noise(LS_I64, shape_of(&src), PLAIN, 1);
    operand y[2] = {operand_noise(LS_BF16, shape, PLAIN, 1), operand_noise(LS_BF16, shape, PLAIN, 1)};
    for (int64_t i = 0; i < numel(&src.view); i++) set(&src, i, 1);
    for (int64_t i = 0; i < 20; i++) {
        set(&y[0], i, 0);
        set(&y[1], i, 0);
    }
    CHECK_RUNS(LS_OP_index_add, 0, &rows, &src, NULL, &y[0]);
    CHECK_RUNS(LS_OP_scatter_add, 0, &y[1], &places, &src, &y[1]);
    for (int64_t i = 0; i < 20; i++) CHECK(get(&y[0], i) == 4096 && get(&y[1], i) == 4096);
    operand_free(&src);
    operand_free(&rows);
    operand_free(&places);
    operand_free(&y[0]);
    operand_free(&y[1]);
}

static void refuses_what_is_out_of_range(void)
{
    const double bad[] = {5, 7, -1, -5, 1 << 30};
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
        ls_shape shape = LS_SHAPE(5, 3);
        operand x = operand_noise(LS_F32, shape, PLAIN, 1), y = operand_noise(LS_F32, shape, PLAIN, 2);
        operand before = operand_noise(LS_F32, shape, PLAIN, 2);
        operand line = index_noise(b % 2 ? LS_I32 : LS_I64, LS_SHAPE(5), GAPS, 5);
        operand full = index_noise(b % 2 ? LS_I32 : LS_I64, shape, GAPS, 5);
        set(&line, 3, bad[b]);
        set(&full, 7, bad[b]);
        set(&full, 11, 77);
        const struct {
            ls_opcode op;
            const operand *a, *b, *c;
        } calls[] = {{LS_OP_scatter_add, &x, &full, &x},
                     {LS_OP_index_add, &line, &x, NULL},
                     {LS_OP_gather, &x, &full, NULL},
                     {LS_OP_index_select, &x, &line, NULL},
                     {LS_OP_embedding, &x, &line, NULL}};
        for (int i = 0; i < 5; i++) {
            ls_message why = {""};
            char expected[100];
            snprintf(expected, sizeof expected, "index %.0f at position %d is out of range for 5 rows", bad[b],
                     calls[i].b == &full ? 7 : 3);
            CHECK(run_on(calls[i].op, 0, calls[i].a, calls[i].b, calls[i].c, &y, &why) == LS_ERR_VALUE);
            CHECK_TEXT(why.text, expected);
            if (i < 2) CHECK(same_bits(&y, &before)); /* the target stays unchanged */
        }
        operand_free(&x);
        operand_free(&y);
        operand_free(&before);
        operand_free(&line);
        operand_free(&full);
    }
}

static void all(void)
{
    CHECK_RUN(picks_and_adds_elements);
    CHECK_RUN(picks_and_adds_slices);
    CHECK_RUN(skips_slices_of_one_index);
    CHECK_RUN(looks_up_rows_of_a_table);
    CHECK_RUN(many_halves_add_up);
    CHECK_RUN(refuses_what_is_out_of_range);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    for (int width = 1; width <= 2; width++) {
        ls_parallel_set_width(width);
        all();
    }
    CHECK_RUN(sums_do_not_depend_on_the_number_of_workers);
    return check_done();
}
