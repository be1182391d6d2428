/* product.h - matrix products: from operands to cuBLASLt.
 *
 * product.c takes operands of any layout, finds the largest products that the library can do without a copy, and copies
 * what it cannot read; blas.c hands them to cuBLASLt and keeps the plans; product_plain.cu takes what that refuses. */
#ifndef LOCKSTEP_CUDA_PRODUCT_H
#define LOCKSTEP_CUDA_PRODUCT_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A matrix as the library sees it: columns one after the other, `pitch` elements apart. */
typedef struct blas_matrix {
    void *data;
    bool transposed; /* it takes part as its transpose */
    int64_t pitch;
    int64_t batch_stride; /* 0: the same for the whole batch */
} blas_matrix;

/* out [m,n] = a [m,k] b [k,n], `batch` times. a and b are of `type`, out and bias of `out_type`: the same, or f32 where
 * that is a half type. Sums are in f32 (f64 for f64). */
typedef struct blas_product {
    int64_t m, n, k, batch;
    ls_dtype type, out_type;
    blas_matrix a, b, out; /* out is not transposed */
    const void *bias;      /* [m], added to every column; NULL: none. Not with f64 */
    const void *residual;  /* as out, added to it; NULL: none. Not where it accumulates */
    bool relu;             /* after everything else, in a half type; needs a bias */
    bool accumulate;       /* added to what out holds, and rounded once */
} blas_product;

/* LS_ERR_UNSUPPORTED, without a message, where the library's ReLU would make NaN 0, or that cannot be found out. */
ls_status cuda_blas_run(cuda_device *d, cudaStream_t stream, const blas_product *p, ls_message *why);
/* cuda_blas_run() by a kernel of our own, slowly: for what the library refuses. */
ls_status cuda_product_plain(cudaStream_t stream, const blas_product *p, ls_message *why);

/* c [...,M,N] = a [...,M,K] b [...,K,N] + bias [N], computed in `compute`: operands of all floating types and layouts,
 * with leading dimensions as the operator matmul has them. bias: NULL, or of any floating type; not where the product
 * accumulates. */
typedef struct cuda_product {
    const ls_operand *a, *b, *c, *bias;
    ls_dtype compute;
    bool accumulate;
} cuda_product;

ls_status cuda_multiply(cuda_device *d, cudaStream_t stream, const cuda_product *p, ls_message *why);

/* What a product is computed in: what the call asks for, else the type of its first operand. */
static inline ls_dtype cuda_product_type(const ls_call *call)
{
    ls_dtype asked = call->attrs.product.compute;
    return asked == LS_DTYPE_NONE ? call->in[0]->dtype : asked;
}

#ifdef __cplusplus
}
#endif
#endif
