/* attention.c - self attention of what one projection wrote, and sequences that end early. */
#include <lockstep.h>

#include "check.h"
#include "ops/op.h"

#include <float.h>
#include <math.h>

static ls_run *run;

enum { BATCH = 3, LENGTH = 21, HEADS = 2, WIDTH = 8, FEATURES = HEADS * WIDTH };
static const int64_t ends[BATCH] = {21, 0, 13};

/* ---- calls that reach the device ---- */

static int calls[LS_OP_COUNT];

static ls_status counting_run(void *device, ls_stream *stream, const ls_call *call, ls_message *why)
{
    calls[call->op]++;
    return ls_cpu_device.run(device, stream, call, why);
}

/* Backward of y with weights that differ from element to element, counted. */
static void walk_back(ls_tensor *y, ls_tensor *weights)
{
    ls_tensor *loss = ls_sum(ls_mul(y, weights));
    memset(calls, 0, sizeof calls);
    run->device->table.run = counting_run;
    ls_backward(run, loss);
    run->device->table.run = ls_cpu_device.run;
}

/* ---- what is compared ---- */

/* The same by hand: parts, heads, attention of three tensors, heads side by side again. */
static ls_tensor *by_parts(ls_tensor *qkv, ls_tensor *mask, double dropout)
{
    ls_tensor *part[3];
    ls_chunk(qkv, 2, part, 3);
    for (int i = 0; i < 3; i++) part[i] = ls_permute(ls_reshape(part[i], BATCH, LENGTH, HEADS, WIDTH), 0, 2, 1, 3);
    ls_tensor *o = ls_attention(part[0], part[1], part[2], .mask = mask, .dropout = dropout);
    return ls_reshape(ls_permute(o, 0, 2, 1, 3), BATCH, LENGTH, FEATURES);
}

static double difference(ls_tensor *a, ls_tensor *b)
{
    return ls_item(ls_max(ls_abs(ls_sub(ls_cast(a, LS_F64), ls_cast(b, LS_F64)))));
}

/* 1 where a position is within its sequence, [B,S]. */
static ls_tensor *positions_within(ls_dtype dtype)
{
    float within[BATCH][LENGTH];
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < LENGTH; i++) within[b][i] = i < ends[b];
    return ls_cast(ls_from(run, LS_F32, LS_SHAPE(BATCH, LENGTH), within), dtype);
}

static ls_tensor *leaf_of(ls_tensor *x)
{
    return ls_set_requires_grad(ls_clone(x), true);
}

/* ---- tests ---- */

/* To the last bit, also in what dropout drops. */
static void one_projection_gives_what_three_parts_give(void)
{
    static const ls_dtype dtypes[] = {LS_F32, LS_BF16, LS_F64};
    for (int d = 0; d < 3; d++) {
        ls_tensor *qkv = ls_randn(run, dtypes[d], BATCH, LENGTH, 3 * FEATURES), *one = leaf_of(qkv),
                  *three = leaf_of(qkv);
        ls_tensor *weights = ls_randn(run, dtypes[d], BATCH, LENGTH, FEATURES);
        ls_set_seed(run, 5);
        ls_tensor *got = ls_self_attention(one, HEADS, .dropout = 0.3);
        ls_set_seed(run, 5);
        ls_tensor *want = by_parts(three, NULL, 0.3);
        CHECK(difference(got, want) == 0);
        walk_back(got, weights);
        walk_back(want, weights);
        CHECK(difference(ls_grad(one), ls_grad(three)) == 0);
        CHECK_TEXT(ls_error_message(run), "");
    }
}

static void its_gradient_is_written_in_place(void)
{
    ls_tensor *x = leaf_of(ls_randn(run, LS_F32, BATCH, LENGTH, 3 * FEATURES));
    ls_tensor *weights = ls_randn(run, LS_F32, BATCH, LENGTH, FEATURES);
    walk_back(ls_self_attention(x, HEADS), weights);
    CHECK_MSG(calls[LS_OP_attention_grad] == 1, "%d calls", calls[LS_OP_attention_grad]);
    CHECK_MSG(calls[LS_OP_copy] <= 1, "%d copies", calls[LS_OP_copy]); /* home, to the leaf */
}

/* Positions within their sequence get what a mask of the keys gives them; the others are 0, and so are their gradients,
 * whatever the padding holds. */
static void lengths_are_a_mask_without_work(void)
{
    ls_tensor *within = positions_within(LS_F32), *column = ls_reshape(within, BATCH, LENGTH, 1);
    ls_tensor *clean = ls_mul(ls_randn(run, LS_F32, BATCH, LENGTH, 3 * FEATURES), column);
    ls_tensor *padding = ls_full(run, LS_F32, NAN, BATCH, LENGTH, 3 * FEATURES);
    ls_tensor *padded = ls_where(ls_expand(ls_cast(column, LS_BOOL), BATCH, LENGTH, 3 * FEATURES), clean, padding);
    ls_tensor *one = leaf_of(padded), *masked = leaf_of(clean);
    ls_tensor *weights = ls_mul(ls_randn(run, LS_F32, BATCH, LENGTH, FEATURES), column);
    ls_tensor *mask = ls_reshape(ls_cast(within, LS_BOOL), BATCH, 1, 1, LENGTH);
    for (int wide = 0; wide < 2; wide++) {
        ls_tensor *lengths = ls_cast(ls_from(run, LS_I64, LS_SHAPE(BATCH), ends), wide ? LS_I64 : LS_I32);
        ls_set_seed(run, 5);
        ls_tensor *got = ls_self_attention(one, HEADS, .lengths = lengths, .dropout = 0.2);
        ls_set_seed(run, 5);
        ls_tensor *want = by_parts(masked, mask, 0.2);
        CHECK(difference(got, ls_mul(want, column)) < 1e-6);
        walk_back(got, weights);
        walk_back(want, weights);
        CHECK(difference(ls_grad(one), ls_mul(ls_grad(masked), column)) < 1e-5);
        ls_clear_grad(one);
        ls_clear_grad(masked);
    }
    CHECK_TEXT(ls_error_message(run), "");
}

/* Where a mask of the keys ends in padding, every position gets what it gets of any mask, and the padding is not read:
 * neither its keys nor its values. */
static void keys_behind_a_mask_are_not_read(void)
{
    static const ls_dtype dtypes[] = {LS_F32, LS_BF16, LS_F64};
    static const int64_t last[BATCH] = {LENGTH, 1, 13};
    ls_tensor *lengths = ls_from(run, LS_I64, LS_SHAPE(BATCH, 1), last);
    ls_tensor *within = ls_lt(ls_arange(run, LS_I64, LENGTH, 0, 1), lengths);
    ls_tensor *mask = ls_reshape(within, BATCH, 1, 1, LENGTH), *column = ls_reshape(within, BATCH, LENGTH, 1);
    ls_tensor *rows = ls_expand(mask, BATCH, HEADS, LENGTH, LENGTH);
    for (int d = 0; d < 3; d++) {
        ls_tensor *clean = ls_randn(run, dtypes[d], BATCH, LENGTH, 3 * FEATURES);
        ls_tensor *queries = ls_slice(clean, 2, 0, FEATURES, 1),
                  *others = ls_slice(clean, 2, FEATURES, 3 * FEATURES, 1);
        ls_tensor *nan = ls_full(run, dtypes[d], NAN, BATCH, LENGTH, 2 * FEATURES);
        others = ls_where(ls_expand(column, BATCH, LENGTH, 2 * FEATURES), others, nan);
        ls_tensor *x = leaf_of(ls_concat(2, queries, others)), *y = leaf_of(clean);
        ls_tensor *weights = ls_randn(run, dtypes[d], BATCH, LENGTH, FEATURES);
        ls_set_seed(run, 5);
        ls_tensor *got = ls_self_attention(x, HEADS, .mask = mask, .dropout = 0.2);
        ls_set_seed(run, 5);
        ls_tensor *want = ls_self_attention(y, HEADS, .mask = ls_clone(rows), .dropout = 0.2);
        double rounding = dtypes[d] == LS_BF16 ? 1e-2 : 1e-6;
        CHECK(difference(got, want) < rounding);
        walk_back(got, weights);
        walk_back(want, weights);
        CHECK(difference(ls_grad(x), ls_grad(y)) < 4 * rounding);
        CHECK_TEXT(ls_error_message(run), "");
    }
}

/* A mask of f64 hides what the same mask of f32 hides, though its large numbers are beyond f32. */
static void masks_may_be_wider(void)
{
    double wide[LENGTH][LENGTH] = {{0}};
    float narrow[LENGTH][LENGTH] = {{0}};
    for (int j = 0; j < LENGTH; j++) {
        wide[0][j] = -DBL_MAX, narrow[0][j] = -FLT_MAX;
        wide[1][j] = j % 2 ? -INFINITY : 1e300, narrow[1][j] = j % 2 ? -INFINITY : FLT_MAX;
        wide[2][j] = -INFINITY, narrow[2][j] = -INFINITY;
        wide[3][j] = 0.125 * j, narrow[3][j] = 0.125F * (float)j;
    }
    ls_tensor *qkv = ls_randn(run, LS_F32, BATCH, LENGTH, 3 * FEATURES), *o[2];
    o[0] = ls_self_attention(qkv, HEADS, .mask = ls_from(run, LS_F64, LS_SHAPE(LENGTH, LENGTH), wide));
    o[1] = ls_self_attention(qkv, HEADS, .mask = ls_from(run, LS_F32, LS_SHAPE(LENGTH, LENGTH), narrow));
    CHECK(difference(o[0], o[1]) == 0);
    CHECK_TEXT(ls_error_message(run), "");
}

/* A layer takes lengths where it takes a mask, and tells them by their type. */
static void layers_take_lengths(void)
{
    ls_module *layer = ls_transformer_layer_new(run, FEATURES, HEADS, .feedforward = 32, .dropout = 0);
    ls_tensor *x = ls_randn(run, LS_F32, BATCH, LENGTH, FEATURES), *within = positions_within(LS_F32);
    ls_tensor *lengths = ls_from(run, LS_I64, LS_SHAPE(BATCH), ends);
    ls_tensor *mask = ls_reshape(ls_cast(within, LS_BOOL), BATCH, 1, 1, LENGTH);
    ls_tensor *got = ls_forward(layer, x, lengths), *want = ls_forward(layer, x, mask);
    ls_tensor *column = ls_reshape(within, BATCH, LENGTH, 1);
    CHECK(difference(ls_mul(got, column), ls_mul(want, column)) < 1e-5);
    CHECK(difference(got, want) > 1e-3); /* padding sees nothing, not even what the others see */
    CHECK_TEXT(ls_error_message(run), "");
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    run = ls_init(NULL, NULL, .seed = 3);
    CHECK_RUN(one_projection_gives_what_three_parts_give);
    CHECK_RUN(its_gradient_is_written_in_place);
    CHECK_RUN(lengths_are_a_mask_without_work);
    CHECK_RUN(keys_behind_a_mask_are_not_read);
    CHECK_RUN(masks_may_be_wider);
    CHECK_RUN(layers_take_lengths);
    CHECK(ls_finish(run) == 0);
    return check_done();
}
