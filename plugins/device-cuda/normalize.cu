/* normalize.cu - the row normalize: pictures to (x - mean) / std by channel, bytes as x / 255. */
#include "eight.cuh"
#include "layout.h"

enum { THREADS = 256, CHANNELS = 4 };

template <typename W> struct pictures {
    const void *x;
    void *y;
    int64_t n, height, width;
    int channels;
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

template <typename To, typename From, typename W>
static __device__ __forceinline__ To normalized(const pictures<W> &p, From x, int channel)
{
    return as<To>(((W)number_of(x) - p.mean[channel]) / p.std[channel]);
}

/* Any layout, one number a thread, in the order columns, rows, channels, items. */
template <typename From, typename To, typename W>
__global__ void __launch_bounds__(THREADS) normalize_strided(pictures<W> p)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < p.n; i += (int64_t)gridDim.x * THREADS) {
        int64_t column = i % p.width, line = i / p.width, row = line % p.height, plane = line / p.height;
        int64_t item = plane / p.channels;
        int channel = (int)(plane % p.channels);
        int64_t from = item * p.from[0] + channel * p.from[1] + row * p.from[2] + column * p.from[3];
        int64_t to = item * p.to[0] + channel * p.to[1] + row * p.to[2] + column * p.to[3];
        ((To *)p.y)[to] = normalized<To>(p, ((const From *)p.x)[from], channel);
    }
}

/* Eight neighbouring numbers as they lie in memory. */
template <typename T> struct neighbours {
    eight<T> at;
    __device__ __forceinline__ void load(const T *from)
    {
        at.template load<true>(from, 8);
    }
};
template <> struct neighbours<uint8_t> {
    union {
        uint64_t all;
        uint8_t element[8];
    } at;
    __device__ __forceinline__ void load(const uint8_t *from)
    {
        at.all = *(const uint64_t *)from;
    }
};

/* Results of numbers by channel. There are few bytes: theirs are computed once and looked up, since two divisions take
 * longer than the memory. */
template <typename From, typename To, typename W> struct results {
    __device__ __forceinline__ void prepare(const pictures<W> &)
    {
    }
    __device__ __forceinline__ To of(const pictures<W> &p, From x, int channel) const
    {
        return normalized<To>(p, x, channel);
    }
};
template <typename To, typename W> struct results<uint8_t, To, W> {
    To table[CHANNELS][256];
    __device__ __forceinline__ void prepare(const pictures<W> &p)
    {
        for (int i = threadIdx.x; i < p.channels * 256; i += THREADS)
            table[i / 256][i % 256] = normalized<To>(p, (uint8_t)(i % 256), i / 256);
        __syncthreads();
    }
    __device__ __forceinline__ To of(const pictures<W> &, uint8_t x, int channel) const
    {
        return table[channel][x];
    }
};

/* Both operands channels last without gaps, p.n a multiple of eight: eight neighbouring numbers a thread. */
template <typename From, typename To, typename W>
__global__ void __launch_bounds__(THREADS) normalize_dense(pictures<W> p)
{
    __shared__ results<From, To, W> known;
    known.prepare(p);
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < p.n / 8; i += (int64_t)gridDim.x * THREADS) {
        neighbours<From> x;
        x.load((const From *)p.x + i * 8);
        int channel = (int)(i * 8 % p.channels);
        eight<To> y;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            y.element[k] = known.of(p, x.at.element[k], channel);
            if (++channel == p.channels) channel = 0;
        }
        y.template store<true>((To *)p.y + i * 8, 8);
    }
}

template <typename From, typename To, typename W>
static void launch(const cuda_device *d, cudaStream_t stream, const ls_call *call)
{
    const ls_operand *x = call->in[0], *y = call->out[0];
    pictures<W> p = {};
    p.x = x->data, p.y = y->data, p.n = cuda_numel(y);
    p.channels = (int)y->dim[1], p.height = y->dim[2], p.width = y->dim[3];
    bool dense = cuda_has_order(x, CUDA_CHANNELS_LAST) && cuda_has_order(y, CUDA_CHANNELS_LAST) && p.n % 8 == 0 &&
                 can_load_eight(x->data) && can_load_eight(y->data);
    for (int i = 0; i < 4; i++) p.from[i] = x->stride[i], p.to[i] = y->stride[i];
    for (int i = 0; i < p.channels; i++) {
        p.mean[i] = (W)call->attrs.normalize.mean[i];
        p.std[i] = (W)call->attrs.normalize.std[i];
    }
    int64_t blocks = ((dense ? p.n / 8 : p.n) + THREADS - 1) / THREADS, most = 16 * (int64_t)d->processors;
    unsigned grid = (unsigned)(blocks < most ? blocks : most);
    if (dense) normalize_dense<From, To, W><<<grid, THREADS, 0, stream>>>(p);
    else normalize_strided<From, To, W><<<grid, THREADS, 0, stream>>>(p);
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
