/* conv.c - the rows conv2d, conv2d_norm, conv2d_dinput, conv2d_dweight.
 *
 * Operands are brought into the type that is computed in, channels last, where they are not so already: in a network
 * under training they are, except for weights on their first use. cuDNN computes the result; one more pass, in f32 and
 * rounded once more, follows if the result has another type or layout, or if something is added to it. */
#include "conv.h"
#include "layout.h"

enum { X, W, Y }; /* operands in their roles, whichever is computed */

/* Which role a pass computes. */
static const int result[] = {[DNN_FORWARD] = Y, [DNN_DINPUT] = X, [DNN_DWEIGHT] = W};

static dnn_conv geometry(const ls_call *call, dnn_pass pass, const ls_operand *const role[3])
{
    ls_dtype compute = call->attrs.conv.compute;
    dnn_conv conv = {.n = role[X]->dim[0],
                     .c = role[X]->dim[1],
                     .o = role[W]->dim[0],
                     .in = {role[X]->dim[2], role[X]->dim[3]},
                     .out = {role[Y]->dim[2], role[Y]->dim[3]},
                     .window = call->attrs.conv.window,
                     .pass = (int32_t)pass,
                     .dtype = (int32_t)(compute == LS_DTYPE_NONE ? call->in[0]->dtype : compute)};
    for (int i = 0; i < 2; i++) conv.window.kernel[i] = role[W]->dim[2 + i];
    return conv;
}

static int64_t alignment_of(void *const address[DNN_OPERANDS])
{
    uintptr_t bits = (uintptr_t)address[X] | (uintptr_t)address[W] | (uintptr_t)address[Y] | 16;
    return (int64_t)(bits & -bits);
}

/* By cuDNN, or by own kernels where it cannot, or is slow. `is_whole`: nothing is done with the result afterwards. */
static ls_status compute(cuda_device *d, cudaStream_t stream, dnn_conv *conv, void *const address[DNN_OPERANDS],
                         bool empty, bool is_whole, ls_message *why)
{
    dnn_plan *plan = NULL;
    conv->alignment = alignment_of(address);
    if (conv->pass == DNN_FORWARD) dnn_forget_sums(d);
    if (!empty && conv->alignment == 16 && conv_photo_fits(conv)) return conv_photo(stream, conv, address, why);
    if (conv->dtype != LS_F64 && !empty) CUDA_TRY(dnn_find(d, stream, conv, address, &plan, why));
    if (!plan) return conv_plain(d, stream, conv, address, why);
    bool may_be_normed = is_whole && conv->pass == DNN_FORWARD;
    return (may_be_normed ? dnn_run_for_norm : dnn_run)(d, stream, plan, address, why);
}

static bool is_plain(const conv_finish_with *with)
{
    return !with->bias && !with->mean && !with->residual && !with->relu && !with->accumulate;
}

/* Is a product of matrices the better way? Gradients are added to others and, of weights, kept in f32, both of which
 * cost cuDNN's way one more pass. */
static bool by_product(const dnn_conv *conv, const ls_operand *const role[3])
{
    return conv->pass != DNN_FORWARD && conv_is_pointwise(conv, role);
}

static ls_status convolve_forms(cuda_device *d, cudaStream_t stream, dnn_conv *conv, const ls_operand *const role[3],
                                const conv_finish_with *with, cuda_form form[3], ls_message *why)
{
    int to = result[conv->pass];
    const ls_operand *y = role[to];
    ls_dtype type = (ls_dtype)conv->dtype;
    void *address[DNN_OPERANDS] = {NULL};
    for (int i = 0; i < 3; i++) {
        if (i != to) CUDA_TRY(cuda_form_in(d, stream, role[i], type, CUDA_CHANNELS_LAST, &form[i], why));
        else if (!with->accumulate) CUDA_TRY(cuda_form_out(d, y, type, CUDA_CHANNELS_LAST, &form[i], why));
        else CUDA_TRY(cuda_form_apart(d, y, type, CUDA_CHANNELS_LAST, &form[i], why));
        address[i] = form[i].view.data;
    }
    bool empty = !cuda_numel(role[0]) || !cuda_numel(role[1]) || !cuda_numel(role[2]);
    bool is_whole = address[to] == y->data && is_plain(with);
    CUDA_TRY(compute(d, stream, conv, address, empty, is_whole, why));
    if (is_whole) return LS_OK;
    return conv_finish(d, stream, &form[to].view, with, y, why);
}

static ls_status convolve(cuda_device *d, cudaStream_t stream, const ls_call *call, dnn_pass pass,
                          const ls_operand *const role[3], const conv_finish_with *with, ls_message *why)
{
    if (!cuda_numel(role[result[pass]])) return LS_OK;
    dnn_conv conv = geometry(call, pass, role);
    if (by_product(&conv, role)) return conv_pointwise(d, stream, &conv, role, with->accumulate, why);
    cuda_form form[3] = {{.space = {0}}};
    ls_status status = convolve_forms(d, stream, &conv, role, with, form, why);
    for (int i = 0; i < 3; i++) cuda_form_end(d, &form[i]);
    return status;
}

ls_status cuda_conv2d(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *role[3] = {call->in[0], call->in[1], call->out[0]};
    conv_finish_with with = {.bias = call->n_in > 2 ? call->in[2] : NULL,
                             .accumulate = call->attrs.conv.accumulate & 1};
    return convolve(d, stream, call, DNN_FORWARD, role, &with, why);
}

ls_status cuda_conv2d_norm(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *role[3] = {call->in[0], call->in[1], call->out[0]};
    if (call->attrs.conv.training) {
        dnn_conv conv = geometry(call, DNN_FORWARD, role);
        return conv_norm_training(d, stream, &conv, call, why);
    }
    conv_finish_with with = {.bias = call->in[2],
                             .weight = call->in[3],
                             .shift = call->in[4],
                             .mean = call->in[5],
                             .var = call->in[6],
                             .residual = call->in[7],
                             .epsilon = call->attrs.conv.epsilon,
                             .relu = call->attrs.conv.activation == LS_ACT_RELU};
    return convolve(d, stream, call, DNN_FORWARD, role, &with, why);
}

ls_status cuda_conv2d_dinput(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *role[3] = {call->out[0], call->in[1], call->in[0]};
    conv_finish_with with = {.accumulate = call->attrs.conv.accumulate & 1};
    return convolve(d, stream, call, DNN_DINPUT, role, &with, why);
}

ls_status cuda_conv2d_dweight(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *role[3] = {call->in[1], call->out[0], call->in[0]};
    conv_finish_with with = {.accumulate = call->attrs.conv.accumulate & 1};
    return convolve(d, stream, call, DNN_DWEIGHT, role, &with, why);
}
