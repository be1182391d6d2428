/* conv_moments.h - a batch norm that trains, as part of the weights of the convolution of single pixels before it. */
#ifndef LOCKSTEP_CUDA_CONV_MOMENTS_H
#define LOCKSTEP_CUDA_CONV_MOMENTS_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* norm(w x + bias) = folded x + vector, for each pixel of x [pixels, channels], w [outputs, channels]. */
typedef struct conv_moments {
    int64_t pixels, channels, outputs;
    ls_dtype dtype;                                                     /* f16 or bf16, of all that is void * here */
    const void *x, *weights;                                            /* without gaps, x at a multiple of 16 bytes */
    const ls_operand *bias, *gain, *shift, *running_mean, *running_var; /* [outputs]; NULL: absent */
    double epsilon, momentum;
    void *folded, *vector; /* [outputs, channels], [outputs]: written */
} conv_moments;

bool conv_moments_fit(ls_dtype dtype, int64_t pixels, int64_t channels);
ls_status conv_moments_fold(cuda_device *d, cudaStream_t stream, const conv_moments *m, ls_message *why);

#ifdef __cplusplus
}
#endif
#endif
