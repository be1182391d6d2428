/* misuse.c - wrong input gives the documented error, once, with its values; nothing crashes, nothing is lost. */
#include <stdlib.h>

#include "expect.h"
#include "op_cases.h"
#include "tensor/context.h"

static ls_run *run;

#define Z(...) ls_zeros(run, LS_F32, __VA_ARGS__)
#define INDEX(...) ls_zeros(run, LS_I64, __VA_ARGS__)

static void options_out_of_range(void)
{
    ls_tensor *x = Z(2, 4), *image = Z(1, 3, 8, 8), *q = Z(1, 2, 3, 4);
    FAILS(ls_batch_norm(x, .training = true, .epsilon = NAN), LS_ERR_VALUE, "batch_norm: epsilon is nan");
    FAILS(ls_batch_norm(x, .training = true, .epsilon = -1e-5), LS_ERR_VALUE, "epsilon is -1e-05; it must be finite");
    FAILS(ls_batch_norm(x, .training = true, .momentum = 1.5), LS_ERR_VALUE, "momentum 1.5 is not in [0, 1]");
    FAILS(ls_batch_norm(x, .training = true, .momentum = NAN), LS_ERR_VALUE, "momentum nan");
    FAILS(ls_layer_norm(x, NULL, NULL, INFINITY), LS_ERR_VALUE, "layer_norm: epsilon is inf");
    FAILS(ls_add_layer_norm(x, x, NULL, NULL, NAN), LS_ERR_VALUE, "layer_norm: epsilon is nan");
    FAILS(ls_group_norm(x, 2, NULL, NULL, -1), LS_ERR_VALUE, "group_norm: epsilon is -1");
    FAILS(ls_forward(ls_batch_norm_new(run, 4, .momentum = -1), x), LS_ERR_VALUE, "BatchNorm: batch_norm: momentum -1");
    FAILS(ls_attention(q, q, q, .scale = NAN), LS_ERR_VALUE, "attention: scale is nan");
    FAILS(ls_attention(q, q, q, .scale = INFINITY), LS_ERR_VALUE, "attention: scale is inf");
    FAILS(ls_softplus(x, 0), LS_ERR_VALUE, "softplus: beta is 0; it must be finite and above 0");
    FAILS(ls_elu(x, NAN), LS_ERR_VALUE, "elu: alpha is nan");
    FAILS(ls_leaky_relu(x, INFINITY), LS_ERR_VALUE, "leaky_relu: slope is inf");
    FAILS(ls_normalize(image, (double[]){0, 0, 0}, (double[]){1, NAN, 1}), LS_ERR_VALUE, "std nan of channel 1");
    FAILS(ls_normalize(image, (double[]){0, 0, INFINITY}, (double[]){1, 1, 1}), LS_ERR_VALUE, "mean inf");
    FAILS(ls_smooth_l1_loss(x, x, .beta = -1), LS_ERR_VALUE, "smooth_l1_loss: beta is -1");
    FAILS(ls_smooth_l1_loss(x, x, .beta = NAN), LS_ERR_VALUE, "beta is nan");
    FAILS(ls_l1_loss(x, x, LS_REDUCE_MAX), LS_ERR_VALUE, "l1_loss: reduction is 2; it must be LS_REDUCE_MEAN");
    FAILS(ls_mse_loss(x, x, (ls_reduction)7), LS_ERR_VALUE, "mse_loss: reduction is 7; it must be LS_REDUCE_MEAN");
    CHECK(ls_is_valid(ls_attention(q, q, q, .scale = -1)) && ls_is_valid(ls_layer_norm(x, NULL, NULL, 0)));
}

/* What is named and would be ignored. */
static void options_of_others(void)
{
    ls_tensor *x = Z(4, 3), *image = Z(1, 3, 8, 8), *classes = INDEX(4);
    FAILS(ls_cross_entropy(x, classes, .beta = 0.5), LS_ERR_VALUE, "cross_entropy: has no option .beta; leave it out");
    FAILS(ls_cross_entropy(x, classes, .pos_weight = Z(3)), LS_ERR_VALUE, "has no option .pos_weight");
    FAILS(ls_nll_loss(x, classes, .label_smoothing = 0.1), LS_ERR_VALUE, "nll_loss: has no option .label_smoothing");
    FAILS(ls_smooth_l1_loss(x, x, .weight = Z(3)), LS_ERR_VALUE, "smooth_l1_loss: has no option .weight");
    FAILS(ls_bce_with_logits(x, x, .ignore_index = 0), LS_ERR_VALUE, "bce_with_logits: has no option .ignore_index");
    FAILS(ls_conv2d(image, Z(4, 3, 3, 3), NULL, .output_padding = 1), LS_ERR_VALUE, "conv2d: output padding 1");
    FAILS(ls_conv2d_new(run, 3, 4, 3, .output_padding = 1), LS_ERR_VALUE, "Conv2d: .output_padding = 1");
    FAILS(ls_conv2d_new(run, 3, 4, 3, .stride = 0), LS_ERR_VALUE,
          "Conv2d: stride 0x0 and dilation 1x1 must be at least 1");
    FAILS(ls_conv2d_new(run, 3, 4, 3, .padding_hw = {0, -1}), LS_ERR_VALUE,
          "padding 0x-1 and output padding 0 at least 0");
    FAILS(ls_conv2d_new(run, 3, 4, 3, .dilation = -2), LS_ERR_VALUE, "dilation -2x-2");
    FAILS(ls_conv2d_new(run, 3, 4, 3, .groups = -1), LS_ERR_VALUE, "in -1 groups");
    FAILS(ls_conv2d_new(run, -3, 4, 3), LS_ERR_VALUE, "-3 to 4 channels");
    FAILS(ls_conv_transpose2d_new(run, 3, 4, 3, .output_padding = -1), LS_ERR_VALUE, "ConvTranspose2d: stride");
    FAILS(ls_max_pool2d(image, 2, .count_include_pad = false), LS_ERR_VALUE, "max_pool2d: count_include_pad");
    CHECK(ls_is_valid(ls_cross_entropy(x, classes, .beta = 1, .ignore_index = 2)));
}

static void shapes_that_do_not_fit(void)
{
    FAILS(ls_add(Z(2, 3), Z(4, 3)), LS_ERR_SHAPE, "add: [2,3] f32 and [4,3] f32 do not broadcast");
    FAILS(ls_mse_loss(Z(8, 1), Z(8), LS_REDUCE_MEAN), LS_ERR_SHAPE,
          "mse_loss: [8,1] f32 and target [8] f32 must have the same shape; ls_reshape() or ls_squeeze() one of them");
    FAILS(ls_mse_loss(Z(8, 1), INDEX(8), LS_REDUCE_SUM), LS_ERR_SHAPE, "[8,1] f32 and target [8] i64 must have");
    FAILS(ls_l1_loss(Z(8), Z(8, 1), LS_REDUCE_NONE), LS_ERR_SHAPE, "l1_loss: [8] f32 and target [8,1] f32 must have");
    FAILS(ls_smooth_l1_loss(Z(4, 8), Z(8)), LS_ERR_SHAPE, "[4,8] f32 and target [8] f32 must have");
    FAILS(ls_bce_with_logits(Z(8, 1), Z(8)), LS_ERR_SHAPE, "[8,1] f32 and target [8] f32 must have");
    FAILS(ls_bce_with_logits(Z(8, 2), Z(8, 2), .weight = Z(3)), LS_ERR_SHAPE, "weight [3] f32 does not broadcast to");
    FAILS(ls_matmul(Z(64, 191), Z(192, 64)), LS_ERR_SHAPE, "inner sizes 191 and 192 differ");
    FAILS(ls_linear(Z(2, 3), Z(5, 4), NULL, LS_ACT_NONE), LS_ERR_SHAPE, "3 inputs, but the weight has 4");
    FAILS(ls_linear(Z(2, 3), Z(5, 3), Z(4), LS_ACT_NONE), LS_ERR_SHAPE, "bias [4] f32");
    FAILS(ls_conv2d(Z(1, 3, 8, 8), Z(4, 2, 3, 3), NULL), LS_ERR_SHAPE, "channels 3 and 2 differ");
    FAILS(ls_conv2d(Z(1, 3, 2, 2), Z(4, 3, 3, 3), NULL), LS_ERR_SHAPE, "smaller than the window");
    FAILS(ls_conv2d(Z(3, 8, 8), Z(4, 3, 3, 3), NULL), LS_ERR_SHAPE, "four dimensions");
    FAILS(ls_conv2d(Z(1, 3, 8, 8), Z(4, 3, 3, 3), NULL, .stride = -1), LS_ERR_VALUE, "stride -1");
    FAILS(ls_conv2d(Z(1, 3, 8, 8), Z(4, 3, 3, 3), NULL, .padding_hw = {-1, 2}), LS_ERR_VALUE, "padding -1x2");
    FAILS(ls_conv2d(Z(1, 3, 8, 8), Z(4, 3, 3, 3), NULL, .stride = (int64_t)1 << 32), LS_ERR_VALUE,
          "stride 4294967296x");
    FAILS(ls_conv2d(Z(1, 3, 8, 8), Z(4, 3, 3, 3), NULL, .padding = INT64_MAX), LS_ERR_VALUE, "padding 92233");
    FAILS(ls_conv2d(Z(1, 3, 8, 8), Z(4, 3, 3, 3), NULL, .dilation = INT64_MAX), LS_ERR_VALUE, "dilation 92233");
    FAILS(ls_conv2d(Z(1, 3, 8, 8), Z(4, 3, 3, 3), NULL, .dilation = INT32_MAX), LS_ERR_SHAPE,
          "smaller than the window");
    FAILS(ls_conv_transpose2d(Z(1, 3, 8, 8), Z(3, 4, 3, 3), NULL, .stride = (int64_t)1 << 40), LS_ERR_VALUE,
          "stride 10995");
    FAILS(ls_max_pool2d(Z(1, 3, 8, 8), 2, .stride = (int64_t)1 << 32), LS_ERR_VALUE, "stride 4294967296");
    FAILS(ls_max_pool2d(Z(1, 3, 8, 8), 2, .stride = -1), LS_ERR_VALUE, "stride -1");
    FAILS(ls_max_pool2d(Z(1, 3, 8, 8), INT64_MAX, .dilation = 4), LS_ERR_VALUE, "window 92233");
    FAILS(ls_reshape(Z(2, 3), 4, 2), LS_ERR_SHAPE, "cannot become [4,2]");
    FAILS(ls_reshape(Z(2, 3), -1, -1), LS_ERR_SHAPE, "cannot become");
    FAILS(ls_permute(Z(2, 3), 0, 0), LS_ERR_SHAPE, "not a permutation");
    FAILS(ls_expand(Z(2, 3), 4, 3), LS_ERR_SHAPE, "does not expand to [4,3]");
    FAILS(ls_squeeze(Z(2, 3), 0), LS_ERR_SHAPE, "size 1");
    FAILS(ls_slice(Z(2, 3), 5, 0, 1, 1), LS_ERR_SHAPE, "no dimension 5");
    FAILS(ls_slice(Z(2, 3), 0, 0, 1, 0), LS_ERR_VALUE, "step 0");
    FAILS(ls_select(Z(2, 3), 0, 2), LS_ERR_VALUE, "no position 2");
    FAILS(ls_concat(0, Z(2, 3), Z(2, 4)), LS_ERR_SHAPE, "differ outside dimension 0");
    FAILS(ls_sum_dim(Z(2, 3), 2, false), LS_ERR_SHAPE, "[2] is not a set of dimensions");
    FAILS(ls_max(Z(0, 3)), LS_ERR_SHAPE, "no element");
    FAILS(ls_argmax(Z(3, 0)), LS_ERR_SHAPE, "no element");
    FAILS(ls_topk(Z(3), 4, 0, true, NULL), LS_ERR_VALUE, "k is 4");
    FAILS(ls_cross_entropy(Z(4, 3), INDEX(5)), LS_ERR_SHAPE, "do not fit");
    FAILS(ls_attention(Z(1, 2, 3, 4), Z(1, 2, 3, 5), Z(1, 2, 3, 4)), LS_ERR_SHAPE, "do not fit");
    FAILS(ls_self_attention(Z(2, 5, 12), 5), LS_ERR_SHAPE, "[2,5,12] f32 is not [B,S,3*H*D] with 5 heads");
    FAILS(ls_self_attention(Z(2, 5, 12), 2, .lengths = INDEX(3)), LS_ERR_SHAPE,
          "lengths [3] i64 must be i64 or i32 [2]");
    FAILS(ls_self_attention(Z(2, 5, 12), 2, .lengths = Z(2)), LS_ERR_SHAPE, "lengths [2] f32 must be i64 or i32 [2]");
    FAILS(ls_attention(Z(1, 2, 3, 4), Z(1, 2, 5, 4), Z(1, 2, 5, 4), .lengths = INDEX(1)), LS_ERR_SHAPE,
          "as many queries as keys, not 3 and 5");
    FAILS(ls_batch_norm(Z(1, 3), .training = true), LS_ERR_SHAPE, "no variance");
    FAILS(ls_batch_norm(Z(2, 3)), LS_ERR_STATE, "running statistics");
    FAILS(ls_layer_norm(Z(2, 3), Z(4), NULL, 1e-5), LS_ERR_SHAPE, "does not end in");
    FAILS(ls_group_norm(Z(2, 3), 2, NULL, NULL, 1e-5), LS_ERR_SHAPE, "2 groups");
    FAILS(ls_max_pool2d(Z(1, 1, 4, 4), 9), LS_ERR_VALUE, "window 9");
    FAILS(ls_imagenet_normalize(Z(3, 8, 8)), LS_ERR_SHAPE, "[3,8,8] f32 is not [N,C,H,W]");
    FAILS(ls_imagenet_normalize(Z(1, 5, 8, 8)), LS_ERR_SHAPE, "1 to 4 channels");
    FAILS(ls_item(Z(2)), LS_ERR_SHAPE, "2 elements");
    FAILS(ls_assign(Z(2, 3), Z(4)), LS_ERR_SHAPE, "does not fit");
}

static void types_that_do_not_fit(void)
{
    FAILS(ls_cross_entropy(Z(4, 3), Z(4)), LS_ERR_DTYPE, "not i64 or i32");
    FAILS(ls_embedding(Z(4, 3), Z(2)), LS_ERR_DTYPE, "not i64 or i32");
    FAILS(ls_matmul(INDEX(2, 2), INDEX(2, 2)), LS_ERR_DTYPE, "floating");
    FAILS(ls_softmax(INDEX(3), 0), LS_ERR_DTYPE, "floating");
    ls_tensor *q = Z(1, 1, 2, 4);
    FAILS(ls_attention(q, q, q, .mask = INDEX(2, 2)), LS_ERR_DTYPE, "mask [2,2] i64");
    FAILS(ls_set_requires_grad(INDEX(3), true), LS_ERR_DTYPE, "only floating types");
    FAILS(ls_zeros(run, (ls_dtype)77, 2), LS_ERR_DTYPE, "77");
    FAILS(ls_linear(ls_cast(Z(2, 3), LS_BF16), Z(4, 3), NULL, LS_ACT_NONE), LS_ERR_DTYPE, "differ in type");
    FAILS(ls_autocast_begin(run, LS_I64), LS_ERR_DTYPE, "i64");
    ls_autocast_end(run);
    FAILS(ls_uniform_shape(run, LS_I64, 0, 1, LS_SHAPE(2)), LS_ERR_DTYPE, "floating");
}

static void numbers_out_of_range(void)
{
    FAILS(ls_dropout(Z(3), 1.5), LS_ERR_VALUE, "1.5");
    FAILS(ls_bernoulli_shape(run, LS_F32, -1, LS_SHAPE(3)), LS_ERR_VALUE, "-1");
    FAILS(ls_item(ls_sum(ls_embedding(Z(5, 2), ls_full(run, LS_I64, 7, 2)))), LS_ERR_VALUE, "7");
    FAILS(ls_item(ls_sum(ls_take_along_dim(Z(5, 2), 0, ls_full(run, LS_I64, -1, 2, 2)))), LS_ERR_VALUE, "-1");
    FAILS(ls_item(ls_sum(ls_index_select(Z(5, 2), 0, ls_full(run, LS_I64, 5, 2)))), LS_ERR_VALUE, "5");
    FAILS(ls_item(ls_cross_entropy(Z(4, 3), ls_full(run, LS_I64, 3, 4))), LS_ERR_VALUE, "3");
    FAILS(ls_cross_entropy(Z(4, 3), INDEX(4), .label_smoothing = 2), LS_ERR_VALUE, "2");
}

static void sizes_beyond_reason(void)
{
    FAILS(ls_zeros(run, LS_F32, INT64_MAX, INT64_MAX), LS_ERR_SHAPE, "overflows");
    FAILS(ls_zeros(run, LS_F32, -1, 3), LS_ERR_SHAPE, "negative");
    FAILS(ls_zeros(run, LS_F32, 1, 1, 1, 1, 1, 1, 1, 1, 1), LS_ERR_SHAPE, "too many dimensions");
    FAILS(ls_empty(run, LS_F32, (int64_t)1 << 45), LS_ERR_MEMORY, "is out of memory");
    CHECK(ls_numel(ls_zeros(run, LS_F32, 0, 7)) == 0);
}

static void handles_that_are_dead(void)
{
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *lost = ls_set_name(Z(2, 3), "logits"), *kept = ls_keep(Z(4));
    ls_scope_end(run, mark, NULL);
    CHECK(!ls_is_valid(lost) && ls_is_valid(kept));
    CHECK(ls_numel(lost) == 0 && ls_dtype_of(lost) == LS_DTYPE_NONE);
    FAILS(ls_relu(lost), LS_ERR_SCOPE, "\"logits\" of shape [2,3] was released when its scope ended; use ls_keep()");
    FAILS(ls_add(kept, lost), LS_ERR_SCOPE, "logits");
    FAILS(ls_backward(run, lost), LS_ERR_SCOPE, "logits");
    FAILS(ls_relu(NULL), LS_ERR_VALUE, "NULL");
    FAILS(ls_to_device(kept, NULL), LS_ERR_VALUE, "NULL");
    FAILS(ls_scope_end(run, 0, NULL), LS_ERR_STATE, "mark");
    ls_drop(kept);
    FAILS(ls_relu(kept), LS_ERR_SCOPE, "tensor of shape [4] was freed by ls_drop()");
    ls_state *list = ls_state_new(run);
    mark = ls_scope_begin(run);
    ls_tensor *listed = Z(5);
    ls_state_add(list, "five", listed);
    ls_scope_end(run, mark, NULL);
    CHECK(ls_is_valid(listed));
    ls_state_free(list);
    FAILS(ls_relu(listed), LS_ERR_SCOPE, "tensor of shape [5] was released with its owner");
}

/* However many tensors are made, a dead one does not become one of them. */
static void handles_that_have_been_dead_for_long(void)
{
    static const int64_t newer[] = {1, 100, 127, 128, 129, 511, 512, 513, 600, 5000, 100 * 1000, 5 * 1000 * 1000};
    ls_run *other = ls_init(NULL, NULL); /* errors go to the run of the tensor, not to the latest */
    for (size_t k = 0; k < sizeof newer / sizeof *newer; k++) {
        ls_mark mark = ls_scope_begin(run);
        ls_tensor *lost = ls_ones(run, LS_F32, 1), *dropped = ls_ones(run, LS_F32, 1);
        ls_drop(dropped);
        ls_scope_end(run, mark, NULL);
        for (int64_t i = 0; i < newer[k];) { /* a hundred live at a time */
            mark = ls_scope_begin(run);
            for (int n = 0; n < 100 && i < newer[k]; n++, i++) ls_full(run, LS_F32, 7, 1);
            if (i == newer[k]) {
                FAILS(ls_item(lost), LS_ERR_SCOPE, "released");
                FAILS(ls_item(ls_sum(dropped)), LS_ERR_SCOPE, newer[k] < 1000 ? "ls_drop()" : "sum");
                FAILS(ls_add(ls_full(run, LS_F32, 7, 1), lost), LS_ERR_SCOPE, "add");
                FAILS(ls_keep(lost), LS_ERR_SCOPE, "ls_keep");
                FAILS(ls_drop(lost), LS_ERR_SCOPE, "ls_drop");
                FAILS(ls_set_requires_grad(lost, true), LS_ERR_SCOPE, "ls_set_requires_grad");
                FAILS(ls_backward(run, lost), LS_ERR_SCOPE, "ls_backward");
                CHECK(!ls_is_valid(lost) && ls_numel(lost) == 0 && ls_set_name(lost, "it") == lost);
                CHECK(strstr(ls_format(lost, (char[32]){0}, 32), "released"));
                CHECK(ls_scope_end(run, ls_scope_begin(run), lost) == lost && !ls_is_valid(lost));
                ls_prepare(run, lost);
                CHECK(ls_error(run) && strstr(ls_error_message(run), "is a tensor"));
                ls_clear_error(run);
            }
            ls_scope_end(run, mark, NULL);
        }
        CHECK(ls_error(other) == LS_OK);
    }
    ls_finish(other);
}

static void runs_that_meet(void)
{
    ls_run *other = ls_init(NULL, NULL), *third = ls_init(NULL, NULL);
    FAILS(ls_add(Z(2), ls_zeros(other, LS_F32, 2)), LS_ERR_STATE, "different runs");
    ls_finish(other);
    ls_finish(third);
    FAILS(ls_relu(NULL), LS_ERR_VALUE, "NULL"); /* the error of the run that is left */
}

static void walk_again(ls_tensor *leaf, void *loss)
{
    (void)leaf;
    ls_backward(run, loss);
}

static void walks_within_walks(void)
{
    ls_tensor *a = ls_set_requires_grad(Z(3), true), *b = ls_set_requires_grad(Z(3), true);
    ls_register_grad_hook(b, walk_again, ls_sum(ls_exp(a)));
    FAILS(ls_backward(run, ls_sum(ls_mul(ls_exp(a), b))), LS_ERR_STATE, "another backward pass");
    ls_backward(run, ls_sum(ls_exp(a)));
    CHECK(ls_error(run) == LS_OK);
}

static void errors_stick(void)
{
    ls_tensor *good = Z(3), *bad = ls_add(Z(2), Z(3));
    char first[256];
    snprintf(first, sizeof first, "%s", ls_error_message(run));
    ls_tensor *more = ls_relu(ls_matmul(ls_add(good, good), bad));
    CHECK(!ls_is_valid(bad) && !ls_is_valid(more));
    CHECK_TEXT(ls_error_message(run), first);
    CHECK(isnan(ls_item(more)) && !ls_read(good, first, 12));
    ls_clear_error(run);
    CHECK(ls_item(ls_sum(good)) == 0);
    ls_add(good, bad); /* poison is a consequence: no new error, still poison */
    CHECK(!ls_is_valid(ls_add(good, bad)) && ls_error(run) == LS_OK);
}

static void backward_that_cannot_be(void)
{
    ls_tensor *w = ls_set_requires_grad(ls_ones(run, LS_F32, 3), true);
    FAILS(ls_backward(run, ls_mul(w, w)), LS_ERR_SHAPE, "not a single number");
    FAILS(ls_backward(run, ls_sum(Z(3))), LS_ERR_STATE, "does not depend");
    ls_tensor *loss = ls_sum(ls_mul(w, w));
    ls_backward(run, loss);
    FAILS(ls_backward(run, loss), LS_ERR_STATE, "this graph was used before");
    ls_tensor *y = ls_exp(ls_detach(w)), *x = ls_set_requires_grad(ls_clone(ls_detach(w)), true);
    loss = ls_sum(ls_mul(x, y));
    ls_assign(y, w);
    FAILS(ls_backward(run, loss), LS_ERR_STATE,
          "backward of mul: tensor [3] f32, which it needs, was modified in place");
    ls_tensor *named = ls_set_name(ls_clone(y), "gate");
    loss = ls_sum(ls_mul(x, named));
    ls_assign(named, w);
    FAILS(ls_backward(run, loss), LS_ERR_STATE, "tensor \"gate\" [3] f32, which it needs, was modified in place");
    FAILS(ls_set_requires_grad(ls_mul(w, w), true), LS_ERR_STATE, "ls_detach()");
    FAILS(ls_register_grad_hook(Z(2), NULL, NULL), LS_ERR_STATE, "not a leaf");
    FAILS(ls_set_grad_memory(w, Z(4)), LS_ERR_SHAPE, "cannot hold");
    FAILS(ls_no_grad_end(run), LS_ERR_STATE, "without");
    FAILS(ls_autocast_end(run), LS_ERR_STATE, "without");
}

static void nan_is_not_an_error(void)
{
    ls_tensor *x = ls_log(ls_full(run, LS_F32, -1, 3));
    CHECK(isnan(ls_item(ls_sum(x))) && ls_error(run) == LS_OK);
    CHECK(ls_item(ls_sum(ls_isfinite(x))) == 0);
    CHECK(isinf(ls_item(ls_sum(ls_div(ls_ones(run, LS_F32, 1), Z(1))))));
}

static void devices_that_do_not_fit(void)
{
    FAILS(ls_to_device(Z(2), "no-such-device"), LS_ERR_DEVICE, "no-such-device");
    ls_run *other = ls_init(NULL, NULL, .device = "./no/such/plugin.so");
    CHECK(ls_error(other) == LS_ERR_DEVICE && !ls_is_valid(ls_zeros(other, LS_F32, 2)));
    ls_clear_error(other); /* a run without a device stays failed */
    CHECK(ls_error(other) == LS_ERR_DEVICE);
    CHECK(ls_finish(other) == 1);
}

/* No run is left on this thread. */
static void threads_without_a_run(void)
{
    ls_tensor *poison = ls_relu(NULL);
    CHECK(poison && !ls_is_valid(poison) && !ls_is_valid(ls_add(NULL, NULL)) && !ls_is_valid(ls_sum(poison)));
    CHECK(!ls_is_valid(ls_concat_n(0, NULL, 0)) && !ls_is_valid(ls_keep(NULL)) && !ls_is_valid(ls_detach(NULL)));
    CHECK(!ls_is_valid(ls_forward(NULL, NULL)) && !ls_is_valid(ls_clip_grad_norm(NULL, 1)));
    CHECK(isnan(ls_item(NULL)) && !ls_write(NULL, "", 0) && !ls_grad(NULL));
    ls_drop(NULL);
    ls_init_normal(NULL, 0, 1);

    run = ls_init(NULL, NULL);
    FAILS(ls_add(Z(2), poison), LS_ERR_STATE, "another run");
    FAILS(ls_add(NULL, Z(2)), LS_ERR_VALUE, "NULL");
    ls_finish(run);
}

/* ---- out of memory, everywhere ---- */

/* A short training that enters most of the library; the number of system requests it makes. */
static uint64_t train_a_little(void)
{
    uint64_t before = ls_sys_calls();
    ls_run *r = ls_init(NULL, NULL, .seed = 3);
    ls_module *net = ls_sequential_new(r, ls_conv2d_new(r, 3, 8, 3, .padding = 1), ls_batch_norm_new(r, 8),
                                       ls_relu_new(r), ls_flatten_new(r), ls_linear_new(r, 8 * 36, 5));
    ls_optim *adam = ls_adamw_new(r, net, .lr = 1e-2);
    for (int step = 0; step < 2 && !ls_error(r); step++) {
        ls_mark mark = ls_scope_begin(r);
        ls_tensor *x = ls_randn(r, LS_F32, 4, 3, 6, 6), *target = ls_zeros(r, LS_I64, 4);
        ls_backward(r, ls_cross_entropy(ls_forward(net, x), target));
        ls_step(adam);
        ls_zero_grad(adam);
        ls_scope_end(r, mark, NULL);
    }
    ls_status status = ls_error(r);
    ls_clear_error(r);
    ls_finish(r);
    CHECK_MSG(status == LS_OK || status == LS_ERR_MEMORY, "out of memory gave %s", ls_status_name(status));
    return ls_sys_calls() - before;
}

static void every_allocation_may_fail(void)
{
    train_a_little(); /* what the process keeps (threads, scratch) is there from now on */
    uint64_t requests = train_a_little();
    CHECK(requests > 20);
    for (uint64_t n = 1; n <= requests; n++) {
        ls_sys_fail_at(n);
        train_a_little();
    }
    ls_sys_fail_at(0);
    train_a_little();
}

static void a_steady_step_allocates_nothing(void)
{
    ls_run *r = ls_init(NULL, NULL, .seed = 3, .mixed_precision = LS_BF16);
    ls_module *net =
        ls_sequential_new(r, ls_conv2d_new(r, 3, 8, 3, .padding = 1), ls_batch_norm_new(r, 8), ls_relu_new(r),
                          ls_max_pool2d_new(r, 2), ls_flatten_new(r), ls_linear_new(r, 8 * 9, 16),
                          ls_layer_norm_new(r, 16), ls_dropout_new(r, 0.1), ls_linear_new(r, 16, 5));
    ls_optim *adam = ls_adamw_new(r, net, .lr = 1e-2);
    ls_prepare(r, net, adam);
    uint64_t steady = 0;
    for (int step = 0; step < 12; step++) {
        if (step == 8) steady = ls_memory(r).system_requests;
        ls_mark mark = ls_scope_begin(r);
        ls_tensor *x = ls_randn(r, LS_F32, 4, 3, 6, 6), *target = ls_zeros(r, LS_I64, 4);
        ls_backward(r, ls_cross_entropy(ls_forward(net, x), target));
        ls_clip_grad_norm(adam, 1);
        ls_step(adam);
        ls_zero_grad(adam);
        ls_scope_end(r, mark, NULL);
    }
    CHECK_MSG(ls_memory(r).system_requests == steady, "%llu requests in four steady steps",
              (unsigned long long)(ls_memory(r).system_requests - steady));
    CHECK_MSG(ls_error(r) == LS_OK, "%s", ls_error_message(r));
    ls_clear_error(r);
    ls_finish(r);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    run = ls_init(NULL, NULL, .seed = 1);
    CHECK_RUN(shapes_that_do_not_fit);
    CHECK_RUN(options_out_of_range);
    CHECK_RUN(options_of_others);
    CHECK_RUN(types_that_do_not_fit);
    CHECK_RUN(numbers_out_of_range);
    CHECK_RUN(sizes_beyond_reason);
    CHECK_RUN(handles_that_are_dead);
    CHECK_RUN(handles_that_have_been_dead_for_long);
    CHECK_RUN(runs_that_meet);
    CHECK_RUN(walks_within_walks);
    CHECK_RUN(errors_stick);
    CHECK_RUN(backward_that_cannot_be);
    CHECK_RUN(nan_is_not_an_error);
    CHECK_RUN(devices_that_do_not_fit);
    ls_finish(run);
    CHECK_RUN(threads_without_a_run);
    CHECK_RUN(a_steady_step_allocates_nothing);
    CHECK_RUN(every_allocation_may_fail);
    return check_done();
}
