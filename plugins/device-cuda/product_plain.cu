/* product_plain.cu - products that cuBLASLt refuses, such as some of odd alignment: a thread per element. */
#include "number.cuh"
#include "product.h"

enum { SIDE = 16 };

/* Block (x, y, z): 16 x 16 elements of out, and the number in the batch. */
template <typename T, typename Out> static __global__ void __launch_bounds__(SIDE *SIDE) multiply(const blas_product p)
{
    typedef typename wide<T>::type W;
    int64_t i = (int64_t)blockIdx.x * SIDE + threadIdx.x, j = (int64_t)blockIdx.y * SIDE + threadIdx.y;
    if (i >= p.m || j >= p.n) return;
    const T *a = (const T *)p.a.data + blockIdx.z * p.a.batch_stride + i * (p.a.transposed ? p.a.pitch : 1);
    const T *b = (const T *)p.b.data + blockIdx.z * p.b.batch_stride + j * (p.b.transposed ? 1 : p.b.pitch);
    int64_t a_step = p.a.transposed ? 1 : p.a.pitch, b_step = p.b.transposed ? p.b.pitch : 1;
    Out *out = (Out *)p.out.data + blockIdx.z * p.out.batch_stride + j * p.out.pitch + i;
    W sum = 0;
    for (int64_t k = 0; k < p.k; k++) sum = fma(as<W>(a[k * a_step]), as<W>(b[k * b_step]), sum);
    if (p.bias) sum += as<W>(((const Out *)p.bias)[i]);
    if (p.accumulate) sum += as<W>(*out);
    if (p.residual) sum += as<W>(((const Out *)p.residual)[out - (Out *)p.out.data]);
    if (p.relu && sum < 0) sum = 0;
    *out = as<Out>(sum);
}

template <typename T> static void launch(cudaStream_t stream, const blas_product *p)
{
    dim3 grid((unsigned)((p->m + SIDE - 1) / SIDE), (unsigned)((p->n + SIDE - 1) / SIDE), (unsigned)p->batch);
    if (p->out_type == p->type) multiply<T, T><<<grid, dim3(SIDE, SIDE), 0, stream>>>(*p);
    else multiply<T, float><<<grid, dim3(SIDE, SIDE), 0, stream>>>(*p);
}

extern "C" ls_status cuda_product_plain(cudaStream_t stream, const blas_product *p, ls_message *why)
{
    if (p->n > 65535 * SIDE || p->batch > 65535)
        return cuda_refuse(why, LS_ERR_UNSUPPORTED, "cuBLASLt refuses a product of %lld x %lld x %lld, %lld times",
                           (long long)p->n, (long long)p->k, (long long)p->m, (long long)p->batch);
    CUDA_FLOATING(p->type, why, launch<T>(stream, p));
    return CUDA_LAUNCHED(why);
}
