/* op_cases.c - the table of operator calls. A row of ops.def that no case enters fails the tests. */
#include "op_cases.h"

#include <math.h>

#include "ops/op.h"

/* clang-format off */

/* Sizes are odd on purpose, and large enough to leave a rest after every vector width. */
#define N(...) {INPUT_NORMAL, LS_DIMS_INIT(__VA_ARGS__), 0, false}
#define P(...) {INPUT_POSITIVE, LS_DIMS_INIT(__VA_ARGS__), 0, false}
#define D(...) {INPUT_DISTINCT, LS_DIMS_INIT(__VA_ARGS__), 0, false}
#define B(...) {INPUT_BOOL, LS_DIMS_INIT(__VA_ARGS__), 0, false}
#define I(limit, ...) {INPUT_INDEX, LS_DIMS_INIT(__VA_ARGS__), limit, false}
#define CONSTANT_N(...) {INPUT_NORMAL, LS_DIMS_INIT(__VA_ARGS__), 0, true}
#define CONSTANT_P(...) {INPUT_POSITIVE, LS_DIMS_INIT(__VA_ARGS__), 0, true}
#define LS_DIMS_INIT(...) {.ndim = (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .dim = {__VA_ARGS__}}
#define SCALAR_N {INPUT_NORMAL, {.ndim = 0}, 0, false}

/* CALL(name, expression of run and in): a function that makes the call. */
#define CALL(name, expression)                                                                                         \
    static ls_tensor *call_##name(ls_run *run, ls_tensor **in)                                                         \
    {                                                                                                                  \
        (void)run, (void)in;                                                                                           \
        return expression;                                                                                             \
    }
#define CALL1(name) CALL(name, ls_##name(in[0]))
#define CALL2(name) CALL(name, ls_##name(in[0], in[1]))

/* Its rows before `a`, up to `b`, and from there on: three tensors one behind the other. */
#define ROWS_OF(x, a, b)                                                                                               \
    ((ls_tensor *[]){ls_slice(x, 0, 0, a, 1), ls_slice(x, 0, a, b, 1), ls_slice(x, 0, b, ls_dim(x, 0), 1)})

CALL(cast_f32, ls_cast(in[0], LS_F32))
CALL(clone, ls_clone(in[0]))
CALL(contiguous, ls_contiguous(in[0]))
CALL(channels_last, ls_channels_last(in[0]))
CALL(full, ls_full(run, LS_F32, 2.5, 7, 3))
CALL(arange, ls_arange(run, LS_F32, 37, -3, 0.5))
CALL(rand, ls_rand(run, LS_F32, 5, 7))
CALL(randn, ls_randn(run, LS_F32, 5, 7))
CALL(bernoulli, ls_bernoulli_shape(run, LS_F32, 0.3, LS_SHAPE(41)))
CALL(randperm, ls_randperm(run, 33))

CALL2(add) CALL2(sub) CALL2(mul) CALL2(div) CALL2(pow) CALL2(maximum) CALL2(minimum) CALL2(remainder)
CALL2(eq) CALL2(ne) CALL2(lt) CALL2(le) CALL2(gt) CALL2(ge) CALL2(logical_and) CALL2(logical_or)
CALL(where, ls_where(in[0], in[1], in[2]))
CALL(eq_scalar, ls_eq_scalar(in[0], 1))
CALL(ne_scalar, ls_ne_scalar(in[0], 1))
CALL(lt_scalar, ls_lt_scalar(in[0], 0.3))
CALL(le_scalar, ls_le_scalar(in[0], 0.3))
CALL(gt_scalar, ls_gt_scalar(in[0], 0.3))
CALL(ge_scalar, ls_ge_scalar(in[0], 0.3))
CALL(where_scalar, ls_where_scalar(in[0], in[1], -0.5))
CALL(masked_fill, ls_masked_fill(in[1], in[0], -0.5))
CALL(lerp, ls_lerp(in[0], in[1], 0.3))
CALL(lerp_far, ls_lerp(in[0], in[1], 0.75))
CALL(remainder_scalar, ls_remainder_scalar(in[0], -0.75))

CALL(affine, ls_affine(in[0], 1.5, -0.25))
CALL(pow_scalar, ls_pow_scalar(in[0], 2.5))
CALL(cube, ls_pow_scalar(in[0], 3))
CALL(clamp, ls_clamp(in[0], -0.8, 0.9))
CALL1(neg) CALL1(abs) CALL1(sign) CALL1(exp) CALL1(log) CALL1(sqrt) CALL1(rsqrt) CALL1(square) CALL1(reciprocal)
CALL1(sin) CALL1(cos) CALL1(erf) CALL1(floor) CALL1(ceil) CALL1(logical_not) CALL1(isfinite)
CALL1(relu) CALL1(gelu) CALL1(gelu_tanh) CALL1(silu) CALL1(sigmoid) CALL1(tanh)
CALL(softplus, ls_softplus(in[0], 1.5))
CALL(elu, ls_elu(in[0], 0.7))
CALL(leaky_relu, ls_leaky_relu(in[0], 0.1))
CALL(dropout, ls_dropout(in[0], 0.3))

CALL1(sum) CALL1(mean) CALL1(max) CALL1(min) CALL1(norm) CALL1(argmax)
CALL(sum_first, ls_sum_dim(in[0], 0, false))
CALL(sum_outer, ls_sum_dims(in[0], LS_DIMS(0, 2), true))
CALL(mean_last, ls_mean_dim(in[0], -1, false))
CALL(max_first, ls_max_dim(in[0], 0, false))
CALL(min_last, ls_min_dim(in[0], -1, true))
CALL(var_all, ls_var(in[0], 1))
CALL(var_dims, ls_var_dims(in[0], LS_DIMS(0, -1), 0, false))
CALL(norm_dims, ls_norm_dims(in[0], LS_DIMS(1), false))
CALL1(logsumexp) CALL1(any) CALL1(all)
CALL(logsumexp_first, ls_logsumexp_dim(in[0], 0, true))
CALL(any_last, ls_any_dim(in[0], -1, false))
CALL(all_first, ls_all_dim(in[0], 0, true))
CALL(argmax_first, ls_argmax_dim(in[0], 0, true))
CALL(argmin, ls_argmin_dim(in[0], 1, false))
CALL(cumsum, ls_cumsum(in[0], 1))
CALL(topk, ls_topk(in[0], 3, -1, true, NULL))
CALL(topk_small, ls_topk(in[0], 2, 0, false, NULL))
CALL(sort, ls_sort(in[0], -1, false, NULL))
CALL(sort_down, ls_sort(in[0], 0, true, NULL))

CALL(reshape, ls_reshape(in[0], 5, -1))
CALL(reshape_moved, ls_reshape(ls_transpose(in[0], 0, 1), -1))
CALL(permute, ls_permute(in[0], 2, 0, 1))
CALL(expand, ls_expand(in[0], 4, 3, 5))
CALL(slice, ls_slice(in[0], 1, 1, -1, 2))
CALL(select, ls_select(in[0], 0, -1))
static ls_tensor *call_split(ls_run *run, ls_tensor **in)
{
    (void)run;
    ls_tensor *part[3];
    ls_chunk(in[0], -1, part, 3);
    return ls_mul(part[0], part[2]); /* the middle part gets no gradient */
}
static ls_tensor *call_split_many(ls_run *run, ls_tensor **in)
{
    (void)run;
    ls_tensor *part[6];
    ls_chunk(in[0], 0, part, 6);
    return ls_mul(part[1], part[5]);
}
CALL(concat, ls_concat_n(1, in, 3))
CALL(stack, ls_stack_n(1, in, 2))
CALL(pad, ls_pad(in[0], LS_SHAPE(1, 0), LS_SHAPE(0, 2), -1))
CALL(flip, ls_flip(in[0], 0, -1))
CALL(roll, ls_roll(in[0], 2, 1))
CALL(roll_back, ls_roll(in[0], -8, 0))
CALL(repeat, ls_repeat(in[0], 2, 3, 1, 2))
CALL(tril, ls_tril(in[0], 0))
CALL(tril_above, ls_tril(in[0], 2))
CALL(triu, ls_triu(in[0], 1))

CALL(gather, ls_take_along_dim(in[0], 1, in[1]))
CALL(scatter_add, ls_scatter_add(in[0], 0, in[1], in[2]))
/* Indices of a permutation: where one occurs twice, a finite difference and the gradient of its source differ. */
CALL(scatter, ls_scatter(in[0], 1, ls_slice(ls_argmax_dim(in[2], -1, true), 0, 0, 4, 1), in[1]))
CALL(scatter_scalar, ls_scatter_scalar(in[0], 0, in[1], 2.5))
CALL(one_hot, ls_one_hot(in[0], 7))
CALL(bincount, ls_bincount(in[0], 7))
CALL(multinomial, ls_multinomial(ls_ones(run, LS_F32, 3, 9), 4, false))
CALL(multinomial_one, ls_multinomial(ls_ones(run, LS_F32, 9), 1, true))
CALL(multinomial_many, ls_multinomial(ls_arange(run, LS_F32, 9, 0, 1), 40, true))
CALL(index_select, ls_index_select(in[0], 1, in[1]))
CALL(embedding, ls_embedding(in[0], in[1]))

CALL2(matmul)
CALL(matmul_transposed, ls_matmul(ls_transpose(in[0], -1, -2), ls_transpose(in[1], -1, -2)))
CALL(einsum_attention, ls_einsum("bhqd,bhkd->bhqk", in[0], in[1]))
CALL(einsum_dots, ls_einsum("...ij,...jk", in[0], in[1]))
CALL(einsum_sum, ls_einsum("ijk -> ki", in[0]))
CALL(einsum_outer, ls_einsum("i,j->ji", in[0], in[1]))
CALL(einsum_three, ls_einsum("ab,bc,cd->da", in[0], in[1], in[2]))
CALL(einsum_mixed, ls_einsum("zij,iz,k->jzk", in[0], in[1], in[2]))
CALL(linear, ls_linear(in[0], in[1], in[2], LS_ACT_NONE))
CALL(linear_plain, ls_linear(in[0], in[1], NULL, LS_ACT_NONE))
CALL(linears, ls_linears(in[0], 3, in + 1, in + 4))
CALL(linears_mixed, ls_linears(in[0], 2, in + 1, ((ls_tensor *[]){NULL, in[3]})))
CALL(linears_joined, ls_linears(in[0], 3, ROWS_OF(in[1], 4, 10), ROWS_OF(in[2], 4, 10)))
#define FEED_FORWARD(activation)                                                                                       \
    ls_feed_forward(in[0], (ls_tensor *[]){in[1], in[3]}, (ls_tensor *[]){in[2], in[4]}, activation)
CALL(feed_forward_gelu, FEED_FORWARD(LS_ACT_GELU))
CALL(feed_forward_gelu_tanh, FEED_FORWARD(LS_ACT_GELU_TANH))
CALL(feed_forward_silu, FEED_FORWARD(LS_ACT_SILU))
CALL(feed_forward_relu, FEED_FORWARD(LS_ACT_RELU))
CALL(feed_forward_plain, ls_feed_forward(in[0], in + 1, ((ls_tensor *[2]){NULL, NULL}), LS_ACT_GELU))
CALL(linear_relu, ls_linear(in[0], in[1], in[2], LS_ACT_RELU))
CALL(linear_gelu, ls_linear(in[0], in[1], in[2], LS_ACT_GELU))
CALL(linear_gelu_tanh, ls_linear(in[0], in[1], in[2], LS_ACT_GELU_TANH))
CALL(linear_silu, ls_linear(in[0], in[1], in[2], LS_ACT_SILU))
CALL(linear_tanh, ls_linear(in[0], in[1], in[2], LS_ACT_TANH))
CALL(linear_sigmoid, ls_linear(in[0], in[1], in[2], LS_ACT_SIGMOID))
CALL(conv, ls_conv2d(in[0], in[1], in[2], .padding = 1))
CALL(conv1d, ls_conv1d(in[0], in[1], in[2], .stride = 2, .padding = 2, .dilation = 2))
CALL(conv1d_groups, ls_conv1d(in[0], in[1], NULL, .groups = 2))
CALL(conv_stride, ls_conv2d(in[0], in[1], in[2], .stride = 2, .padding = 1))
CALL(conv_plain, ls_conv2d(in[0], in[1], NULL))
CALL(conv_mixed, ls_conv2d(in[0], in[1], NULL, .stride_hw = {2, 1}, .padding_hw = {1, 2}, .dilation = 2))
CALL(conv_groups, ls_conv2d(in[0], in[1], in[2], .padding = 1, .groups = 2))
CALL(conv_depthwise, ls_conv2d(in[0], in[1], in[2], .padding = 1, .stride = 2, .groups = 5))
CALL(conv_transpose, ls_conv_transpose2d(in[0], in[1], in[2],
                                         .stride = 2, .padding = 1, .output_padding = 1))
CALL(conv_transpose_groups, ls_conv_transpose2d(in[0], in[1], NULL, .groups = 2))
/* A convolution with the norm behind it has no options by name: it is not called by programs. */
#define WINDOW(stride_, padding_, groups_)                                                                             \
    &(ls_conv2d_opts){.stride = stride_, .padding = padding_, .dilation = 1, .groups = groups_,                        \
                      .stride_hw = {LS_AUTO, LS_AUTO}, .padding_hw = {LS_AUTO, LS_AUTO},                               \
                      .dilation_hw = {LS_AUTO, LS_AUTO}}
#define NORM(...) &(ls_batch_norm_opts){.epsilon = 1e-5, .running_mean = in[2], .running_var = in[3], __VA_ARGS__}
CALL(conv_norm, ls_conv2d_norm(in[0], in[1], NULL, WINDOW(1, 1, 1), NORM(.residual = in[4], .activation = LS_ACT_RELU)))
CALL(conv_norm_affine, ls_conv2d_norm(in[0], in[1], in[4], WINDOW(2, 0, 1), NORM(.weight = in[3], .bias = in[4])))
CALL(conv_norm_groups, ls_conv2d_norm(in[0], in[1], NULL, WINDOW(1, 1, 2), NORM(.residual = in[4])))
CALL(conv_norm_depthwise, ls_conv2d_norm(in[0], in[1], NULL, WINDOW(1, 1, 5),
                                         NORM(.residual = in[4], .activation = LS_ACT_RELU)))
CALL(conv_norm_train, ls_conv2d_norm(in[0], in[1], NULL, WINDOW(1, 0, 1),
                                     &(ls_batch_norm_opts){.epsilon = 1e-5, .training = true, .weight = in[2],
                                                           .bias = in[3], .residual = in[4],
                                                           .activation = LS_ACT_RELU}))
CALL(conv_norm_train_plain, ls_conv2d_norm(in[0], in[1], in[2], WINDOW(2, 1, 1),
                                           &(ls_batch_norm_opts){.epsilon = 1e-5, .training = true}))
CALL(attention, ls_attention(in[0], in[1], in[2]))
CALL(attention_causal, ls_attention(in[0], in[1], in[2], .causal = true, .scale = 0.3))
CALL(attention_mask, ls_attention(in[0], in[1], in[2], .mask = ls_cast(in[3], LS_BOOL)))
CALL(attention_bias, ls_attention(in[0], in[1], in[2], .mask = ls_detach(in[3])))
CALL(attention_dropout, ls_attention(in[0], in[1], in[2], .dropout = 0.25))
CALL(attention_lengths, ls_attention(in[0], in[1], in[2], .lengths = in[3]))
CALL(self_attention, ls_self_attention(in[0], 2))
CALL(self_attention_lengths, ls_self_attention(in[0], 2, .lengths = in[1], .causal = true))
CALL(self_attention_dropout, ls_self_attention(in[0], 3, .lengths = in[1], .dropout = 0.25))

CALL(max_pool, ls_max_pool2d(in[0], 3, .stride = 2, .padding = 1))
CALL(max_pool_ceil, ls_max_pool2d(in[0], 2, .ceil_mode = true))
CALL(avg_pool, ls_avg_pool2d(in[0], 3, .stride = 2, .padding = 1))
CALL(avg_pool_inside, ls_avg_pool2d(in[0],
                                    2, .padding = 1, .count_include_pad = false, .ceil_mode = true))
CALL(adaptive_pool, ls_adaptive_avg_pool2d(in[0], 2, 3))
CALL(global_pool, ls_adaptive_avg_pool2d(in[0], 1, 1))
CALL(nearest, ls_interpolate(in[0], 7, 5, LS_INTERPOLATE_NEAREST))
CALL(bilinear, ls_interpolate(in[0], 9, 4, LS_INTERPOLATE_BILINEAR))
CALL(bilinear_corners, ls_interpolate(in[0], 9, 8, LS_INTERPOLATE_BILINEAR_CORNERS))

CALL(normalize, ls_normalize(in[0], (double[]){0.5, -0.25, 0.125}, (double[]){0.5, 2, 3}))
CALL(batch_norm, ls_batch_norm(in[0], .weight = in[1], .bias = in[2], .training = true))
CALL(batch_norm_plain, ls_batch_norm(in[0], .training = true))
CALL(batch_norm_relu, ls_batch_norm(in[0], .weight = in[1], .bias = in[2], .residual = in[3],
                                                                .training = true, .activation = LS_ACT_RELU))
CALL(batch_norm_eval, ls_batch_norm(in[0], .weight = in[1], .bias = in[2], .running_mean = in[3],
                                                                .running_var = in[4]))
CALL(layer_norm, ls_layer_norm(in[0], in[1], in[2], 1e-5))
CALL(layer_norm_plain, ls_layer_norm(in[0], NULL, NULL, 1e-3))
CALL(rms_norm, ls_rms_norm(in[0], in[1], 1e-6))
CALL(rms_norm_plain, ls_rms_norm(in[0], NULL, 1e-3))
CALL(add_layer_norm, ls_add_layer_norm(in[0], in[1], in[2], in[3], 1e-5))
CALL(dropout_add_layer_norm, ls_dropout_add_layer_norm(in[0], in[1], in[2], in[3], 0.3, 1e-5))
CALL(dropout_add_layer_norm_plain, ls_dropout_add_layer_norm(in[0], in[1], NULL, NULL, 0.3, 1e-5))
CALL(embedding_layer_norm, ls_embedding_layer_norm(in, in + 3, 3, .weight = in[6], .bias = in[7]))
CALL(embedding_layer_norm_two, ls_embedding_layer_norm(in, in + 2, 2, .weight = in[4], .epsilon = 1e-3))
CALL(embedding_layer_norm_one, ls_embedding_layer_norm(in, in + 1, 1))
CALL(group_norm, ls_group_norm(in[0], 3, in[1], in[2], 1e-5))

/* Alone: src/parallel's tests have more processes. */
CALL(all_reduce, ls_all_reduce(ls_comm_of(run), in[0], LS_REDUCE_SUM))
CALL(all_gather, ls_all_gather(ls_comm_of(run), in[0]))
CALL(reduce_scatter, ls_reduce_scatter(ls_comm_of(run), in[0], LS_REDUCE_MEAN))
CALL(broadcast, ls_broadcast_from(ls_comm_of(run), in[0], 0))

CALL(softmax, ls_softmax(in[0], -1))
CALL(softmax_first, ls_softmax(in[0], 0))
CALL(log_softmax, ls_log_softmax(in[0], -1))
CALL(log_softmax_first, ls_log_softmax(in[0], 0))
CALL(cross_entropy, ls_cross_entropy(in[0], in[1]))
CALL(cross_entropy_all, ls_cross_entropy(in[0], in[1],
                                              .weight = ls_detach(in[2]), .label_smoothing = 0.1,
                                                             .ignore_index = 2))
CALL(cross_entropy_sum, ls_cross_entropy(in[0], in[1], .reduction = LS_REDUCE_SUM))
CALL(cross_entropy_none, ls_cross_entropy(in[0], in[1], .reduction = LS_REDUCE_NONE))
CALL(nll, ls_nll_loss(in[0], in[1], .weight = ls_detach(in[2])))
CALL(nll_sum, ls_nll_loss(in[0], in[1],
                          .reduction = LS_REDUCE_SUM, .ignore_index = 1))
CALL(mse, ls_mse_loss(in[0], in[1], LS_REDUCE_MEAN))
CALL(mse_none, ls_mse_loss(in[0], in[1], LS_REDUCE_NONE))
CALL(l1, ls_l1_loss(in[0], in[1], LS_REDUCE_SUM))
CALL(smooth_l1, ls_smooth_l1_loss(in[0], in[1], .beta = 0.7))
CALL(bce, ls_bce_with_logits(in[0], ls_sigmoid(ls_detach(in[1]))))
CALL(bce_weights, ls_bce_with_logits(in[0], ls_sigmoid(ls_detach(in[1])),
                                     .weight = ls_detach(in[2]), .pos_weight = ls_detach(in[3])))

#define CASE(op_, fn_, ...) {.op = LS_OP_##op_, .label = #fn_, .call = call_##fn_, .in = {__VA_ARGS__}}
#define EXACT(op_, fn_, ...) {.op = LS_OP_##op_, .label = #fn_, .call = call_##fn_, .exact = true, .in = {__VA_ARGS__}}
#define LOOSE(op_, fn_, slack_, ...)                                                                                 \
    {.op = LS_OP_##op_, .label = #fn_, .call = call_##fn_, .slack = slack_, .in = {__VA_ARGS__}}
#define CHANCE(op_, fn_, ...)                                                                                          \
    {.op = LS_OP_##op_, .label = #fn_, .call = call_##fn_, .random = true, .in = {__VA_ARGS__}}
#define LOOSE_CHANCE(op_, fn_, slack_, ...)                                                                            \
    {.op = LS_OP_##op_, .label = #fn_, .call = call_##fn_, .random = true, .slack = slack_, .in = {__VA_ARGS__}}

const op_case op_cases[] = {
    EXACT(copy, clone, N(3, 17)), EXACT(copy, contiguous, N(7, 5)), EXACT(copy, channels_last, N(2, 3, 5, 4)),
    CASE(copy, cast_f32, N(19)), EXACT(fill, full, {0}), EXACT(arange, arange, {0}), CHANCE(uniform, rand, {0}),
    CHANCE(normal, randn, {0}), CHANCE(bernoulli, bernoulli, {0}), CHANCE(randperm, randperm, {0}),

    EXACT(add, add, N(3, 37), N(3, 37)), EXACT(add, add, N(3, 1, 5), N(7, 1)), EXACT(add, add, N(9), SCALAR_N),
    EXACT(sub, sub, N(5, 13), N(13)), EXACT(mul, mul, N(5, 13), N(5, 1)), EXACT(div, div, N(5, 13), P(5, 13)),
    CASE(pow, pow, P(4, 7), N(4, 7)), EXACT(maximum, maximum, D(5, 9), N(5, 9)), EXACT(minimum, minimum, D(5, 9), N(9)),
    EXACT(eq, eq, B(31), B(31)), EXACT(ne, ne, B(31), B(31)), EXACT(lt, lt, N(31), N(31)), EXACT(le, le, N(31), N(31)),
    EXACT(gt, gt, N(31), N(31)), EXACT(ge, ge, N(31), N(31)), EXACT(logical_and, logical_and, B(31), B(31)),
    EXACT(logical_or, logical_or, B(31), B(31)), EXACT(where, where, B(5, 7), N(5, 7), N(7)),
    EXACT(remainder, remainder, N(3, 11), P(3, 11)), EXACT(remainder, remainder, P(2, 5), N(5)),
    EXACT(remainder, remainder_scalar, N(21)), EXACT(eq_scalar, eq_scalar, B(31)), EXACT(ne_scalar, ne_scalar, B(31)),
    EXACT(lt_scalar, lt_scalar, N(31)), EXACT(le_scalar, le_scalar, N(31)), EXACT(gt_scalar, gt_scalar, N(31)),
    EXACT(ge_scalar, ge_scalar, N(31)), EXACT(where_scalar, where_scalar, B(5, 1), N(5, 7)),
    EXACT(masked_fill, masked_fill, B(7), N(5, 7)), CASE(lerp, lerp, N(5, 7), N(7)),
    CASE(lerp, lerp_far, N(5, 7), N(7)),

    EXACT(affine, affine, N(3, 21)), CASE(pow_scalar, pow_scalar, P(23)), CASE(pow_scalar, cube, N(23)),
    EXACT(clamp, clamp, N(47)), EXACT(neg, neg, N(33)), EXACT(abs, abs, N(33)), EXACT(sign, sign, N(33)),
    EXACT(exp, exp, N(33)), EXACT(log, log, P(33)), EXACT(sqrt, sqrt, P(33)), EXACT(rsqrt, rsqrt, P(33)),
    EXACT(square, square, N(33)), EXACT(reciprocal, reciprocal, P(33)), EXACT(sin, sin, N(33)), EXACT(cos, cos, N(33)),
    EXACT(erf, erf, N(33)), EXACT(floor, floor, N(33)), EXACT(ceil, ceil, N(33)),
    EXACT(logical_not, logical_not, B(33)), EXACT(isfinite, isfinite, N(33)), EXACT(relu, relu, N(5, 11)),
    EXACT(gelu, gelu, N(5, 11)), EXACT(gelu, gelu_tanh, N(5, 11)), EXACT(silu, silu, N(5, 11)),
    EXACT(sigmoid, sigmoid, N(5, 11)), EXACT(tanh, tanh, N(5, 11)), EXACT(softplus, softplus, N(5, 11)),
    EXACT(elu, elu, N(5, 11)), EXACT(leaky_relu, leaky_relu, N(5, 11)), CHANCE(dropout, dropout, N(7, 9)),

    CASE(sum, sum, N(5, 23)), CASE(sum, sum_first, N(17, 13)), CASE(sum, sum_outer, N(3, 5, 7)),
    CASE(sum, sum, SCALAR_N), CASE(mean, mean, N(5, 23)), CASE(mean, mean_last, N(3, 5, 7)), EXACT(max, max, D(3, 11)),
    EXACT(max, max_first, D(5, 7)), EXACT(min, min, D(3, 11)), EXACT(min, min_last, D(3, 11)),
    CASE(var, var_all, N(3, 11)), CASE(var, var_dims, N(3, 5, 7)), CASE(norm, norm, N(3, 11)),
    CASE(norm, norm_dims, N(3, 11)), CASE(logsumexp, logsumexp, N(3, 11)), CASE(logsumexp, logsumexp_first, N(3, 11)),
    EXACT(any, any, B(3, 5)), EXACT(any, any_last, B(9, 3)), EXACT(all, all, B(3, 5)), EXACT(all, all_first, B(3, 9)),
    EXACT(argmax, argmax, D(4, 9)), EXACT(argmax, argmax_first, D(4, 9)),
    EXACT(argmin, argmin, D(4, 9)), CASE(cumsum, cumsum, N(3, 7, 5)), EXACT(topk, topk, D(5, 9)),
    EXACT(topk, topk_small, D(5, 9)), EXACT(sort, sort, D(5, 9)), EXACT(sort, sort_down, D(5, 9)),

    EXACT(reshape, reshape, N(3, 5, 7)), EXACT(reshape, reshape_moved, N(3, 5)), EXACT(permute, permute, N(3, 5, 7)),
    EXACT(expand, expand, N(3, 1)), EXACT(slice, slice, N(3, 7)), EXACT(slice, select, N(3, 7)),
    EXACT(split, split, N(5, 9)), EXACT(split, split_many, N(6, 3)), EXACT(concat, concat, N(3, 2), N(3, 5), N(3, 1)),
    EXACT(stack, stack, N(3, 5), N(3, 5)), EXACT(pad, pad, N(3, 5)),
    EXACT(flip, flip, N(3, 5, 7)), EXACT(roll, roll, N(3, 7, 5)), EXACT(roll, roll_back, N(5, 3)),
    EXACT(repeat, repeat, N(3, 5, 2)), EXACT(tril, tril, N(2, 5, 7)), EXACT(tril, tril_above, N(7, 5)),
    EXACT(triu, triu, N(2, 5, 7)),

    EXACT(gather, gather, N(4, 6), I(6, 3, 5)), CASE(scatter_add, scatter_add, N(4, 6), I(4, 3, 5), N(3, 6)),
    EXACT(scatter, scatter, N(4, 6), N(4, 1), D(5, 6)), EXACT(scatter, scatter_scalar, N(4, 6), I(4, 3, 5)),
    EXACT(one_hot, one_hot, I(7, 3, 4)), EXACT(bincount, bincount, I(7, 5, 9)), CHANCE(multinomial, multinomial, {0}),
    CHANCE(multinomial, multinomial_one, {0}), CHANCE(multinomial, multinomial_many, {0}),
    EXACT(index_select, index_select, N(4, 6), I(6, 9)), EXACT(embedding, embedding, N(7, 5), I(7, 3, 4)),

    CASE(matmul, matmul, N(5, 17), N(17, 9)), CASE(matmul, matmul, N(33), N(33)), CASE(matmul, matmul, N(3, 5), N(5)),
    CASE(matmul, matmul, N(2, 1, 7, 5), N(3, 5, 4)), CASE(matmul, matmul_transposed, N(19, 13), N(21, 19)),
    CASE(einsum, einsum_attention, N(2, 3, 5, 7), N(2, 3, 4, 7)), CASE(einsum, einsum_dots, N(3, 1, 5, 7), N(2, 7, 3)),
    CASE(einsum, einsum_sum, N(3, 5, 4)), CASE(einsum, einsum_outer, N(5), N(7)),
    CASE(einsum, einsum_three, N(3, 5), N(5, 4), N(4, 2)), CASE(einsum, einsum_mixed, N(3, 5, 4), N(5, 3), N(2)),
    CASE(linear, linear, N(2, 3, 17), N(13, 17), N(13)), CASE(linear, linear_plain, N(17), N(5, 17)),
    CASE(linears, linears, N(2, 3, 17), N(13, 17), N(5, 17), N(9, 17), N(13), N(5), N(9)),
    CASE(linears, linears_mixed, N(7, 17), N(13, 17), N(5, 17), N(5)),
    CASE(linears, linears_joined, N(7, 17), N(15, 17), N(15)),
    CASE(feed_forward, feed_forward_gelu, N(2, 3, 17), N(13, 17), N(13), N(5, 13), N(5)),
    CASE(feed_forward, feed_forward_gelu_tanh, N(7, 17), N(13, 17), N(13), N(5, 13), N(5)),
    CASE(feed_forward, feed_forward_silu, N(7, 17), N(13, 17), N(13), N(5, 13), N(5)),
    CASE(feed_forward, feed_forward_relu, N(7, 17), N(13, 17), N(13), N(5, 13), N(5)),
    CASE(feed_forward, feed_forward_plain, N(17), N(13, 17), N(5, 13)),
    CASE(linear, linear_relu, N(7, 17), N(13, 17), N(13)), CASE(linear, linear_gelu, N(7, 17), N(13, 17), N(13)),
    CASE(linear, linear_gelu_tanh, N(7, 17), N(13, 17), N(13)), CASE(linear, linear_silu, N(7, 17), N(13, 17), N(13)),
    CASE(linear, linear_tanh, N(7, 17), N(13, 17), N(13)), CASE(linear, linear_sigmoid, N(7, 17), N(13, 17), N(13)),
    CASE(conv2d, conv, N(2, 3, 6, 5), N(4, 3, 3, 3), N(4)),
    CASE(conv1d, conv1d, N(2, 3, 11), N(4, 3, 3), N(4)), CASE(conv1d, conv1d_groups, N(2, 4, 9), N(6, 2, 3)),
    CASE(conv2d, conv_stride, N(2, 5, 7, 6), N(9, 5, 3, 3), N(9)),
    CASE(conv2d, conv_plain, N(2, 5, 4, 4), N(3, 5, 1, 1)), CASE(conv2d, conv_mixed, N(1, 2, 9, 8), N(3, 2, 3, 2)),
    CASE(conv2d, conv_groups, N(2, 4, 5, 5), N(6, 2, 3, 3), N(6)),
    CASE(conv2d, conv_depthwise, N(2, 5, 7, 7), N(5, 1, 3, 3), N(5)),
    CASE(conv2d_norm, conv_norm, N(2, 3, 6, 5), N(4, 3, 3, 3), N(4), P(4), N(2, 4, 6, 5)),
    CASE(conv2d_norm, conv_norm, N(2, 8, 9, 7), N(17, 8, 3, 3), N(17), P(17), N(2, 17, 9, 7)),
    CASE(conv2d_norm, conv_norm_affine, N(2, 16, 5, 4), N(13, 16, 1, 1), N(13), P(13), N(13)),
    CASE(conv2d_norm, conv_norm_groups, N(2, 4, 5, 5), N(6, 2, 3, 3), N(6), P(6), N(2, 6, 5, 5)),
    CASE(conv2d_norm, conv_norm_depthwise, N(2, 5, 7, 7), N(5, 1, 3, 3), N(5), P(5), N(2, 5, 7, 7)),
    CASE(conv2d_norm, conv_norm_train, N(2, 8, 9, 7), N(16, 8, 1, 1), P(16), N(16), N(2, 16, 9, 7)),
    CASE(conv2d_norm, conv_norm_train_plain, N(2, 3, 9, 8), N(6, 3, 3, 3), N(6)),
    CASE(conv_transpose2d, conv_transpose, N(2, 3, 4, 3), N(3, 5, 3, 3), N(5)),
    CASE(conv_transpose2d, conv_transpose_groups, N(1, 4, 4, 3), N(4, 3, 2, 2)),
    CASE(attention, attention, N(2, 3, 7, 5), N(2, 3, 9, 5), N(2, 3, 9, 4)),
    CASE(attention, attention_causal, N(1, 2, 8, 8), N(1, 1, 8, 8), N(1, 1, 8, 8)),
    CASE(attention, attention_mask, N(2, 2, 5, 4), N(2, 2, 6, 4), N(2, 2, 6, 4), B(2, 1, 5, 6)),
    CASE(attention, attention_bias, N(2, 2, 5, 4), N(2, 2, 6, 4), N(2, 2, 6, 4), CONSTANT_N(2, 5, 6)),
    CHANCE(attention, attention_dropout, N(1, 2, 5, 4), N(1, 2, 7, 4), N(1, 2, 7, 4)),
    CASE(attention, attention_lengths, N(3, 2, 6, 4), N(3, 1, 6, 4), N(3, 1, 6, 5), I(7, 3)),
    CASE(self_attention, self_attention, N(2, 7, 30)),
    CASE(self_attention, self_attention_lengths, N(3, 9, 24), I(10, 3)),
    CHANCE(self_attention, self_attention_dropout, N(2, 5, 36), I(6, 2)),

    EXACT(max_pool2d, max_pool, D(2, 3, 7, 6)), EXACT(max_pool2d, max_pool_ceil, D(1, 2, 5, 5)),
    CASE(avg_pool2d, avg_pool, N(2, 3, 7, 6)), CASE(avg_pool2d, avg_pool_inside, N(2, 3, 6, 5)),
    CASE(adaptive_avg_pool2d, adaptive_pool, N(2, 3, 5, 7)), CASE(adaptive_avg_pool2d, global_pool, N(2, 3, 5, 7)),
    EXACT(interpolate, nearest, N(2, 3, 4, 6)), CASE(interpolate, bilinear, N(2, 3, 4, 6)),
    CASE(interpolate, bilinear_corners, N(2, 3, 4, 6)),

    CASE(normalize, normalize, N(2, 3, 5, 7)), CASE(normalize, normalize, N(1, 2, 3, 300)),
    LOOSE(batch_norm, batch_norm, 4, N(4, 5, 3, 3), N(5), N(5)), LOOSE(batch_norm, batch_norm_plain, 4, N(9, 5)),
    LOOSE(batch_norm, batch_norm_relu, 4, N(4, 5, 3, 3), N(5), N(5), N(4, 5, 3, 3)),
    LOOSE(batch_norm, batch_norm_eval, 4, N(4, 5, 3, 3), N(5), N(5), CONSTANT_N(5), CONSTANT_P(5)),
    LOOSE(layer_norm, layer_norm, 4, N(3, 4, 17), N(17), N(17)),
    LOOSE(layer_norm, layer_norm, 4, N(3, 4, 5), N(4, 5), N(4, 5)), LOOSE(layer_norm, layer_norm_plain, 4, N(5, 19)),
    LOOSE(rms_norm, rms_norm, 4, N(3, 4, 5), N(4, 5)), LOOSE(rms_norm, rms_norm_plain, 4, N(5, 19)),
    LOOSE(dropout_add_layer_norm, add_layer_norm, 4, N(5, 19), N(5, 19), N(19), N(19)),
    LOOSE_CHANCE(dropout_add_layer_norm, dropout_add_layer_norm, 4, N(5, 19), N(5, 19), N(19), N(19)),
    LOOSE_CHANCE(dropout_add_layer_norm, dropout_add_layer_norm, 4, N(3, 2, 4, 5), N(3, 2, 4, 5), N(4, 5), N(4, 5)),
    LOOSE_CHANCE(dropout_add_layer_norm, dropout_add_layer_norm_plain, 4, N(3, 37), N(3, 37)),
    LOOSE(embedding_layer_norm, embedding_layer_norm, 4, N(7, 19), N(5, 19), N(2, 19), I(7, 3, 5), I(5, 5), I(2, 3, 5),
          N(19), N(19)),
    LOOSE(embedding_layer_norm, embedding_layer_norm_two, 4, N(6, 17), N(4, 17), I(6, 1, 4), I(4, 3, 1), N(17)),
    LOOSE(embedding_layer_norm, embedding_layer_norm_one, 4, N(6, 37), I(6, 70)),
    LOOSE(group_norm, group_norm, 4, N(2, 6, 3, 5), N(6), N(6)),

    EXACT(all_reduce, all_reduce, N(5, 7)), EXACT(all_gather, all_gather, N(5, 3)),
    EXACT(reduce_scatter, reduce_scatter, N(5, 3)), EXACT(broadcast, broadcast, N(5, 7)),

    CASE(softmax, softmax, N(5, 19)), CASE(softmax, softmax_first, N(5, 7, 3)),
    CASE(log_softmax, log_softmax, N(5, 19)), CASE(log_softmax, log_softmax_first, N(5, 7)),
    CASE(cross_entropy, cross_entropy, N(7, 5), I(5, 7)), CASE(cross_entropy, cross_entropy, N(3, 5, 4), I(5, 3, 4)),
    CASE(cross_entropy, cross_entropy_all, N(9, 5), I(5, 9), CONSTANT_P(5)),
    CASE(cross_entropy, cross_entropy_sum, N(7, 5), I(5, 7)), CASE(cross_entropy, cross_entropy_none, N(7, 5), I(5, 7)),
    CASE(nll_loss, nll, N(7, 5), I(5, 7), CONSTANT_P(5)), CASE(nll_loss, nll_sum, N(7, 5), I(5, 7)),
    CASE(mse_loss, mse, N(4, 7), N(4, 7)), CASE(mse_loss, mse_none, N(4, 7), N(4, 7)),
    CASE(l1_loss, l1, N(4, 7), P(4, 7)), CASE(smooth_l1_loss, smooth_l1, N(4, 7), N(4, 7)),
    CASE(bce_with_logits, bce, N(4, 7), CONSTANT_N(4, 7)),
    CASE(bce_with_logits, bce_weights, N(4, 7), CONSTANT_N(4, 7), CONSTANT_P(7), CONSTANT_P(4, 1)),
};
/* clang-format on */
const int op_case_count = (int)(sizeof op_cases / sizeof *op_cases);
