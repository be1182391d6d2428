/* normalize.cu - the row normalize: pictures to (x - mean) / std by channel, bytes as x / 255. */
#include "layout.h"
#include "number.cuh"

enum { THREADS = 256, CHANNELS = 4, TOGETHER = 8 };

template <typename W> struct pictures {
    const void *x;
    void *y;
    int64_t n, height, width;
    int channels;
    bool dense;             /* both operands lie as y is walked: channels last without gaps */
    int64_t from[4], to[4]; /* strides */
    W mean[CHANNELS], std[CHANNELS];
};

static __device__ __forceinline__ float number_of(uint8_t x)
{
    return (float)x / 255.0f;
}
template <typename T> static __device__ __forceinline__ typename wide<T>::type number_of(T x)
{
    return as<typename wide<T>::type>(x);
}

/* A few neighbouring numbers a thread, in the order channels, columns, rows, items. */
template <typename From, typename To, typename W> __global__ void __launch_bounds__(THREADS) normalize(pictures<W> p)
{
    int64_t step = (int64_t)gridDim.x * THREADS * TOGETHER;
    for (int64_t first = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * TOGETHER; first < p.n; first += step) {
        int channel = (int)(first % p.channels);
        int64_t pixel = first / p.channels;
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            if (first + k >= p.n) break;
            int64_t from = first + k, to = from;
            if (!p.dense) {
                int64_t column = pixel % p.width, line = pixel / p.width, row = line % p.height, item = line / p.height;
                from = item * p.from[0] + channel * p.from[1] + row * p.from[2] + column * p.from[3];
                to = item * p.to[0] + channel * p.to[1] + row * p.to[2] + column * p.to[3];
            }
            W value = (W)number_of(((const From *)p.x)[from]);
            ((To *)p.y)[to] = as<To>((value - p.mean[channel]) / p.std[channel]);
            if (++channel == p.channels) channel = 0, pixel++;
        }
    }
}

template <typename From, typename To, typename W>
static void launch(const cuda_device *d, cudaStream_t stream, const ls_call *call)
{
    const ls_operand *x = call->in[0], *y = call->out[0];
    pictures<W> p = {};
    p.x = x->data, p.y = y->data, p.n = cuda_numel(y);
    p.channels = (int)y->dim[1], p.height = y->dim[2], p.width = y->dim[3];
    p.dense = cuda_has_order(x, CUDA_CHANNELS_LAST) && cuda_has_order(y, CUDA_CHANNELS_LAST);
    for (int i = 0; i < 4; i++) p.from[i] = x->stride[i], p.to[i] = y->stride[i];
    for (int i = 0; i < p.channels; i++) {
        p.mean[i] = (W)call->attrs.normalize.mean[i];
        p.std[i] = (W)call->attrs.normalize.std[i];
    }
    int64_t blocks = (p.n + THREADS * TOGETHER - 1) / (THREADS * TOGETHER), most = 16 * (int64_t)d->processors;
    normalize<From, To, W><<<(unsigned)(blocks < most ? blocks : most), THREADS, 0, stream>>>(p);
}

extern "C" ls_status cuda_normalize(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0], *y = call->out[0];
    if (!cuda_numel(y)) return LS_OK;
    if (x->dtype == LS_U8) {
        CUDA_FLOATING(y->dtype, why, launch<uint8_t, T, float>(d, stream, call));
    } else if (x->dtype == LS_F64 && y->dtype == LS_F64) {
        launch<double, double, double>(d, stream, call);
    } else if (x->dtype == LS_F32) {
        CUDA_FLOATING(y->dtype, why, launch<float, T, float>(d, stream, call));
    } else if (x->dtype == y->dtype) {
        CUDA_FLOATING(y->dtype, why, launch<T, T, float>(d, stream, call));
    } else {
        return cuda_on_host(d, stream, call, why); /* from one half type to the other, or f64 to a narrower type */
    }
    return CUDA_LAUNCHED(why);
}
