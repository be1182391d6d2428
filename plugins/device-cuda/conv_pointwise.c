/* conv_pointwise.c - gradients of convolutions of single pixels, kernel 1x1 and stride 1, as products of matrices,
 * pixels times channels. These add to what is there and write f32 gradients of weights in one pass; cuDNN cannot. */
#include "conv.h"
#include "layout.h"
#include "product.h"

enum { X, W, Y };

bool conv_is_pointwise(const dnn_conv *conv, const ls_operand *const role[3])
{
    const ls_window *w = &conv->window;
    for (int i = 0; i < 2; i++)
        if (w->kernel[i] != 1 || w->stride[i] != 1 || w->padding[i] != 0) return false;
    if (!cuda_numel(role[X])) return false;
    return w->groups == 1 && cuda_has_order(role[X], CUDA_CHANNELS_LAST) && cuda_has_order(role[Y], CUDA_CHANNELS_LAST);
}

/* [rows, columns] over the memory of an operand. */
static ls_operand matrix(const ls_operand *of, int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride)
{
    return (ls_operand){
        .data = of->data, .dtype = of->dtype, .ndim = 2, .dim = {rows, columns}, .stride = {row_stride, column_stride}};
}

/* [pixels, channels] of a picture, or its transpose. */
static ls_operand pixels(const ls_operand *picture, bool transposed)
{
    int64_t channels = picture->dim[1], count = picture->dim[0] * picture->dim[2] * picture->dim[3];
    return transposed ? matrix(picture, channels, count, 1, channels) : matrix(picture, count, channels, channels, 1);
}

/* dw [O,C] = dy^T [O,pixels] x [pixels,C] */
static ls_status dweight(cuda_device *d, cudaStream_t stream, const dnn_conv *conv, const ls_operand *const role[3],
                         bool accumulate, ls_message *why)
{
    ls_operand dy = pixels(role[Y], true), x = pixels(role[X], false);
    ls_operand dw = matrix(role[W], conv->o, conv->c, role[W]->stride[0], role[W]->stride[1]);
    cuda_product product = {&dy, &x, &dw, NULL, (ls_dtype)conv->dtype, accumulate};
    return cuda_multiply(d, stream, &product, why);
}

/* dx [pixels,C] = dy [pixels,O] w [O,C] */
static ls_status dinput(cuda_device *d, cudaStream_t stream, const dnn_conv *conv, const ls_operand *const role[3],
                        bool accumulate, ls_message *why)
{
    cuda_form weight = {.space = {0}};
    ls_dtype type = (ls_dtype)conv->dtype;
    ls_status status = cuda_form_in(d, stream, role[W], type, CUDA_CHANNELS_LAST, &weight, why);
    if (status == LS_OK) {
        ls_operand dy = pixels(role[Y], false), dx = pixels(role[X], false);
        ls_operand w = matrix(&weight.view, conv->o, conv->c, conv->c, 1);
        cuda_product product = {&dy, &w, &dx, NULL, type, accumulate};
        status = cuda_multiply(d, stream, &product, why);
    }
    cuda_form_end(d, &weight);
    return status;
}

ls_status conv_pointwise(cuda_device *d, cudaStream_t stream, const dnn_conv *conv, const ls_operand *const role[3],
                         bool accumulate, ls_message *why)
{
    return (conv->pass == DNN_DWEIGHT ? dweight : dinput)(d, stream, conv, role, accumulate, why);
}
