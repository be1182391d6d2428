/* corners.c - unusual types and numbers that operators accept: the answers are PyTorch's. */
#include <lockstep.h>

#include "arguments.h"

static ls_run *run;

static void targets_of_both_integer_types(void)
{
    ls_tensor *x = ls_set_requires_grad(ls_randn(run, LS_F32, 3, 4), true);
    ls_tensor *wide = ls_from(run, LS_I64, LS_SHAPE(3), (int64_t[]){3, -100, 1}), *narrow = ls_cast(wide, LS_I32);
    CHECK(ls_item(ls_cross_entropy(x, narrow)) == ls_item(ls_cross_entropy(x, wide)));
    CHECK(ls_item(ls_nll_loss(x, narrow)) == ls_item(ls_nll_loss(x, wide)));
    ls_backward(run, ls_cross_entropy(x, narrow));
    ls_tensor *grad = ls_grad(x);
    CHECK(ls_item(ls_norm(ls_select(grad, 0, 1))) == 0 && ls_item(ls_norm(grad)) > 0);
    CHECK_TEXT(ls_error_message(run), "");
}

/* Numbers that are not whole, or no i64, make integers floating. */
static void integers_with_numbers_that_do_not_fit(void)
{
    ls_tensor *x = ls_full(run, LS_I32, 3, 2);
    CHECK(ls_dtype_of(ls_mul_scalar(x, -7)) == LS_I32);
    CHECK(ls_dtype_of(ls_mul_scalar(x, 0.5)) == LS_F32);
    CHECK_NEAR(ls_item(ls_max(ls_mul_scalar(x, 1e30))) / 3e30, 1, 1e-6);
    CHECK(isinf(ls_item(ls_max(ls_add_scalar(x, INFINITY)))));
    CHECK(isnan(ls_item(ls_max(ls_mul_scalar(x, NAN)))));
}

/* Sums from here to the end, rounded once: not the difference of two large sums. */
static void gradients_of_running_sums_keep_their_digits(void)
{
    ls_tensor *x = ls_set_requires_grad(ls_ones(run, LS_BF16, 1000), true);
    ls_backward(run, ls_sum(ls_cumsum(x, 0)));
    ls_tensor *grad = ls_grad(x);
    for (int i = 1; i < 20; i++) CHECK_NEAR(ls_item(ls_select(grad, 0, -i)), i, 0);
    CHECK_NEAR(ls_item(ls_select(grad, 0, 0)), 1000, 0);
}

/* With --device tensors on the CPU are not on the run's device: gradients must not make something there. */
static void gradients_stay_on_their_device(void)
{
    ls_tensor *x = ls_set_requires_grad(ls_to_device(ls_randn(run, LS_F32, 4, 3), "cpu"), true);
    ls_tensor *index = ls_to_device(ls_zeros(run, LS_I64, 2, 3), "cpu"), *high = ls_gt(x, ls_neg(x));
    ls_tensor *parts[] = {ls_norm(x),
                          ls_sum(ls_where(high, x, ls_neg(x))),
                          ls_sum(ls_take_along_dim(x, 0, index)),
                          ls_sum(ls_topk(x, 2, 0, true, NULL)),
                          ls_sum(ls_embedding(x, index)),
                          ls_max(x)};
    ls_tensor *loss = parts[0];
    for (int i = 1; i < 6; i++) loss = ls_add(loss, parts[i]);
    ls_backward(run, loss);
    CHECK_TEXT(ls_error_message(run), "");
    CHECK_TEXT(ls_device_of(ls_grad(x)), "cpu");
}

static void a_tensor_like_another_is_on_its_device(void)
{
    ls_tensor *x = ls_to_device(ls_randn(run, LS_F32, 2, 50), "cpu");
    ls_tensor *like[] = {ls_empty_like(x), ls_ones_like(x), ls_rand_like(x), ls_randn_like(x)};
    for (int i = 0; i < 4; i++) CHECK_TEXT(ls_device_of(like[i]), "cpu");
    CHECK(ls_item(ls_sum(like[1])) == 100);
    CHECK(ls_item(ls_min(like[2])) >= 0 && ls_item(ls_max(like[2])) < 1 && ls_item(ls_max(like[2])) > 0);
    CHECK(ls_item(ls_min(like[3])) < 0 && ls_item(ls_max(like[3])) > 1);
    CHECK_TEXT(ls_error_message(run), "");
}

/* Element by element what PyTorch computes: bytes divided by 255 in f32, then the difference, then the quotient;
 * rounded to the autocast type as the convolution behind it would. */
static void pictures_are_normalised_as_by_single_operators(void)
{
    enum { COUNT = 2 * 3 * 5 * 300 };
    static uint8_t bytes[COUNT];
    for (int i = 0; i < COUNT; i++) bytes[i] = (uint8_t)(i * 37 + i / 256);
    float mean[3] = {0.485f, 0.456f, 0.406f}, deviation[3] = {0.229f, 0.224f, 0.225f};
    ls_tensor *x = ls_from(run, LS_U8, LS_SHAPE(2, 3, 5, 300), bytes);
    ls_tensor *level = ls_div(ls_cast(x, LS_F32), ls_full(run, LS_F32, 255, 1));
    ls_tensor *want = ls_div(ls_sub(level, ls_from(run, LS_F32, LS_SHAPE(3, 1, 1), mean)),
                             ls_from(run, LS_F32, LS_SHAPE(3, 1, 1), deviation));
    ls_tensor *in[] = {x, level, ls_channels_last(x), ls_channels_last(level)};
    for (int i = 0; i < 4; i++) {
        ls_tensor *y = ls_imagenet_normalize(in[i]);
        CHECK(ls_dtype_of(y) == LS_F32 && ls_channels_last(y) == y);
        CHECK(ls_item(ls_max(ls_abs(ls_sub(y, want)))) == 0);
        ls_autocast_begin(run, LS_BF16);
        y = ls_imagenet_normalize(in[i]);
        ls_autocast_end(run);
        CHECK(ls_dtype_of(y) == LS_BF16 && ls_channels_last(y) == y);
        CHECK(ls_item(ls_max(ls_abs(ls_sub(y, ls_cast(want, LS_BF16))))) == 0);
    }
    CHECK_TEXT(ls_error_message(run), "");
}

/* One window fits, wherever the next would begin; a window of one pixel has nothing to dilate. */
static void strides_past_the_image_are_one_window(void)
{
    ls_tensor *x = ls_set_requires_grad(ls_randn(run, LS_F32, 2, 3, 8, 8), true),
              *weight = ls_randn(run, LS_F32, 4, 3, 3, 3);
    ls_tensor *small = ls_conv2d(x, weight, NULL, .stride = 8);
    for (int64_t stride = 100; stride <= INT32_MAX; stride = stride * 1000 + 83647) {
        ls_tensor *y = ls_conv2d(x, weight, NULL, .stride = stride);
        CHECK(ls_dim(y, 2) == 1 && ls_dim(y, 3) == 1);
        CHECK_NEAR(ls_item(ls_max(ls_abs(ls_sub(y, small)))), 0, 1e-5);
        ls_backward(run, ls_sum(y));
        CHECK_NEAR(ls_item(ls_sum(ls_grad(x))), 2 * ls_item(ls_sum(weight)), 1e-3);
        x = ls_set_requires_grad(ls_detach(x), true);
    }
    ls_tensor *point = ls_randn(run, LS_F32, 4, 3, 1, 1);
    ls_tensor *dilated = ls_conv2d(x, point, NULL, .dilation = INT32_MAX), *plain = ls_conv2d(x, point, NULL);
    CHECK_NEAR(ls_item(ls_max(ls_abs(ls_sub(dilated, plain)))), 0, 1e-5);
    ls_tensor *pixel = ls_randn(run, LS_F32, 2, 4, 1, 1);
    ls_tensor *apart = ls_conv_transpose2d(pixel, weight, NULL, .stride = INT32_MAX);
    CHECK_NEAR(ls_item(ls_max(ls_abs(ls_sub(apart, ls_conv_transpose2d(pixel, weight, NULL))))), 0, 1e-5);
    ls_tensor *pooled = ls_max_pool2d(x, 2, .stride = INT32_MAX, .ceil_mode = true);
    CHECK(ls_dim(pooled, 2) == 1);
    CHECK_TEXT(ls_error_message(run), "");
}

/* Sums of nothing are 0; the bias is still added. */
static void convolutions_without_channels(void)
{
    for (int size = 1; size <= 3; size += 2) {
        ls_tensor *x = ls_set_requires_grad(ls_zeros(run, LS_F32, 2, 0, 8, 8), true);
        ls_tensor *weight = ls_set_requires_grad(ls_zeros(run, LS_F32, 64, 0, size, size), true);
        ls_tensor *y = ls_conv2d(x, weight, ls_full(run, LS_F32, 3, 64));
        CHECK_NEAR(ls_item(ls_min(y)), 3, 0);
        ls_backward(run, ls_sum(y));
        x = ls_set_requires_grad(ls_randn(run, LS_F32, 2, 64, 8, 8), true);
        y = ls_conv2d(x, ls_set_requires_grad(ls_zeros(run, LS_F32, 0, 64, size, size), true), NULL);
        CHECK(ls_numel(y) == 0);
        ls_backward(run, ls_sum(y));
        CHECK_NEAR(ls_item(ls_norm(ls_grad(x))), 0, 0);
    }
    CHECK_TEXT(ls_error_message(run), "");
}

/* A number that is no number stays where a window sees it. */
static void pixels_that_no_window_sees_do_not_matter(void)
{
    ls_autocast(run, LS_BF16)
    {
        for (int64_t size = 10; size <= 12; size += 2) {
            ls_tensor *seen = ls_randn(run, LS_F32, 4, 64, size - 1, size - 1);
            ls_tensor *x = ls_pad(seen, LS_SHAPE(0, 0, 0, 0), LS_SHAPE(0, 0, 1, 1), NAN);
            ls_tensor *weight = ls_set_requires_grad(ls_randn(run, LS_F32, 64, 64, 3, 3), true);
            ls_backward(run, ls_sum(ls_conv2d(ls_channels_last(x), weight, NULL, .stride = 2)));
            CHECK(isfinite(ls_item(ls_norm(ls_grad(weight)))));
        }
    }
    CHECK_TEXT(ls_error_message(run), "");
}

/* What attention with a mask makes of queries that it hides everything from, and the gradients for all of q. */
static ls_tensor *attention_grad(ls_tensor *q, ls_tensor *k, ls_tensor *v, ls_tensor *mask)
{
    q = ls_set_requires_grad(ls_detach(q), true);
    ls_tensor *out = mask ? ls_attention(q, k, v, .mask = mask) : ls_attention(q, k, v);
    ls_backward(run, ls_sum(ls_mul(out, out)));
    return ls_concat(0, ls_detach(out), ls_grad(q));
}

/* Masks hide keys by large numbers, too. A query that has only such keys sees them all, as without a mask. */
static void masks_of_large_numbers_are_no_trap(void)
{
    static const double hidden[] = {-1e9, -1e30, -3.4028234e38};
    ls_tensor *q = ls_randn(run, LS_F32, 2, 3, 5, 16), *k = ls_randn(run, LS_F32, 2, 3, 40, 16),
              *v = ls_randn(run, LS_F32, 2, 3, 40, 16), *plain = attention_grad(q, k, v, NULL);
    for (int i = 0; i < 3; i++) {
        ls_tensor *masked = attention_grad(q, k, v, ls_full(run, LS_F32, hidden[i], 5, 40));
        CHECK_NEAR(ls_item(ls_max(ls_abs(ls_sub(masked, plain)))), 0, 5e-3);
    }
    CHECK_TEXT(ls_error_message(run), "");
}

/* Alone, and in one step with the convolution before it. */
static void a_batch_without_samples_leaves_running_statistics(void)
{
    ls_module *norm = ls_batch_norm_new(run, 3);
    ls_module *both = ls_sequential_new(run, ls_conv2d_new(run, 3, 3, 1, .bias = false), norm);
    ls_tensor *nothing = ls_zeros(run, LS_F32, 0, 3, 4, 4);
    for (int i = 0; i < 2; i++) {
        CHECK(ls_numel(ls_forward(i ? both : norm, nothing)) == 0);
        CHECK(ls_item(ls_sum(ls_state_find(ls_state_dict(norm), "running_mean"))) == 0);
        CHECK(ls_item(ls_sum(ls_state_find(ls_state_dict(norm), "running_var"))) == 3);
    }
    CHECK_TEXT(ls_error_message(run), "");
}

static bool has_channels_last(ls_tensor *x)
{
    return ls_channels_last(x) == x; /* else it is a copy */
}

static void results_keep_the_order_of_the_input_that_has_one(void)
{
    ls_tensor *x = ls_channels_last(ls_randn(run, LS_F32, 2, 8, 5, 3)), *one = ls_ones(run, LS_F32, 1, 8, 1, 1);
    ls_tensor *wide = ls_expand(one, 2, 8, 5, 3), *high = ls_gt(wide, x);
    CHECK(has_channels_last(ls_mul(wide, x)) && has_channels_last(ls_sub(x, wide)) && has_channels_last(high));
    CHECK(has_channels_last(ls_add(one, x)) && has_channels_last(ls_where(high, wide, x)));
    CHECK_NEAR(ls_item(ls_max(ls_abs(ls_sub(ls_mul(wide, x), x)))), 0, 0);
    CHECK_TEXT(ls_error_message(run), "");
}

int main(int argc, char **argv)
{
    const char *device = check_arguments(argc, argv);
    run = ls_init(NULL, NULL, .device = device);
    CHECK_RUN(targets_of_both_integer_types);
    CHECK_RUN(integers_with_numbers_that_do_not_fit);
    CHECK_RUN(gradients_of_running_sums_keep_their_digits);
    CHECK_RUN(gradients_stay_on_their_device);
    CHECK_RUN(a_tensor_like_another_is_on_its_device);
    CHECK_RUN(pictures_are_normalised_as_by_single_operators);
    CHECK_RUN(strides_past_the_image_are_one_window);
    CHECK_RUN(convolutions_without_channels);
    CHECK_RUN(pixels_that_no_window_sees_do_not_matter);
    CHECK_RUN(masks_of_large_numbers_are_no_trap);
    CHECK_RUN(a_batch_without_samples_leaves_running_statistics);
    CHECK_RUN(results_keep_the_order_of_the_input_that_has_one);
    ls_finish(run);
    return check_done();
}
