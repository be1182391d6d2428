/* conv.h - what the files of convolutions share: the geometry comes from dnn.h. */
#ifndef LOCKSTEP_CUDA_CONV_H
#define LOCKSTEP_CUDA_CONV_H

#include "dnn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* conv_plain.cu: convolutions that cuDNN does not support, and all in f64. Operands are those of dnn_conv; address: x,
 * w, y. */
ls_status conv_plain(cuda_device *d, cudaStream_t stream, const dnn_conv *conv, void *const address[DNN_OPERANDS],
                     ls_message *why);

/* conv_photo.cu: forward, three channels to a few, windows of 3 x 3 at every second pixel. Channels are
 * last, x and y at multiples of 16 bytes. In training `call` is that of conv2d_norm, without a residual, and y is
 * normalised. */
bool conv_photo_fits(const dnn_conv *conv);
ls_status conv_photo(cudaStream_t stream, const dnn_conv *conv, void *const address[DNN_OPERANDS], ls_message *why);
ls_status conv_photo_norm(cuda_device *d, cudaStream_t stream, const dnn_conv *conv, void *const address[DNN_OPERANDS],
                          const ls_call *call, ls_message *why);

/* conv_pointwise.c: gradients of a convolution whose windows are single pixels, one after the other. role: x, w, y. */
bool conv_is_pointwise(const dnn_conv *conv, const ls_operand *const role[3]);
ls_status conv_pointwise(cuda_device *d, cudaStream_t stream, const dnn_conv *conv, const ls_operand *const role[3],
                         bool accumulate, ls_message *why);

/* conv_norm.c: conv2d_norm in training. */
ls_status conv_norm_training(cuda_device *d, cudaStream_t stream, const dnn_conv *conv, const ls_call *call,
                             ls_message *why);

/* What is done with the sums of a convolution, per output channel (dimension 1):
 *
 *     y = [y +] activation((sums + bias - mean) weight / sqrt(var + epsilon) + shift + residual)
 *
 * Everything may be absent (NULL); without mean there is no norm. */
typedef struct conv_finish_with {
    const ls_operand *bias, *weight, *shift, *mean, *var, *residual;
    double epsilon;
    bool relu, accumulate;
} conv_finish_with;

/* conv_finish.cu. sums: channels last without gaps, may be y itself; y: of any layout, f32 or of the type of sums. */
ls_status conv_finish(cuda_device *d, cudaStream_t stream, const ls_operand *sums, const conv_finish_with *with,
                      const ls_operand *y, ls_message *why);

#ifdef __cplusplus
}
#endif
#endif
