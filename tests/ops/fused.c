/* fused.c - operators that do the work of several give the numbers of the several: every bit of results and of
 * gradients, for every number type and ISA, whatever the layout. */
#include <lockstep.h>

#include "base/parallel.h"
#include "check.h"
#include "kernels/kernels.h"
#include "ops/op.h"

static ls_run *run;

enum { MOST_INPUTS = 5 };

/* What a function of some tensors gave: its result and the gradients. */
typedef struct outcome {
    ls_tensor *y, *gradient[MOST_INPUTS];
} outcome;

typedef ls_tensor *function(ls_tensor **in);

/* From a seed, so that two functions draw the same numbers. */
static outcome outcome_of(function *f, ls_tensor **in, int n)
{
    ls_set_seed(run, 5);
    outcome o = {.y = f(in)};
    ls_backward(run, ls_sum(ls_mul(o.y, ls_detach(ls_cos(o.y)))));
    for (int i = 0; i < n; i++) {
        if (!in[i]) continue;
        o.gradient[i] = ls_clone(ls_grad(in[i]));
        ls_clear_grad(in[i]);
    }
    return o;
}

static void same_bits(ls_tensor *a, ls_tensor *b, const char *what, const char *where)
{
    int64_t n = ls_numel(a);
    size_t bytes = (size_t)n * ls_dtype_size(ls_dtype_of(a));
    char *p = malloc(2 * bytes + 1), *q = p + bytes;
    CHECK(ls_numel(b) == n && ls_dtype_of(a) == ls_dtype_of(b));
    CHECK_MSG(ls_read(a, p, bytes) && ls_read(b, q, bytes) && memcmp(p, q, bytes) == 0, "%s, %s: other bits", where,
              what);
    free(p);
}

/* Vectors are summed over rows, which may be grouped otherwise. */
static void near(ls_tensor *a, ls_tensor *b, const char *what, const char *where)
{
    double scale = 1 + ls_item(ls_max(ls_abs(ls_cast(a, LS_F64)))), limit = ls_dtype_of(a) == LS_F64 ? 1e-12 : 2e-6;
    if (ls_dtype_of(a) == LS_BF16 || ls_dtype_of(a) == LS_F16) limit = 0.01;
    double difference = ls_item(ls_max(ls_abs(ls_sub(ls_cast(a, LS_F64), ls_cast(b, LS_F64)))));
    CHECK_MSG(difference <= limit * scale, "%s, %s: %g off", where, what, difference);
}

static ls_tensor *random_leaf(ls_dtype dtype, ls_shape shape, bool turned)
{
    ls_tensor *x = ls_cast(ls_normal_shape(run, LS_F32, 0.5, 1, shape), dtype);
    if (turned) x = ls_transpose(ls_contiguous(ls_transpose(x, 0, 1)), 0, 1);
    return ls_set_requires_grad(ls_detach(x), true);
}

/* ---- dropout, add, layer norm ---- */

static ls_tensor *in_one_step(ls_tensor **in)
{
    return ls_dropout_add_layer_norm(in[0], in[1], in[2], in[3], 0.25, 1e-5);
}

static ls_tensor *in_three_steps(ls_tensor **in)
{
    return ls_layer_norm(ls_add(ls_dropout(in[0], 0.25), in[1]), in[2], in[3], 1e-5);
}

/* What is normalised goes on, too, as in a layer that begins with its norm. */
static ls_tensor *sum_in_one_step(ls_tensor **in)
{
    ls_tensor *sum, *y = ls_dropout_add_layer_norm_sum(in[0], in[1], in[2], in[3], 0.25, 1e-5, &sum);
    return ls_add(ls_sin(y), sum);
}

static ls_tensor *sum_in_three_steps(ls_tensor **in)
{
    ls_tensor *sum = ls_add(ls_dropout(in[0], 0.25), in[1]);
    return ls_add(ls_sin(ls_layer_norm(sum, in[2], in[3], 1e-5)), sum);
}

static ls_tensor *only_the_sum(ls_tensor **in)
{
    ls_tensor *sum, *y = ls_dropout_add_layer_norm_sum(in[0], in[1], in[2], in[3], 0.25, 1e-5, &sum);
    return ls_add(sum, ls_mul_scalar(ls_detach(y), 0));
}

static ls_tensor *only_the_sum_in_two_steps(ls_tensor **in)
{
    return ls_add(ls_dropout(in[0], 0.25), in[1]);
}

static void the_sum_goes_on(void)
{
    static const ls_dtype types[] = {LS_F64, LS_F32, LS_BF16, LS_F16};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const char *where = ls_dtype_name(types[t]);
        ls_tensor *in[MOST_INPUTS] = {
            random_leaf(types[t], LS_SHAPE(70, 33), true), random_leaf(types[t], LS_SHAPE(70, 33), false),
            random_leaf(types[t], LS_SHAPE(33), false), random_leaf(types[t], LS_SHAPE(33), false)};
        outcome one = outcome_of(sum_in_one_step, in, 4), three = outcome_of(sum_in_three_steps, in, 4);
        same_bits(one.y, three.y, "norm and sum", where);
        for (int i = 0; i < 4; i++) near(one.gradient[i], three.gradient[i], "gradient of norm and sum", where);
        one = outcome_of(only_the_sum, in, 2), three = outcome_of(only_the_sum_in_two_steps, in, 2);
        same_bits(one.y, three.y, "sum", where);
        for (int i = 0; i < 2; i++) same_bits(one.gradient[i], three.gradient[i], "gradient of the sum", where);
        for (int i = 2; i < 4; i++) ls_clear_grad(in[i]);
    }
}

static void compare_norms(ls_dtype dtype, int64_t rows, int64_t n, bool turned)
{
    char where[80];
    snprintf(where, sizeof where, "%s [%lld,%lld]%s", ls_dtype_name(dtype), (long long)rows, (long long)n,
             turned ? " turned" : "");
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *in[] = {random_leaf(dtype, LS_SHAPE(rows, n), turned), random_leaf(dtype, LS_SHAPE(rows, n), false),
                       random_leaf(dtype, LS_SHAPE(n), false), random_leaf(dtype, LS_SHAPE(n), false)};
    outcome one = outcome_of(in_one_step, in, 4), three = outcome_of(in_three_steps, in, 4);
    same_bits(one.y, three.y, "result", where);
    same_bits(one.gradient[0], three.gradient[0], "gradient of x", where);
    same_bits(one.gradient[1], three.gradient[1], "gradient of the residual", where);
    if (rows) near(one.gradient[2], three.gradient[2], "gradient of the weight", where);
    if (rows) near(one.gradient[3], three.gradient[3], "gradient of the bias", where);
    ls_scope_end(run, mark, NULL);
}

static void dropout_add_layer_norm_is_three_operators(void)
{
    static const ls_dtype types[] = {LS_F64, LS_F32, LS_BF16, LS_F16};
    static const int64_t shapes[][2] = {{1, 1}, {0, 7}, {3, 17}, {70, 64}, {5, 256}, {301, 48}, {600, 33}};
    ls_isa best = ls_isa_in_use();
    for (int isa = 0; isa <= (int)best; isa++) {
        if (!ls_isa_usable((ls_isa)isa)) continue;
        ls_isa_cap((ls_isa)isa);
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
                for (int turned = 0; turned < 2; turned++) compare_norms(types[t], shapes[s][0], shapes[s][1], turned);
    }
    ls_isa_cap(best);
}

/* ---- embedding, layer norm ---- */

static ls_tensor *words, *positions, *types; /* indices */

static ls_tensor *picked_in_one_step(ls_tensor **in)
{
    return ls_embedding_layer_norm(in, ((ls_tensor *[]){words, positions, types}), 3, .weight = in[3], .bias = in[4],
                                   .epsilon = 1e-12);
}

static ls_tensor *picked_in_steps(ls_tensor **in)
{
    ls_tensor *sum = ls_add(ls_embedding(in[0], words), ls_embedding(in[1], positions));
    return ls_layer_norm(ls_add(sum, ls_embedding(in[2], types)), in[3], in[4], 1e-12);
}

static ls_tensor *random_index(int64_t limit, ls_shape shape)
{
    return ls_cast(ls_floor(ls_uniform_shape(run, LS_F32, 0, (double)limit, shape)), LS_I64);
}

static void compare_picked(ls_dtype dtype, int64_t length, int64_t n, bool turned)
{
    char where[80];
    snprintf(where, sizeof where, "%s [3,%lld,%lld]%s", ls_dtype_name(dtype), (long long)length, (long long)n,
             turned ? " turned" : "");
    ls_mark mark = ls_scope_begin(run);
    words = random_index(50, LS_SHAPE(3, length));
    positions = ls_cast(ls_arange(run, LS_I64, length, 0, 1), LS_I32); /* for every sequence of the batch */
    types = random_index(2, LS_SHAPE(3, length));
    ls_tensor *in[] = {random_leaf(dtype, LS_SHAPE(50, n), turned), random_leaf(dtype, LS_SHAPE(length + 2, n), false),
                       random_leaf(dtype, LS_SHAPE(2, n), turned), random_leaf(dtype, LS_SHAPE(n), false),
                       random_leaf(dtype, LS_SHAPE(n), false)};
    outcome one = outcome_of(picked_in_one_step, in, 5), steps = outcome_of(picked_in_steps, in, 5);
    same_bits(one.y, steps.y, "result", where);
    same_bits(one.gradient[0], steps.gradient[0], "gradient of words", where);
    near(one.gradient[1], steps.gradient[1], "gradient of positions", where);
    same_bits(one.gradient[2], steps.gradient[2], "gradient of types", where);
    near(one.gradient[3], steps.gradient[3], "gradient of the weight", where);
    near(one.gradient[4], steps.gradient[4], "gradient of the bias", where);
    ls_scope_end(run, mark, NULL);
}

static void embedding_layer_norm_is_its_operators(void)
{
    static const ls_dtype types_of_number[] = {LS_F64, LS_F32, LS_BF16, LS_F16};
    ls_isa best = ls_isa_in_use();
    for (int isa = 0; isa <= (int)best; isa++) {
        if (!ls_isa_usable((ls_isa)isa)) continue;
        ls_isa_cap((ls_isa)isa);
        for (size_t t = 0; t < sizeof types_of_number / sizeof *types_of_number; t++)
            for (int turned = 0; turned < 2; turned++) {
                compare_picked(types_of_number[t], 5, 17, turned);
                compare_picked(types_of_number[t], 70, 64, turned);
            }
    }
    ls_isa_cap(best);
}

static void compare_threads(function *f, ls_tensor **in, int n, const char *what)
{
    ls_parallel_set_width(1);
    outcome alone = outcome_of(f, in, n);
    ls_parallel_set_width(2);
    outcome two = outcome_of(f, in, n);
    ls_parallel_set_width(0);
    same_bits(alone.y, two.y, what, "1 and 2 threads");
    for (int i = 0; i < n; i++) same_bits(alone.gradient[i], two.gradient[i], what, "gradients by 1 and 2 threads");
}

static void bits_do_not_depend_on_the_number_of_threads(void)
{
    words = random_index(50, LS_SHAPE(3, 300));
    positions = ls_arange(run, LS_I64, 300, 0, 1);
    types = random_index(2, LS_SHAPE(3, 300));
    ls_tensor *in[MOST_INPUTS] = {random_leaf(LS_F32, LS_SHAPE(50, 96), false),
                                  random_leaf(LS_F32, LS_SHAPE(300, 96), false),
                                  random_leaf(LS_F32, LS_SHAPE(2, 96), false), random_leaf(LS_F32, LS_SHAPE(96), false),
                                  random_leaf(LS_F32, LS_SHAPE(96), false)};
    compare_threads(picked_in_one_step, in, 5, "embedding and norm");
    in[0] = random_leaf(LS_F32, LS_SHAPE(900, 96), false);
    in[1] = random_leaf(LS_F32, LS_SHAPE(900, 96), false);
    in[2] = random_leaf(LS_F32, LS_SHAPE(96), false);
    compare_threads(sum_in_one_step, in, 4, "sum and norm");
}

static void a_padding_row_gets_no_gradient(void)
{
    ls_tensor *table = ls_set_requires_grad(ls_randn(run, LS_F32, 4, 8), true);
    ls_tensor *index = ls_from(run, LS_I64, LS_SHAPE(6), (int64_t[]){0, 3, 3, 1, 3, 0});
    ls_tensor *y = ls_embedding_layer_norm(&table, &index, 1, .padding_idx = {-1});
    ls_backward(run, ls_sum(ls_mul(y, ls_detach(ls_cos(y)))));
    float rows[4], *padded = rows + 3;
    CHECK(ls_read(ls_norm_dims(ls_grad(table), LS_DIMS(1), false), rows, sizeof rows));
    CHECK(*padded == 0 && rows[2] == 0 && rows[0] > 0 && rows[1] > 0);
}

#define FAILS(call, code, part)                                                                                        \
    do {                                                                                                               \
        CHECK(!ls_is_valid(call));                                                                                     \
        CHECK_MSG(ls_error(run) == (code) && strstr(ls_error_message(run), part), "%s", ls_error_message(run));        \
        ls_clear_error(run);                                                                                           \
    } while (0)

static void wrong_tables_are_told(void)
{
    ls_tensor *table[] = {ls_ones(run, LS_F32, 4, 8), ls_ones(run, LS_F32, 3, 7), ls_ones(run, LS_BF16, 3, 8)};
    ls_tensor *index[] = {ls_zeros(run, LS_I64, 2, 5), ls_zeros(run, LS_I64, 3), ls_full(run, LS_I64, 4, 5)};
    ls_tensor *mixed[] = {table[0], table[2]}, *halves[] = {index[0], table[0]}, *high[] = {index[0], index[2]};
    ls_tensor *twice[] = {table[0], table[0]};
    FAILS(ls_embedding_layer_norm(table, index, 0), LS_ERR_VALUE, "0 tables; 1 to 3");
    FAILS(ls_embedding_layer_norm(table, index, 4), LS_ERR_VALUE, "4 tables; 1 to 3");
    FAILS(ls_embedding_layer_norm(table, index, 2), LS_ERR_SHAPE, "table 1 is");
    FAILS(ls_embedding_layer_norm(mixed, index, 2), LS_ERR_DTYPE, "table 1 is");
    FAILS(ls_embedding_layer_norm(twice, index, 2), LS_ERR_SHAPE, "index 1 is");
    FAILS(ls_embedding_layer_norm(twice, halves, 2), LS_ERR_DTYPE, "not i64 or i32");
    FAILS(ls_embedding_layer_norm(table, index, 1, .weight = table[0]), LS_ERR_SHAPE, "weight");
    FAILS(ls_embedding_layer_norm(table, index, 1, .padding_idx = {4}), LS_ERR_VALUE, "padding_idx 4");
    FAILS(ls_embedding_layer_norm(table, index, 1, .epsilon = -1), LS_ERR_VALUE, "epsilon");
    FAILS(ls_embedding_layer_norm(twice, high, 2), LS_ERR_VALUE, "table 1: index 4 at position 0");
}

static void nan_stays_in_its_row(void)
{
    float x[2][3] = {{1, NAN, 2}, {1, 2, 4}}, y[2][3];
    ls_tensor *in = ls_from(run, LS_F32, LS_SHAPE(2, 3), x);
    ls_tensor *out = ls_dropout_add_layer_norm(in, ls_zeros(run, LS_F32, 2, 3), NULL, NULL, 0, 1e-5);
    CHECK(ls_read(out, y, sizeof y) && isnan(y[0][0]) && isfinite(y[1][0]) && isfinite(y[1][2]));
}

static void a_norm_drops_what_it_adds_to_a_residual(void)
{
    ls_module *norm = ls_layer_norm_new(run, 8, .dropout = 0.5);
    ls_tensor *x = ls_ones(run, LS_F32, 4, 8), *residual = ls_randn(run, LS_F32, 4, 8);
    ls_eval(norm);
    same_bits(ls_forward(norm, x, residual), ls_layer_norm(ls_add(x, residual), NULL, NULL, 1e-5), "result",
              "evaluation");
    ls_train(norm);
    ls_set_seed(run, 9);
    ls_tensor *y = ls_forward(norm, x, residual);
    ls_set_seed(run, 9);
    same_bits(y, ls_layer_norm(ls_add(ls_dropout(x, 0.5), residual), NULL, NULL, 1e-5), "result", "training");
    ls_forward(norm, x);
    CHECK(ls_error(run) == LS_ERR_VALUE && strstr(ls_error_message(run), "pass the residual"));
    ls_clear_error(run);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    run = ls_init(NULL, NULL, .seed = 1);
    CHECK_RUN(dropout_add_layer_norm_is_three_operators);
    CHECK_RUN(embedding_layer_norm_is_its_operators);
    CHECK_RUN(bits_do_not_depend_on_the_number_of_threads);
    CHECK_RUN(a_padding_row_gets_no_gradient);
    CHECK_RUN(wrong_tables_are_told);
    CHECK_RUN(the_sum_goes_on);
    CHECK_RUN(nan_stays_in_its_row);
    CHECK_RUN(a_norm_drops_what_it_adds_to_a_residual);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_finish(run);
    return check_done();
}
