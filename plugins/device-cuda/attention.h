/* attention.h - attention as its kernels see it: sizes, strides and addresses of one call.
 *
 * Two families of kernels: attention.cu takes everything, attention_hopper.cu what BERT and GPT train with, on tensor
 * cores. Only the former drop the scores that the CPU drops. */
#ifndef LOCKSTEP_CUDA_ATTENTION_H
#define LOCKSTEP_CUDA_ATTENTION_H

#include "cuda.h"
#include "dropout.cuh"
#include "fault.h"

/* An operand [B,H,rows,columns]; strides in elements. */
typedef struct attention_heads {
    void *data; /* NULL: absent */
    int64_t batch, head, row, column;
    ls_dtype dtype;
} attention_heads;

typedef struct attention {
    int64_t batch, heads, key_heads, queries, keys, depth, value_depth;
    double scale;
    bool causal;
    dropping drop;
    attention_heads q, k, v, o, mask;
    attention_heads kept;   /* private to these kernels: see attention_hopper.cu */
    bool is_drawn;          /* a gradient: kept has what the fast kernels dropped */
    attention_heads lse;    /* [B,H,queries]: column is 0 */
    const void *lengths;    /* [B]; NULL: all of full length */
    int64_t lengths_stride; /* in elements */
    bool lengths_i64;
    attention_heads d_o, dq, dk, dv; /* of the gradient */
    float *sums;           /* [2 B,3,H,D]: dq, dk and dv, added up over parts of their rows; NULL: not wanted */
    cuda_fault_site fault; /* for lengths beyond the sequences */
} attention;

#ifdef __cplusplus
extern "C" {
#endif

/* Can the fast kernels run it? The answer for a gradient is that for its forward call, and depends on the gradient's
 * operands besides. */
bool cuda_attention_is_fast(const cuda_device *d, const attention *a, bool gradient);
ls_status cuda_attention_fast(cuda_device *d, cudaStream_t stream, const attention *a, ls_message *why);
ls_status cuda_attention_fast_grad(cuda_device *d, cudaStream_t stream, const attention *a, ls_message *why);

#ifdef __cplusplus
}
#endif

#ifdef __CUDACC__
/* Of sequence b; every kernel asks for it. A length that is wrong is reported, and taken as the nearest right one. */
static __device__ __forceinline__ int64_t length_of(const attention &a, int64_t b)
{
    int64_t whole = a.queries > a.keys ? a.queries : a.keys;
    if (!a.lengths) return whole;
    int64_t at = b * a.lengths_stride;
    int64_t length = a.lengths_i64 ? ((const int64_t *)a.lengths)[at] : ((const int32_t *)a.lengths)[at];
    if (!fault_unless_index(a.fault, length, whole + 1)) length = length < 0 ? 0 : whole;
    return length;
}
#endif
#endif
