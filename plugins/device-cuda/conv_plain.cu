/* conv_plain.cu - straightforward convolutions, for what cuDNN does not support: f64, and geometries without an engine.
 *
 * One thread for each pixel and channel of y or dx, one block for each number of dw. Channels are last in memory. */
#include "conv.h"
#include "number.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };

/* Where element [i, channel, row, column] of an image is. */
static __device__ __forceinline__ int64_t at(const int64_t *size, int64_t channels, int64_t i, int64_t channel,
                                             int64_t row, int64_t column)
{
    return ((i * size[0] + row) * size[1] + column) * channels + channel;
}

/* A number of an image as coordinates. */
struct place {
    int64_t i, channel, row, column;
};

static __device__ __forceinline__ place place_of(const int64_t *size, int64_t channels, int64_t number)
{
    place p;
    p.channel = number % channels, number /= channels;
    p.column = number % size[1], number /= size[1];
    p.row = number % size[0];
    p.i = number / size[0];
    return p;
}

template <typename T>
__global__ void __launch_bounds__(THREADS) plain_forward(dnn_conv conv, const T *x, const T *w, T *y, int64_t n)
{
    typedef typename wide<T>::type S;
    const ls_window &k = conv.window;
    int64_t group_c = conv.c / k.groups, group_o = conv.o / k.groups;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * THREADS) {
        place p = place_of(conv.out, conv.o, i);
        int64_t first_c = p.channel / group_o * group_c;
        S sum = 0;
        for (int64_t kh = 0; kh < k.kernel[0]; kh++) {
            int64_t row = p.row * k.stride[0] - k.padding[0] + kh * k.dilation[0];
            if (row < 0 || row >= conv.in[0]) continue;
            for (int64_t kw = 0; kw < k.kernel[1]; kw++) {
                int64_t column = p.column * k.stride[1] - k.padding[1] + kw * k.dilation[1];
                if (column < 0 || column >= conv.in[1]) continue;
                const T *pixel = x + at(conv.in, conv.c, p.i, first_c, row, column);
                const T *tap = w + at(k.kernel, group_c, p.channel, 0, kh, kw);
                for (int64_t c = 0; c < group_c; c++) sum += as<S>(pixel[c]) * as<S>(tap[c]);
            }
        }
        y[i] = as<T>(sum);
    }
}

/* The pixel of y whose tap `tap` lies on pixel `at` of x; -1: there is none. */
static __device__ __forceinline__ int64_t seen_from(const dnn_conv &conv, int axis, int64_t at, int64_t tap)
{
    int64_t start = at + conv.window.padding[axis] - tap * conv.window.dilation[axis];
    if (start < 0 || start % conv.window.stride[axis]) return -1;
    start /= conv.window.stride[axis];
    return start < conv.out[axis] ? start : -1;
}

template <typename T>
__global__ void __launch_bounds__(THREADS) plain_dinput(dnn_conv conv, T *dx, const T *w, const T *dy, int64_t n)
{
    typedef typename wide<T>::type S;
    const ls_window &k = conv.window;
    int64_t group_c = conv.c / k.groups, group_o = conv.o / k.groups;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * THREADS) {
        place p = place_of(conv.in, conv.c, i);
        int64_t first_o = p.channel / group_c * group_o, c = p.channel % group_c;
        S sum = 0;
        for (int64_t kh = 0; kh < k.kernel[0]; kh++) {
            int64_t row = seen_from(conv, 0, p.row, kh);
            if (row < 0) continue;
            for (int64_t kw = 0; kw < k.kernel[1]; kw++) {
                int64_t column = seen_from(conv, 1, p.column, kw);
                if (column < 0) continue;
                const T *pixel = dy + at(conv.out, conv.o, p.i, first_o, row, column);
                for (int64_t o = 0; o < group_o; o++)
                    sum += as<S>(pixel[o]) * as<S>(w[at(k.kernel, group_c, first_o + o, c, kh, kw)]);
            }
        }
        dx[i] = as<T>(sum);
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS) plain_dweight(dnn_conv conv, const T *x, T *dw, const T *dy, int64_t n)
{
    typedef typename wide<T>::type S;
    const ls_window &k = conv.window;
    int64_t group_c = conv.c / k.groups, group_o = conv.o / k.groups, points = conv.n * conv.out[0] * conv.out[1];
    __shared__ S shared[WARPS];
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
        place p = place_of(k.kernel, group_c, i); /* p.i: the output channel */
        int64_t c = p.i / group_o * group_c + p.channel;
        S sum = 0;
        for (int64_t point = threadIdx.x; point < points; point += THREADS) {
            int64_t column = point % conv.out[1], row = point / conv.out[1] % conv.out[0];
            int64_t item = point / conv.out[1] / conv.out[0];
            int64_t from_row = row * k.stride[0] - k.padding[0] + p.row * k.dilation[0];
            int64_t from_column = column * k.stride[1] - k.padding[1] + p.column * k.dilation[1];
            if (from_row < 0 || from_row >= conv.in[0] || from_column < 0 || from_column >= conv.in[1]) continue;
            sum += as<S>(x[at(conv.in, conv.c, item, c, from_row, from_column)]) * as<S>(dy[point * conv.o + p.i]);
        }
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int t = 1; t < WARPS; t++) sum += shared[t];
            dw[i] = as<T>(sum);
        }
        __syncthreads();
    }
}

template <typename T>
static void launch(const cuda_device *d, cudaStream_t stream, const dnn_conv &conv, void *const address[DNN_OPERANDS])
{
    T *x = (T *)address[0], *w = (T *)address[1], *y = (T *)address[2];
    int64_t n = 0, most = 16 * (int64_t)d->processors;
    if (conv.pass == DNN_FORWARD) n = conv.n * conv.o * conv.out[0] * conv.out[1];
    else if (conv.pass == DNN_DINPUT) n = conv.n * conv.c * conv.in[0] * conv.in[1];
    else n = conv.o * (conv.c / conv.window.groups) * conv.window.kernel[0] * conv.window.kernel[1];
    int64_t blocks = conv.pass == DNN_DWEIGHT ? n : (n + THREADS - 1) / THREADS;
    unsigned grid = (unsigned)(blocks < most ? blocks : most);
    if (conv.pass == DNN_FORWARD) plain_forward<T><<<grid, THREADS, 0, stream>>>(conv, x, w, y, n);
    else if (conv.pass == DNN_DINPUT) plain_dinput<T><<<grid, THREADS, 0, stream>>>(conv, x, w, y, n);
    else plain_dweight<T><<<grid, THREADS, 0, stream>>>(conv, x, w, y, n);
}

ls_status conv_plain(cuda_device *d, cudaStream_t stream, const dnn_conv *conv, void *const address[DNN_OPERANDS],
                     ls_message *why)
{
    CUDA_FLOATING(conv->dtype, why, launch<T>(d, stream, *conv, address));
    return CUDA_LAUNCHED(why);
}
