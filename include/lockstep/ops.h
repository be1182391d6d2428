/* ops.h - the operators. docs/ops.md lists them with their gradients and autocast policy.
 *
 * Operators never return NULL: on wrong input they record an error and return a poison tensor, and an operator given
 * poison returns poison, so expressions can be nested without a check. Number types are promoted as listed in base.h;
 * shapes are broadcast from the right, as in PyTorch. `dim` counts from the end when negative; `keep` leaves a reduced
 * dimension with size 1. Where an argument is marked (optional) it may be NULL. */
#ifndef LOCKSTEP_OPS_H
#define LOCKSTEP_OPS_H

#include <lockstep/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Types and copies ---- */
LS_API ls_tensor *ls_cast(ls_tensor *x, ls_dtype dtype);
LS_API ls_tensor *ls_clone(ls_tensor *x);
LS_API ls_tensor *ls_contiguous(ls_tensor *x);    /* row-major in memory */
LS_API ls_tensor *ls_channels_last(ls_tensor *x); /* [N,C,H,W], memory in the order N, H, W, C: best for convolutions */

/* ---- Two inputs ---- */
LS_API ls_tensor *ls_add(ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_sub(ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_mul(ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_div(ls_tensor *a, ls_tensor *b); /* integers are divided in f32 */
LS_API ls_tensor *ls_pow(ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_maximum(ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_minimum(ls_tensor *a, ls_tensor *b);
/* What a leaves when divided by b, with the sign of b; 0 for integers divided by 0. */
LS_API ls_tensor *ls_remainder(ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_eq(ls_tensor *a, ls_tensor *b); /* comparisons give bool */
LS_API ls_tensor *ls_ne(ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_lt(ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_le(ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_gt(ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_ge(ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_logical_and(ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_logical_or(ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_where(ls_tensor *condition, ls_tensor *a, ls_tensor *b);
LS_API ls_tensor *ls_lerp(ls_tensor *a, ls_tensor *b, double weight); /* a + weight * (b - a) */

/* ---- One input ---- */
LS_API ls_tensor *ls_affine(ls_tensor *x, double scale, double shift); /* x * scale + shift */
LS_API ls_tensor *ls_add_scalar(ls_tensor *x, double value);
LS_API ls_tensor *ls_mul_scalar(ls_tensor *x, double value);
LS_API ls_tensor *ls_pow_scalar(ls_tensor *x, double exponent);
LS_API ls_tensor *ls_remainder_scalar(ls_tensor *x, double value);
LS_API ls_tensor *ls_clamp(ls_tensor *x, double low, double high);
LS_API ls_tensor *ls_eq_scalar(ls_tensor *x, double value); /* comparisons with a number */
LS_API ls_tensor *ls_ne_scalar(ls_tensor *x, double value);
LS_API ls_tensor *ls_lt_scalar(ls_tensor *x, double value);
LS_API ls_tensor *ls_le_scalar(ls_tensor *x, double value);
LS_API ls_tensor *ls_gt_scalar(ls_tensor *x, double value);
LS_API ls_tensor *ls_ge_scalar(ls_tensor *x, double value);
LS_API ls_tensor *ls_where_scalar(ls_tensor *condition, ls_tensor *x, double value); /* x, else the number */
LS_API ls_tensor *ls_masked_fill(ls_tensor *x, ls_tensor *mask, double value);       /* the number, else x */
LS_API ls_tensor *ls_neg(ls_tensor *x);
LS_API ls_tensor *ls_abs(ls_tensor *x);
LS_API ls_tensor *ls_sign(ls_tensor *x);
LS_API ls_tensor *ls_exp(ls_tensor *x);
LS_API ls_tensor *ls_log(ls_tensor *x);
LS_API ls_tensor *ls_sqrt(ls_tensor *x);
LS_API ls_tensor *ls_rsqrt(ls_tensor *x);
LS_API ls_tensor *ls_square(ls_tensor *x);
LS_API ls_tensor *ls_reciprocal(ls_tensor *x);
LS_API ls_tensor *ls_sin(ls_tensor *x);
LS_API ls_tensor *ls_cos(ls_tensor *x);
LS_API ls_tensor *ls_erf(ls_tensor *x);
LS_API ls_tensor *ls_floor(ls_tensor *x);
LS_API ls_tensor *ls_ceil(ls_tensor *x);
LS_API ls_tensor *ls_logical_not(ls_tensor *x);
LS_API ls_tensor *ls_isfinite(ls_tensor *x);

/* ---- Activations ---- */
LS_API ls_tensor *ls_relu(ls_tensor *x);
LS_API ls_tensor *ls_gelu(ls_tensor *x);      /* with erf, as BERT */
LS_API ls_tensor *ls_gelu_tanh(ls_tensor *x); /* the tanh approximation, as GPT-2 */
LS_API ls_tensor *ls_silu(ls_tensor *x);
LS_API ls_tensor *ls_sigmoid(ls_tensor *x);
LS_API ls_tensor *ls_tanh(ls_tensor *x);
LS_API ls_tensor *ls_softplus(ls_tensor *x, double beta);
LS_API ls_tensor *ls_elu(ls_tensor *x, double alpha);
LS_API ls_tensor *ls_leaky_relu(ls_tensor *x, double slope);
/* Zero elements with probability p and scale the rest by 1 / (1 - p). It knows no mode: call it in training only. */
LS_API ls_tensor *ls_dropout(ls_tensor *x, double p);

/* ---- Reductions: over everything, one dimension, or LS_DIMS(0, 2) ---- */
#define LS_DIMS(...) LS_SHAPE(__VA_ARGS__)
LS_API ls_tensor *ls_sum(ls_tensor *x);
LS_API ls_tensor *ls_sum_dim(ls_tensor *x, int dim, bool keep);
LS_API ls_tensor *ls_sum_dims(ls_tensor *x, ls_shape dims, bool keep);
LS_API ls_tensor *ls_mean(ls_tensor *x);
LS_API ls_tensor *ls_mean_dim(ls_tensor *x, int dim, bool keep);
LS_API ls_tensor *ls_mean_dims(ls_tensor *x, ls_shape dims, bool keep);
LS_API ls_tensor *ls_max(ls_tensor *x);
LS_API ls_tensor *ls_max_dim(ls_tensor *x, int dim, bool keep);
LS_API ls_tensor *ls_min(ls_tensor *x);
LS_API ls_tensor *ls_min_dim(ls_tensor *x, int dim, bool keep);
LS_API ls_tensor *ls_var(ls_tensor *x, int correction); /* correction 1: divided by n - 1 */
LS_API ls_tensor *ls_var_dims(ls_tensor *x, ls_shape dims, int correction, bool keep);
LS_API ls_tensor *ls_norm(ls_tensor *x);
LS_API ls_tensor *ls_norm_dims(ls_tensor *x, ls_shape dims, bool keep);
LS_API ls_tensor *ls_logsumexp(ls_tensor *x);
LS_API ls_tensor *ls_logsumexp_dim(ls_tensor *x, int dim, bool keep);
LS_API ls_tensor *ls_any(ls_tensor *x); /* bool: does an element, or every element, differ from 0? */
LS_API ls_tensor *ls_any_dim(ls_tensor *x, int dim, bool keep);
LS_API ls_tensor *ls_all(ls_tensor *x);
LS_API ls_tensor *ls_all_dim(ls_tensor *x, int dim, bool keep);
LS_API ls_tensor *ls_argmax(ls_tensor *x); /* over the last dimension, i64 */
LS_API ls_tensor *ls_argmax_dim(ls_tensor *x, int dim, bool keep);
LS_API ls_tensor *ls_argmin_dim(ls_tensor *x, int dim, bool keep);
LS_API ls_tensor *ls_cumsum(ls_tensor *x, int dim);
/* Returns the values, and the indices (i64) in *indices if it is not NULL. */
LS_API ls_tensor *ls_topk(ls_tensor *x, int64_t k, int dim, bool largest, ls_tensor **indices);
LS_API ls_tensor *ls_sort(ls_tensor *x, int dim, bool descending, ls_tensor **indices);

/* ---- Shape. Views share memory with their input ---- */
#define ls_reshape(x, ...) ls_reshape_shape((x), LS_SHAPE(__VA_ARGS__)) /* one size may be -1 */
#define ls_permute(x, ...) ls_permute_dims((x), LS_DIMS(__VA_ARGS__))
#define ls_expand(x, ...) ls_expand_shape((x), LS_SHAPE(__VA_ARGS__)) /* -1 keeps a size */
LS_API ls_tensor *ls_reshape_shape(ls_tensor *x, ls_shape shape);
LS_API ls_tensor *ls_permute_dims(ls_tensor *x, ls_shape order);
LS_API ls_tensor *ls_expand_shape(ls_tensor *x, ls_shape shape);
LS_API ls_tensor *ls_transpose(ls_tensor *x, int a, int b);
LS_API ls_tensor *ls_squeeze(ls_tensor *x, int dim);
LS_API ls_tensor *ls_unsqueeze(ls_tensor *x, int dim);
LS_API ls_tensor *ls_flatten(ls_tensor *x, int first, int last);
/* Elements begin, begin + step, ... below end; negative positions count from the end, INT64_MAX is the end. */
LS_API ls_tensor *ls_slice(ls_tensor *x, int dim, int64_t begin, int64_t end, int64_t step);
LS_API ls_tensor *ls_select(ls_tensor *x, int dim, int64_t index); /* one position; removes the dimension */
/* Cut a dimension into `count` equal pieces, written to out[0 .. count-1]. */
LS_API void ls_chunk(ls_tensor *x, int dim, ls_tensor **out, int64_t count);
/* One after the other along a dimension, or along a new one: ls_concat(0, a, b). */
#define ls_concat(dim, ...) ls_concat_n((dim), LS_ITEMS(ls_tensor *, __VA_ARGS__))
LS_API ls_tensor *ls_concat_n(int dim, ls_tensor *const *tensors, int64_t count);
#define ls_stack(dim, ...) ls_stack_n((dim), LS_ITEMS(ls_tensor *, __VA_ARGS__))
LS_API ls_tensor *ls_stack_n(int dim, ls_tensor *const *tensors, int64_t count);
/* Add before[d] and after[d] elements of `value` around dimension d. */
LS_API ls_tensor *ls_pad(ls_tensor *x, ls_shape before, ls_shape after, double value);

/* In reverse order along these dimensions: ls_flip(x, 2, 3). */
#define ls_flip(x, ...) ls_flip_dims((x), LS_DIMS(__VA_ARGS__))
LS_API ls_tensor *ls_flip_dims(ls_tensor *x, ls_shape dims);
/* Element i moves to i + shift; those that leave at one end come in at the other. */
LS_API ls_tensor *ls_roll(ls_tensor *x, int64_t shift, int dim);
/* Copies beside each other, so many along each dimension; further dimensions are put in front: ls_repeat(x, 2, 1). */
#define ls_repeat(x, ...) ls_repeat_shape((x), LS_SHAPE(__VA_ARGS__))
LS_API ls_tensor *ls_repeat_shape(ls_tensor *x, ls_shape times);
/* [...,M,N]: 0 above, or below, the diagonal; diagonal 1 is the one above the main diagonal. */
LS_API ls_tensor *ls_tril(ls_tensor *x, int64_t diagonal);
LS_API ls_tensor *ls_triu(ls_tensor *x, int64_t diagonal);

/* ---- By index (i64 or i32) ---- */
LS_API ls_tensor *ls_take_along_dim(ls_tensor *x, int dim, ls_tensor *index);
LS_API ls_tensor *ls_scatter_add(ls_tensor *x, int dim, ls_tensor *index, ls_tensor *source);
/* Elements of x at the index are replaced; of several with one index the last along dim stays. Or by a number. */
LS_API ls_tensor *ls_scatter(ls_tensor *x, int dim, ls_tensor *index, ls_tensor *source);
LS_API ls_tensor *ls_scatter_scalar(ls_tensor *x, int dim, ls_tensor *index, double value);
LS_API ls_tensor *ls_index_select(ls_tensor *x, int dim, ls_tensor *index);
LS_API ls_tensor *ls_embedding(ls_tensor *table, ls_tensor *index); /* [V,D], [...] -> [...,D] */
/* index [...] -> [...,classes], i64: 1 at the index, else 0. */
LS_API ls_tensor *ls_one_hot(ls_tensor *index, int64_t classes);
/* How often each of 0 .. bins-1 occurs: i64 [bins]. A number outside is an error; ls_one_hot is alike. */
LS_API ls_tensor *ls_bincount(ls_tensor *x, int64_t bins);
/* Classes drawn with probabilities proportional to weights [C] or [N,C]: i64 [draws] or [N,draws]. Weights must be
 * finite and not negative, and enough of them above 0: checking that waits for the device. */
LS_API ls_tensor *ls_multinomial(ls_tensor *weights, int64_t draws, bool replacement);

/* ---- Products ---- */
LS_API ls_tensor *ls_matmul(ls_tensor *a, ls_tensor *b); /* [...,M,K] [...,K,N]; vectors as in PyTorch */
/* Sums of products: ls_einsum("bhqd,bhkd->bhqk", q, k). A letter is an index; those that are not in the result are
 * summed over. "..." stands for any leading dimensions. Without "->" the result has the letters that occur once, in
 * alphabetical order. A letter occurs once in an operand. */
#define ls_einsum(equation, ...) ls_einsum_n((equation), LS_ITEMS(ls_tensor *, __VA_ARGS__))
LS_API ls_tensor *ls_einsum_n(const char *equation, ls_tensor *const *tensors, int64_t count);
/* x [...,K], weight [N,K], bias [N] (optional) -> activation(x W^T + b) [...,N] */
LS_API ls_tensor *ls_linear(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, ls_activation activation);

/* Geometry of convolutions: one number for height and width; a number given in an _hw pair, {height, width}, overrides
 * it. ls_conv2d(x, weight, NULL, .stride = 2, .padding_hw = {0, 1}) */
typedef struct ls_conv2d_opts {
    int64_t stride LS_DEFAULT(1), padding LS_DEFAULT(0), dilation LS_DEFAULT(1), groups LS_DEFAULT(1);
    int64_t stride_hw[2] LS_DEFAULT({LS_AUTO, LS_AUTO}), padding_hw[2] LS_DEFAULT({LS_AUTO, LS_AUTO});
    int64_t dilation_hw[2] LS_DEFAULT({LS_AUTO, LS_AUTO});
    int64_t output_padding LS_DEFAULT(0); /* transposed convolution */
    ls_options_end _ LS_DEFAULT({});
} ls_conv2d_opts;
#define ls_conv2d_opts_defaults                                                                                        \
    .stride = 1, .dilation = 1, .groups = 1, .stride_hw = {LS_AUTO, LS_AUTO}, .padding_hw = {LS_AUTO, LS_AUTO},        \
    .dilation_hw = {LS_AUTO, LS_AUTO}

/* x [N,C,H,W], weight [O,C/groups,KH,KW], bias [O] (optional). On CPUs, 3x3 in f32 may be computed with fewer products,
 * and other roundings: LOCKSTEP_WINOGRAD in docs/env.md. */
#define ls_conv2d(x, weight, ...) LS_CALL_3(ls_conv2d, ls_conv2d_opts, x, weight, __VA_ARGS__, )
LS_API ls_tensor *ls_conv2d_sized(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, const ls_conv2d_opts *opts,
                                  size_t opts_size);
/* x [N,C,H,W], weight [C,O/groups,KH,KW], bias [O] (optional) */
#define ls_conv_transpose2d(x, weight, ...) LS_CALL_3(ls_conv_transpose2d, ls_conv2d_opts, x, weight, __VA_ARGS__, )
LS_API ls_tensor *ls_conv_transpose2d_sized(ls_tensor *x, ls_tensor *weight, ls_tensor *bias,
                                            const ls_conv2d_opts *opts, size_t opts_size);

/* x [N,C,L], weight [O,C/groups,K], bias [O] (optional) */
typedef struct ls_conv1d_opts {
    int64_t stride LS_DEFAULT(1), padding LS_DEFAULT(0), dilation LS_DEFAULT(1), groups LS_DEFAULT(1);
    ls_options_end _ LS_DEFAULT({});
} ls_conv1d_opts;
#define ls_conv1d_opts_defaults .stride = 1, .dilation = 1, .groups = 1
#define ls_conv1d(x, weight, ...) LS_CALL_3(ls_conv1d, ls_conv1d_opts, x, weight, __VA_ARGS__, )
LS_API ls_tensor *ls_conv1d_sized(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, const ls_conv1d_opts *opts,
                                  size_t opts_size);

/* Fused attention. q [B,H,S,D], k and v [B,H,T,D]; fewer key heads are shared by consecutive query heads. */
typedef struct ls_attention_opts {
    /* (optional) Broadcast to [B,H,S,T]; bool: true attends; float: added to scores, no gradient. */
    ls_tensor *mask LS_DEFAULT(NULL);
    double scale LS_DEFAULT(LS_AUTO_REAL); /* LS_AUTO_REAL: 1 / sqrt(D) */
    double dropout LS_DEFAULT(0);
    bool causal LS_DEFAULT(false); /* position i sees keys 0 .. i */
    /* (optional) [B], i64 or i32, if S equals T: sequence b has only its first lengths[b] positions. The others are
     * neither read nor computed; their results and gradients are 0. */
    ls_tensor *lengths LS_DEFAULT(NULL);
    ls_options_end _ LS_DEFAULT({});
} ls_attention_opts;
#define ls_attention_opts_defaults .scale = LS_AUTO_REAL
#define ls_attention(q, k, ...) LS_CALL_3(ls_attention, ls_attention_opts, q, k, __VA_ARGS__, )
LS_API ls_tensor *ls_attention_sized(ls_tensor *q, ls_tensor *k, ls_tensor *v, const ls_attention_opts *opts,
                                     size_t opts_size);
/* The same for the output of one projection: qkv [B,S,3*H*D] holds the query, key and value of each position, each H
 * heads of D numbers; the result is [B,S,H*D]. Nothing is copied, forward or backward. */
#define ls_self_attention(qkv, ...) LS_CALL_2(ls_self_attention, ls_attention_opts, qkv, __VA_ARGS__, )
LS_API ls_tensor *ls_self_attention_sized(ls_tensor *qkv, int64_t heads, const ls_attention_opts *opts,
                                          size_t opts_size);

/* ---- Pooling and resizing, [N,C,H,W] ---- */
typedef struct ls_pool2d_opts {
    int64_t stride LS_DEFAULT(LS_AUTO);                    /* LS_AUTO: the kernel's size */
    int64_t padding LS_DEFAULT(0), dilation LS_DEFAULT(1); /* dilation: max pooling only */
    int64_t kernel_hw[2] LS_DEFAULT({LS_AUTO, LS_AUTO}), stride_hw[2] LS_DEFAULT({LS_AUTO, LS_AUTO});
    int64_t padding_hw[2] LS_DEFAULT({LS_AUTO, LS_AUTO}); /* pairs as in ls_conv2d */
    bool ceil_mode LS_DEFAULT(false);
    bool count_include_pad LS_DEFAULT(true); /* mean pooling: false counts real elements only */
    ls_options_end _ LS_DEFAULT({});
} ls_pool2d_opts;
#define ls_pool2d_opts_defaults                                                                                        \
    .stride = LS_AUTO, .dilation = 1, .count_include_pad = true, .kernel_hw = {LS_AUTO, LS_AUTO},                      \
    .stride_hw = {LS_AUTO, LS_AUTO}, .padding_hw = {LS_AUTO, LS_AUTO}
#define ls_max_pool2d(x, ...) LS_CALL_2(ls_max_pool2d, ls_pool2d_opts, x, __VA_ARGS__, )
LS_API ls_tensor *ls_max_pool2d_sized(ls_tensor *x, int64_t kernel, const ls_pool2d_opts *opts, size_t opts_size);
#define ls_avg_pool2d(x, ...) LS_CALL_2(ls_avg_pool2d, ls_pool2d_opts, x, __VA_ARGS__, )
LS_API ls_tensor *ls_avg_pool2d_sized(ls_tensor *x, int64_t kernel, const ls_pool2d_opts *opts, size_t opts_size);
LS_API ls_tensor *ls_adaptive_avg_pool2d(ls_tensor *x, int64_t height, int64_t width);
typedef enum ls_interpolation {
    LS_INTERPOLATE_NEAREST,
    LS_INTERPOLATE_BILINEAR,
    LS_INTERPOLATE_BILINEAR_CORNERS
} ls_interpolation;
LS_API ls_tensor *ls_interpolate(ls_tensor *x, int64_t height, int64_t width, ls_interpolation method);

/* ---- Normalisation ---- */
/* Pictures [N,C,H,W], up to four channels, u8 (0 .. 255, taken as 0 .. 1) or floating, to (x - mean[c]) / std[c].
 * The result is ready for a convolution: channels last, and in the autocast type inside an autocast scope. */
LS_API ls_tensor *ls_normalize(ls_tensor *x, const double *mean, const double *std);
LS_API ls_tensor *ls_imagenet_normalize(ls_tensor *x); /* with the mean and std that ImageNet networks expect */
typedef struct ls_batch_norm_opts {
    ls_tensor *weight LS_DEFAULT(NULL), *bias LS_DEFAULT(NULL); /* [C] (optional) */
    /* [C] (optional when training); updated in place when training */
    ls_tensor *running_mean LS_DEFAULT(NULL), *running_var LS_DEFAULT(NULL);
    ls_tensor *residual LS_DEFAULT(NULL); /* (optional) added after normalising */
    bool training LS_DEFAULT(false);
    double momentum LS_DEFAULT(0.1), epsilon LS_DEFAULT(1e-5);
    ls_activation activation LS_DEFAULT(LS_ACT_NONE); /* LS_ACT_NONE or LS_ACT_RELU, applied last */
    ls_options_end _ LS_DEFAULT({});
} ls_batch_norm_opts;
#define ls_batch_norm_opts_defaults .momentum = 0.1, .epsilon = 1e-5
/* x [N,C] or [N,C,...] */
#define ls_batch_norm(...) LS_CALL_1(ls_batch_norm, ls_batch_norm_opts, __VA_ARGS__, )
LS_API ls_tensor *ls_batch_norm_sized(ls_tensor *x, const ls_batch_norm_opts *opts, size_t opts_size);
/* Over the last dimensions, as many as `weight` has (weight and bias optional: then over the last one). The usual
 * epsilon is 1e-5. */
LS_API ls_tensor *ls_layer_norm(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, double epsilon);
/* x divided by its root mean square over the last dimensions, as many as `weight` has (optional: then over the last
 * one), and multiplied by weight. The usual epsilon is 1.1920929e-7, the resolution of f32. */
LS_API ls_tensor *ls_rms_norm(ls_tensor *x, ls_tensor *weight, double epsilon);
/* Layer norm of x + residual, which have the same shape. */
LS_API ls_tensor *ls_add_layer_norm(ls_tensor *x, ls_tensor *residual, ls_tensor *weight, ls_tensor *bias,
                                    double epsilon);
/* Layer norm of ls_dropout(x, p) + residual: the same numbers in one step. */
LS_API ls_tensor *ls_dropout_add_layer_norm(ls_tensor *x, ls_tensor *residual, ls_tensor *weight, ls_tensor *bias,
                                            double p, double epsilon);
/* Of summed embeddings, as at the input of a transformer: ls_layer_norm of ls_embedding(tables[0], indices[0]) +
 * ls_embedding(tables[1], indices[1]) + ..., in one step; count: 1 to LS_MAX_EMBEDDING_TABLES. Tables [V,D] have one
 * type; indices broadcast, so positions [S] go with words [B,S]. */
#define LS_MAX_EMBEDDING_TABLES 3
#define LS_NO_ROW INT64_MIN
typedef struct ls_embedding_layer_norm_opts {
    ls_tensor *weight LS_DEFAULT(NULL), *bias LS_DEFAULT(NULL); /* [D] (optional) */
    double epsilon LS_DEFAULT(1e-5);
    /* one for each table: this row (negative: from the end) gets no gradient */
    int64_t padding_idx[LS_MAX_EMBEDDING_TABLES] LS_DEFAULT({LS_NO_ROW, LS_NO_ROW, LS_NO_ROW});
    ls_options_end _ LS_DEFAULT({});
} ls_embedding_layer_norm_opts;
#define ls_embedding_layer_norm_opts_defaults .epsilon = 1e-5, .padding_idx = {LS_NO_ROW, LS_NO_ROW, LS_NO_ROW}
#define ls_embedding_layer_norm(tables, indices, ...)                                                                  \
    LS_CALL_3(ls_embedding_layer_norm, ls_embedding_layer_norm_opts, tables, indices, __VA_ARGS__, )
LS_API ls_tensor *ls_embedding_layer_norm_sized(ls_tensor *const *tables, ls_tensor *const *indices, int64_t count,
                                                const ls_embedding_layer_norm_opts *opts, size_t opts_size);
LS_API ls_tensor *ls_group_norm(ls_tensor *x, int64_t groups, ls_tensor *weight, ls_tensor *bias, double epsilon);

/* ---- Softmax and losses ---- */
LS_API ls_tensor *ls_softmax(ls_tensor *x, int dim);
LS_API ls_tensor *ls_log_softmax(ls_tensor *x, int dim);

/* Giving an option that a loss does not have is an error. */
typedef struct ls_loss_opts {
    ls_reduction reduction LS_DEFAULT(LS_REDUCE_MEAN);
    ls_tensor *weight LS_DEFAULT(NULL);     /* (optional) cross entropy, nll: [C]; bce: broadcast to x */
    ls_tensor *pos_weight LS_DEFAULT(NULL); /* (optional) bce */
    double label_smoothing LS_DEFAULT(0);   /* cross entropy */
    int64_t ignore_index LS_DEFAULT(-100);  /* targets to ignore: cross entropy, nll */
    double beta LS_DEFAULT(1);              /* smooth L1: quadratic below this; 0 is the L1 loss */
    ls_options_end _ LS_DEFAULT({});
} ls_loss_opts;
#define ls_loss_opts_defaults .reduction = LS_REDUCE_MEAN, .ignore_index = -100, .beta = 1
/* logits [N,C] or [N,C,...], target i64 or i32 [N] or [N,...]; the mean is over targets that are not ignored */
#define ls_cross_entropy(logits, ...) LS_CALL_2(ls_cross_entropy, ls_loss_opts, logits, __VA_ARGS__, )
LS_API ls_tensor *ls_cross_entropy_sized(ls_tensor *logits, ls_tensor *target, const ls_loss_opts *opts,
                                         size_t opts_size);
#define ls_nll_loss(log_probability, ...) LS_CALL_2(ls_nll_loss, ls_loss_opts, log_probability, __VA_ARGS__, )
LS_API ls_tensor *ls_nll_loss_sized(ls_tensor *log_probability, ls_tensor *target, const ls_loss_opts *opts,
                                    size_t opts_size);
/* x and target have the same shape (no broadcasting); weights are broadcast */
LS_API ls_tensor *ls_mse_loss(ls_tensor *x, ls_tensor *target, ls_reduction reduction);
LS_API ls_tensor *ls_l1_loss(ls_tensor *x, ls_tensor *target, ls_reduction reduction);
#define ls_smooth_l1_loss(x, ...) LS_CALL_2(ls_smooth_l1_loss, ls_loss_opts, x, __VA_ARGS__, )
LS_API ls_tensor *ls_smooth_l1_loss_sized(ls_tensor *x, ls_tensor *target, const ls_loss_opts *opts, size_t opts_size);
#define ls_bce_with_logits(x, ...) LS_CALL_2(ls_bce_with_logits, ls_loss_opts, x, __VA_ARGS__, )
LS_API ls_tensor *ls_bce_with_logits_sized(ls_tensor *x, ls_tensor *target, const ls_loss_opts *opts, size_t opts_size);

#ifdef __cplusplus
}
#endif
#endif
