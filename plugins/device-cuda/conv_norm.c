/* conv_norm.c - the row conv2d_norm in training: a convolution and a batch norm by the statistics of its result, where
 * no gradient is wanted.
 *
 * In general one after the other. Two kinds of convolutions are rather written once. Those of single pixels to more
 * channels than they read: their statistics are found before them (conv_moments.h), and the norm, the residual and the
 * ReLU are part of the product. And those of photos, which are computed twice instead (conv_photo.cu). */
#include "conv.h"
#include "conv_moments.h"
#include "layout.h"
#include "product.h"

static ls_status in_two_steps(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *y = call->out[0];
    ls_call conv = {.op = LS_OP_conv2d,
                    .n_in = 3,
                    .n_out = 1,
                    .in = {call->in[0], call->in[1], call->in[2]},
                    .out = {y},
                    .attrs = {.conv = {.window = call->attrs.conv.window, .compute = call->attrs.conv.compute}}};
    ls_call norm = {.op = LS_OP_batch_norm,
                    .n_in = 6,
                    .n_out = 6,
                    .in = {y, call->in[3], call->in[4], NULL, NULL, call->in[7]},
                    .out = {y, NULL, NULL, NULL, call->out[1], call->out[2]},
                    .attrs = {.norm = {.epsilon = call->attrs.conv.epsilon,
                                       .momentum = call->attrs.conv.momentum,
                                       .training = true,
                                       .activation = call->attrs.conv.activation}}};
    CUDA_TRY(cuda_conv2d(d, stream, &conv, why));
    return cuda_batch_norm(d, stream, &norm, why);
}

/* ---- the norm as part of the product ---- */

/* Is it faster? Saved is writing all of y once, and reading it twice; the price is x x' for each pixel, reading x, and
 * a few small kernels. In femtoseconds, as a Hopper GPU takes them. */
static bool pays(int64_t pixels, int64_t channels, int64_t outputs)
{
    const int64_t element = 600, product = 10, kernels = 25000000000;
    return pixels * (3 * outputs * element - channels * element - channels * channels * product) > kernels;
}

static bool lies_in_pixels(const ls_operand *x, ls_dtype dtype)
{
    return x->dtype == dtype && cuda_has_order(x, CUDA_CHANNELS_LAST) && (uintptr_t)x->data % 16 == 0;
}

static bool is_product(const dnn_conv *conv, const ls_call *call)
{
    const ls_operand *x = call->in[0], *y = call->out[0], *residual = call->in[7];
    ls_dtype dtype = (ls_dtype)conv->dtype;
    if (!conv_is_pointwise(conv, (const ls_operand *[]){x, call->in[1], y})) return false;
    int64_t pixels = conv->n * conv->in[0] * conv->in[1];
    if (!conv_moments_fit(dtype, pixels, conv->c) || !pays(pixels, conv->c, conv->o)) return false;
    return lies_in_pixels(x, dtype) && lies_in_pixels(y, dtype) && (!residual || lies_in_pixels(residual, dtype));
}

static ls_status as_product(cuda_device *d, cudaStream_t stream, const dnn_conv *conv, const ls_call *call,
                            const void *weights, void *space, ls_message *why)
{
    const ls_operand *residual = call->in[7];
    int64_t pixels = conv->n * conv->in[0] * conv->in[1];
    conv_moments moments = {.pixels = pixels,
                            .channels = conv->c,
                            .outputs = conv->o,
                            .dtype = (ls_dtype)conv->dtype,
                            .x = call->in[0]->data,
                            .weights = weights,
                            .bias = call->in[2],
                            .gain = call->in[3],
                            .shift = call->in[4],
                            .running_mean = call->out[1],
                            .running_var = call->out[2],
                            .epsilon = call->attrs.conv.epsilon,
                            .momentum = call->attrs.conv.momentum,
                            .folded = space,
                            .vector = (char *)space + conv->o * conv->c * 2};
    blas_product product = {.m = conv->o,
                            .n = pixels,
                            .k = conv->c,
                            .batch = 1,
                            .type = moments.dtype,
                            .out_type = moments.dtype,
                            .a = {.data = moments.folded, .transposed = true, .pitch = conv->c},
                            .b = {.data = (void *)(uintptr_t)moments.x, .pitch = conv->c},
                            .out = {.data = call->out[0]->data, .pitch = conv->o},
                            .bias = moments.vector,
                            .residual = residual ? residual->data : NULL,
                            .relu = call->attrs.conv.activation == LS_ACT_RELU};
    CUDA_TRY(conv_moments_fold(d, stream, &moments, why));
    ls_status status = cuda_blas_run(d, stream, &product, why);
    if (status != LS_ERR_UNSUPPORTED) return status;
    product.relu = false;
    CUDA_TRY(cuda_blas_run(d, stream, &product, why));
    return conv_finish(d, stream, call->out[0], &(conv_finish_with){.relu = true}, call->out[0], why);
}

static ls_status in_one_step(cuda_device *d, cudaStream_t stream, const dnn_conv *conv, const ls_call *call,
                             ls_message *why)
{
    cuda_form weights = {.space = {0}};
    ls_workspace space = {0};
    ls_status status = cuda_form_in(d, stream, call->in[1], (ls_dtype)conv->dtype, CUDA_CHANNELS_LAST, &weights, why);
    if (status == LS_OK) status = cuda_take(d, (size_t)(conv->o * (conv->c + 1)) * 2, &space, why);
    if (status == LS_OK) status = as_product(d, stream, conv, call, weights.view.data, space.address, why);
    cuda_give(d, space);
    cuda_form_end(d, &weights);
    return status;
}

/* ---- photos ---- */

static bool is_photo(const dnn_conv *conv, const ls_call *call)
{
    ls_dtype dtype = (ls_dtype)conv->dtype;
    return !call->in[7] && lies_in_pixels(call->in[0], dtype) && lies_in_pixels(call->out[0], dtype) &&
           conv_photo_fits(conv);
}

static ls_status as_photo(cuda_device *d, cudaStream_t stream, const dnn_conv *conv, const ls_call *call,
                          ls_message *why)
{
    cuda_form weights = {.space = {0}};
    ls_status status = cuda_form_in(d, stream, call->in[1], (ls_dtype)conv->dtype, CUDA_CHANNELS_LAST, &weights, why);
    void *address[DNN_OPERANDS] = {call->in[0]->data, weights.view.data, call->out[0]->data};
    if (status == LS_OK) status = conv_photo_norm(d, stream, conv, address, call, why);
    cuda_form_end(d, &weights);
    return status;
}

ls_status conv_norm_training(cuda_device *d, cudaStream_t stream, const dnn_conv *conv, const ls_call *call,
                             ls_message *why)
{
    if (is_photo(conv, call)) return as_photo(d, stream, conv, call, why);
    if (is_product(conv, call)) return in_one_step(d, stream, conv, call, why);
    return in_two_steps(d, stream, call, why);
}
