/* built.c - operators that are put together from others: what the walk and PyTorch's numbers do not show. */
#include <lockstep.h>

#include "arguments.h"
#include "expect.h"

static ls_run *run;

/* Numbers that f32, or the integer's own type, cannot hold. */
static void integers_meet_numbers_exactly(void)
{
    ls_tensor *large = ls_from(run, LS_I64, LS_SHAPE(2), (int64_t[]){(INT64_C(1) << 40) + 1, INT64_C(1) << 40});
    CHECK(ls_item(ls_sum(ls_eq_scalar(large, 0x1p40))) == 1 && ls_item(ls_sum(ls_gt_scalar(large, 0x1p40))) == 1);
    ls_tensor *bytes = ls_from(run, LS_U8, LS_SHAPE(3), (uint8_t[]){0, 44, 255});
    CHECK(ls_item(ls_sum(ls_lt_scalar(bytes, 300))) == 3 && ls_item(ls_sum(ls_eq_scalar(bytes, 300))) == 0);
    CHECK(ls_item(ls_sum(ls_gt_scalar(bytes, 0.5))) == 2 && ls_item(ls_sum(ls_ge_scalar(bytes, -INFINITY))) == 3);
    ls_tensor *odd = ls_from(run, LS_I64, LS_SHAPE(3), (int64_t[]){16777217, 16777218, INT64_MAX}); /* not of f32 */
    CHECK(ls_item(ls_sum(ls_gt_scalar(odd, 16777217.5))) == 2 && ls_item(ls_sum(ls_ge_scalar(odd, 16777217.5))) == 2);
    CHECK(ls_item(ls_sum(ls_lt_scalar(odd, 16777217.5))) == 1 && ls_item(ls_sum(ls_le_scalar(odd, 16777217.5))) == 1);
    CHECK(ls_item(ls_sum(ls_eq_scalar(odd, 16777217.5))) == 0 && ls_item(ls_sum(ls_ne_scalar(odd, 16777217.5))) == 3);
    CHECK(ls_item(ls_sum(ls_lt_scalar(odd, 0x1p63))) == 3 && ls_item(ls_sum(ls_ge_scalar(odd, 0x1p63))) == 0);
    CHECK(ls_item(ls_sum(ls_ge_scalar(odd, NAN))) == 0 && ls_item(ls_sum(ls_ne_scalar(odd, NAN))) == 3);
    CHECK(ls_item(ls_sum(ls_lt_scalar(ls_gt_scalar(bytes, 50), 0.5))) == ls_item(ls_sum(ls_le_scalar(bytes, 50))));
    CHECK(ls_dtype_of(ls_masked_fill(bytes, ls_gt_scalar(bytes, 50), 7)) == LS_U8);
    CHECK(ls_dtype_of(ls_where_scalar(ls_gt_scalar(bytes, 50), bytes, 0.5)) == LS_F32);
    FAILS(ls_masked_fill(bytes, ls_gt_scalar(bytes, 50), 256), LS_ERR_VALUE,
          "masked_fill: 256 is not a number of [3] u8");
    FAILS(ls_masked_fill(bytes, ls_gt_scalar(bytes, 50), 0.5), LS_ERR_VALUE, "ls_cast() it first");
    ls_tensor *smallest = ls_full(run, LS_I64, -0x1p63, 1);
    CHECK(ls_item(ls_remainder_scalar(smallest, -1)) == 0);
    CHECK(ls_item(ls_remainder(smallest, ls_zeros(run, LS_I64, 1))) == 0);
    FAILS(ls_remainder_scalar(smallest, 0), LS_ERR_VALUE, "remainder: the integers [1] i64 cannot be divided by 0");
    CHECK(isnan(ls_item(ls_remainder_scalar(ls_ones(run, LS_F32, 1), 0))));
}

/* Integers are not wrapped round, and fractions not cut off. */
static void tensors_hold_the_number_given(void)
{
    FAILS(ls_full(run, LS_U8, 300, 2), LS_ERR_VALUE, "full: 300 is not a number of u8; choose a type that has it");
    FAILS(ls_full(run, LS_I32, NAN, 2), LS_ERR_VALUE, "full: nan is not a number of i32");
    FAILS(ls_full(run, LS_I64, 0x1p63, 2), LS_ERR_VALUE, "is not a number of i64");
    FAILS(ls_full(run, LS_I8, 0.5, 2), LS_ERR_VALUE, "full: 0.5 is not a number of i8");
    CHECK(ls_item(ls_full(run, LS_U8, 255, 1)) == 255 && isnan(ls_item(ls_full(run, LS_BF16, NAN, 1))));
    FAILS(ls_pad(ls_zeros(run, LS_U8, 2), LS_SHAPE(1), LS_SHAPE(0), -1), LS_ERR_VALUE,
          "pad: -1 is not a number of [2] u8");
    ls_tensor *x = ls_zeros(run, LS_I64, 2), *index = ls_zeros(run, LS_I64, 1);
    FAILS(ls_scatter(x, 0, index, ls_full(run, LS_F32, 1.5, 1)), LS_ERR_DTYPE,
          "scatter: [2] i64 cannot hold the numbers of source [1] f32; ls_cast()");
    FAILS(ls_scatter_add(x, 0, index, ls_ones(run, LS_F32, 1)), LS_ERR_DTYPE, "scatter_add: [2] i64 cannot hold");
    CHECK(ls_item(ls_sum(ls_scatter(ls_zeros(run, LS_F32, 2), 0, index, ls_full(run, LS_BF16, 1.5, 1)))) == 1.5);
}

/* Of nothing, any is false and all is true. */
static void nothing_is_decided(void)
{
    ls_tensor *none = ls_zeros(run, LS_F32, 0, 3);
    CHECK(ls_item(ls_any(none)) == 0 && ls_item(ls_all(none)) == 1);
    CHECK(ls_dtype_of(ls_all_dim(none, 0, false)) == LS_BOOL && ls_dim(ls_all_dim(none, 0, false), 0) == 3);
    FAILS(ls_any_dim(none, 2, false), LS_ERR_SHAPE, "any: [2] is not a set of dimensions of [0,3] f32");
    FAILS(ls_logsumexp(none), LS_ERR_SHAPE, "logsumexp: [0,3] f32 has no elements");
}

/* Not the intermediate results: bf16 rounds once. */
static void half_types_round_once(void)
{
    ls_tensor *x = ls_affine(ls_arange(run, LS_F32, 1000, 0, 0.001), 30, -15), *half = ls_cast(x, LS_BF16);
    ls_tensor *want = ls_cast(ls_logsumexp(ls_cast(half, LS_F32)), LS_BF16);
    CHECK(ls_item(ls_logsumexp(half)) == ls_item(want) && ls_dtype_of(ls_logsumexp(half)) == LS_BF16);
    ls_tensor *norm = ls_rms_norm(half, NULL, 1e-6);
    ls_tensor *wide = ls_cast(ls_rms_norm(ls_cast(half, LS_F32), NULL, 1e-6), LS_BF16);
    CHECK(ls_item(ls_max(ls_abs(ls_sub(norm, wide)))) == 0);
    FAILS(ls_rms_norm(x, ls_ones(run, LS_F32, 3), 1e-6), LS_ERR_SHAPE, "weight [3] f32 does not have the last");
    FAILS(ls_rms_norm(x, NULL, -1), LS_ERR_VALUE, "rms_norm: epsilon is -1");
}

static void the_last_of_several_stays(void)
{
    ls_tensor *x = ls_zeros(run, LS_F32, 2, 3), *twice = ls_ones(run, LS_I64, 2, 2);
    ls_tensor *y = ls_scatter(x, 1, twice, ls_reshape(ls_arange(run, LS_F32, 4, 1, 1), 2, 2));
    float got[6];
    CHECK(ls_read(y, got, sizeof got) && got[1] == 2 && got[4] == 4 && got[0] + got[2] + got[3] + got[5] == 0);
    CHECK(ls_item(ls_sum(ls_scatter_scalar(x, 1, twice, 1))) == 2);
    FAILS(ls_item(ls_sum(ls_scatter_scalar(x, 0, ls_full(run, LS_I64, 2, 1, 1), 1))), LS_ERR_VALUE,
          "scatter: index 2 ");
}

static void classes_out_of_range_are_found(void)
{
    ls_tensor *index = ls_from(run, LS_I64, LS_SHAPE(3), (int64_t[]){0, 4, 1});
    CHECK(ls_dim(ls_one_hot(index, 5), 1) == 5 && ls_dtype_of(ls_one_hot(index, 5)) == LS_I64);
    FAILS(ls_item(ls_sum(ls_one_hot(index, 4))), LS_ERR_VALUE,
          "one_hot: scatter_add: index 4 "); /* a device may not say at which position */
    FAILS(ls_item(ls_sum(ls_bincount(index, 4))), LS_ERR_VALUE, "bincount: scatter_add: index 4 ");
    FAILS(ls_item(ls_sum(ls_take_along_dim(index, 0, index))), LS_ERR_VALUE, "take_along_dim: index 4 ");
    FAILS(ls_take_along_dim(index, 1, index), LS_ERR_SHAPE, "take_along_dim: [3] i64 has no such dimension");
    FAILS(ls_one_hot(index, 0), LS_ERR_VALUE, "one_hot: 0 classes");
    FAILS(ls_one_hot(ls_ones(run, LS_F32, 2), 3), LS_ERR_DTYPE, "one_hot: the index is [2] f32");
    CHECK(ls_numel(ls_bincount(ls_zeros(run, LS_I64, 0), 0)) == 0);
}

/* Counts of 40,000 draws are within five standard deviations of what the weights say; seeds repeat them. */
static void classes_are_drawn_by_weight(void)
{
    enum { DRAWS = 40000, CLASSES = 5 };
    const float weight[CLASSES] = {0, 1, 3, 0, 6};
    ls_tensor *weights = ls_from(run, LS_F32, LS_SHAPE(CLASSES), weight);
    for (int way = 0; way < 2; way++) { /* one draw of each of many rows; many draws of one row */
        ls_set_seed(run, 11);
        ls_tensor *drawn =
            way ? ls_multinomial(weights, DRAWS, true) : ls_multinomial(ls_expand(weights, DRAWS, CLASSES), 1, false);
        CHECK(ls_dtype_of(drawn) == LS_I64 && ls_numel(drawn) == DRAWS && ls_ndim(drawn) == 2 - way);
        int64_t count[CLASSES];
        CHECK(ls_read(ls_bincount(drawn, CLASSES), count, sizeof count));
        for (int c = 0; c < CLASSES; c++) {
            double p = (double)weight[c] / 10, spread = sqrt(DRAWS * p * (1 - p));
            CHECK_MSG(fabs((double)count[c] - DRAWS * p) <= 5 * spread, "class %d: %lld of %d", c, (long long)count[c],
                      DRAWS);
        }
        ls_set_seed(run, 11);
        ls_tensor *again =
            way ? ls_multinomial(weights, DRAWS, true) : ls_multinomial(ls_expand(weights, DRAWS, CLASSES), 1, false);
        CHECK(ls_item(ls_all(ls_eq(drawn, again))) == 1);
    }
}

/* Each at most once: the first by weight, the second by the weights that are left. */
static void drawn_classes_are_not_drawn_again(void)
{
    enum { ROWS = 20000 };
    ls_tensor *weights = ls_from(run, LS_F32, LS_SHAPE(3), (float[]){1, 2, 5});
    ls_tensor *drawn = ls_multinomial(ls_expand(weights, ROWS, 3), 2, false);
    CHECK(ls_item(ls_any(ls_eq(ls_select(drawn, 1, 0), ls_select(drawn, 1, 1)))) == 0);
    double first = ls_item(ls_sum(ls_eq_scalar(ls_select(drawn, 1, 0), 2)));
    double second = ls_item(ls_sum(ls_eq_scalar(ls_select(drawn, 1, 1), 2)));
    double p = 1.0 / 8 * 5 / 7 + 2.0 / 8 * 5 / 6;
    CHECK_NEAR(first / ROWS, 5.0 / 8, 5 * sqrt(5.0 / 8 * 3 / 8 / ROWS));
    CHECK_NEAR(second / ROWS, p, 5 * sqrt(p * (1 - p) / ROWS));
}

/* Smaller than f32 can hold, or with a sum larger than that; and classes that are so small beside others that f32 makes
 * them 0 are drawn before those of weight 0. */
static void weights_of_any_size_are_drawn_from(void)
{
    enum { DRAWS = 4000 };
    const double scale[] = {1e-300, 1e-310, 1e300, 1e-40, 1e38};
    for (int i = 0; i < 10; i++) {
        ls_tensor *weights = ls_from(run, LS_F64, LS_SHAPE(3), (double[]){scale[i / 2], 0, 3 * scale[i / 2]});
        if (i / 2 > 2) weights = ls_cast(weights, LS_F32);
        ls_tensor *drawn =
            i % 2 ? ls_multinomial(weights, DRAWS, true) : ls_multinomial(ls_expand(weights, DRAWS, 3), 1, false);
        int64_t count[3];
        CHECK(ls_read(ls_bincount(drawn, 3), count, sizeof count) && count[1] == 0);
        CHECK_NEAR((double)count[2] / DRAWS, 0.75, 5 * sqrt(0.75 * 0.25 / DRAWS));
    }
    ls_tensor *unequal = ls_from(run, LS_F64, LS_SHAPE(4), (double[]){0, 0, 1e-300, 1});
    int64_t both[2];
    CHECK(ls_read(ls_multinomial(unequal, 2, false), both, sizeof both) && both[0] == 3 && both[1] == 2);
    CHECK_TEXT(ls_error_message(run), "");
}

/* Memory is that of the classes and the draws, not of their product, which would be 10 GB. */
static void many_draws_of_many_classes(void)
{
    enum { COUNT = 100000 };
    ls_tensor *index = ls_arange(run, LS_I64, COUNT, 0, 1);
    ls_tensor *weights = ls_cast(ls_eq_scalar(ls_remainder_scalar(index, 1000), 999), LS_F32);
    ls_tensor *drawn = ls_multinomial(weights, COUNT, true);
    CHECK(ls_item(ls_all(ls_eq_scalar(ls_remainder_scalar(drawn, 1000), 999))) == 1);
    CHECK(ls_item(ls_max(drawn)) == COUNT - 1 && ls_item(ls_min(drawn)) == 999);
    CHECK(ls_memory(run).peak < (size_t)COUNT * 1000);
}

static void draws_compute_finite_numbers_only(void)
{
    ls_run *checked = ls_init(NULL, NULL, .check_finite = true);
    ls_tensor *weights = ls_arange(checked, LS_F32, 5, 0, 1);
    CHECK(ls_item(ls_min(ls_multinomial(weights, 100, true))) >= 1);
    CHECK(ls_item(ls_min(ls_multinomial(weights, 4, false))) >= 1);
    CHECK_TEXT(ls_error_message(checked), "");
    ls_finish(checked);
}

static void weights_that_cannot_be_drawn_from(void)
{
    ls_tensor *bad = ls_from(run, LS_F32, LS_SHAPE(2, 3), (float[]){1, 0, 1, 0.5F, -1, 2});
    FAILS(ls_multinomial(bad, 1, false), LS_ERR_VALUE,
          "multinomial: weights [2,3] f32 must be finite and not negative");
    FAILS(ls_multinomial(ls_mul_scalar(bad, NAN), 1, true), LS_ERR_VALUE, "must be finite");
    FAILS(ls_multinomial(ls_zeros(run, LS_F32, 4), 2, true), LS_ERR_VALUE,
          "has too few classes with a weight above 0 to draw 2");
    FAILS(ls_multinomial(ls_abs(bad), 3, false), LS_ERR_VALUE, "to draw 3 without replacement");
    FAILS(ls_multinomial(ls_abs(bad), 4, false), LS_ERR_VALUE, "4 draws of 3 classes without replacement");
    FAILS(ls_multinomial(ls_abs(bad), 0, true), LS_ERR_VALUE, "0 draws");
    FAILS(ls_multinomial(ls_ones(run, LS_F32, 1, 2, 3), 1, true), LS_ERR_SHAPE, "are not [C] or [N,C]");
}

static void equations_that_do_not_fit(void)
{
    ls_tensor *a = ls_ones(run, LS_F32, 2, 3), *b = ls_ones(run, LS_F32, 3, 4);
    FAILS(ls_einsum("ij,jk->ik", a), LS_ERR_VALUE, "ij,jk->ik is for 2 operands, and 1 were given");
    FAILS(ls_einsum("ij,ik->jk", a, b), LS_ERR_SHAPE, "dimension 0 of [3,4] f32 is of size 2 elsewhere");
    FAILS(ls_einsum("ii->i", a), LS_ERR_UNSUPPORTED, "index i occurs twice in one place; diagonals");
    FAILS(ls_einsum("ij->ijk", a), LS_ERR_VALUE, "the result has an index that no operand has");
    FAILS(ls_einsum("i1->i", a), LS_ERR_VALUE, "\"1\" is not a list of letters");
    FAILS(ls_einsum("ijk->i", a), LS_ERR_SHAPE, "the number of indices is 3 for [2,3] f32");
    FAILS(ls_einsum("...i", ls_sum(a)), LS_ERR_SHAPE, "the number of indices is 1 for [] f32");
    FAILS(ls_einsum("abcd,efgh,ijkl->", ls_ones(run, LS_F32, 1, 1, 1, 1), ls_ones(run, LS_F32, 1, 1, 1, 1), a),
          LS_ERR_SHAPE, "the number of indices is 4 for [2,3] f32");
    FAILS(ls_einsum("...i...->i", a), LS_ERR_VALUE, "\"...\" can occur once in \"...i...\"");
    FAILS(ls_einsum("......->", a), LS_ERR_VALUE, "can occur once");
    FAILS(ls_einsum("ij->...i...", a), LS_ERR_VALUE, "can occur once in \"...i...\"");
    FAILS(ls_einsum("abcdefghi->", a), LS_ERR_VALUE, "\"abcdefghi\" has more than 8 indices");
    ls_tensor *whole = ls_ones(run, LS_I64, 3);
    FAILS(ls_einsum("i,i->", whole, whole), LS_ERR_DTYPE,
          "einsum: i,i->: products of integers, [3] i64 and [3] i64, cannot be summed; ls_cast()");
    CHECK(ls_dtype_of(ls_einsum("i,j->ij", whole, whole)) == LS_I64);
    CHECK(ls_item(ls_einsum("i,i->", ls_cast(whole, LS_F32), whole)) == 3);
    CHECK(ls_item(ls_einsum("ij,jk->", a, b)) == 24 && ls_ndim(ls_einsum("ij->", a)) == 0);
    CHECK(ls_dim(ls_einsum("ij,jk", a, ls_ones(run, LS_F32, 1, 4)), 1) == 4); /* a size of 1 is broadcast */
    CHECK_TEXT(ls_error_message(run), "");
}

static void arrangements_that_do_not_exist(void)
{
    ls_tensor *x = ls_ones(run, LS_F32, 2, 3);
    FAILS(ls_flip(x, 2), LS_ERR_SHAPE, "flip: [2] is not a set of dimensions of [2,3] f32");
    FAILS(ls_roll(x, 1, 2), LS_ERR_SHAPE, "roll: [2,3] f32 has no dimension 2");
    FAILS(ls_repeat(x, 2), LS_ERR_SHAPE, "repeat: [2,3] f32 cannot be repeated [2] times");
    FAILS(ls_repeat(x, -1, 2), LS_ERR_SHAPE, "cannot be repeated");
    FAILS(ls_repeat(x, INT64_MAX, 2), LS_ERR_SHAPE, "cannot be repeated");
    FAILS(ls_tril(ls_ones(run, LS_F32, 3), 0), LS_ERR_SHAPE, "tril: [3] f32 is not a matrix");
    CHECK(ls_roll(x, 4, 0) == x && ls_numel(ls_repeat(x, 0, 2)) == 0);
    CHECK(ls_item(ls_sum(ls_tril(x, INT64_MAX))) == 6 && ls_item(ls_sum(ls_triu(x, INT64_MAX))) == 0);
    ls_tensor *weight = ls_ones(run, LS_F32, 4, 3, 3);
    FAILS(ls_conv1d(x, weight, NULL), LS_ERR_SHAPE, "conv1d: [2,3] f32 and weight [4,3,3] f32 must have three");
    FAILS(ls_conv1d(ls_ones(run, LS_F32, 2, 3, 8), weight, NULL, .stride = 0), LS_ERR_VALUE, "stride 1x0");
}

int main(int argc, char **argv)
{
    const char *device = check_arguments(argc, argv);
    run = ls_init(NULL, NULL, .device = device);
    CHECK_RUN(integers_meet_numbers_exactly);
    CHECK_RUN(tensors_hold_the_number_given);
    CHECK_RUN(nothing_is_decided);
    CHECK_RUN(half_types_round_once);
    CHECK_RUN(the_last_of_several_stays);
    CHECK_RUN(classes_out_of_range_are_found);
    CHECK_RUN(classes_are_drawn_by_weight);
    CHECK_RUN(drawn_classes_are_not_drawn_again);
    CHECK_RUN(weights_of_any_size_are_drawn_from);
    CHECK_RUN(many_draws_of_many_classes);
    CHECK_RUN(draws_compute_finite_numbers_only);
    CHECK_RUN(weights_that_cannot_be_drawn_from);
    CHECK_RUN(equations_that_do_not_fit);
    CHECK_RUN(arrangements_that_do_not_exist);
    ls_finish(run);
    return check_done();
}
