/* window.cu - pictures [N,C,H,W] whose pixels are each computed from a window of another picture: pooling, resizing and
 * their gradients.
 *
 * Along an axis, output o sees some adjacent inputs (every `dilation`-th, for maxima) with weights; a weight of a pixel
 * is the product of those along both axes. A gradient goes through the inputs: each gathers from the outputs that saw
 * it, in a fixed order. Threads take eight channels where they are adjacent in all operands, else one. */
#include "eight.cuh"

enum { THREADS = 256 };

/* ---- windows along one axis ---- */

typedef enum window_kind { WINDOW_POOL, WINDOW_ADAPTIVE, WINDOW_NEAREST, WINDOW_BILINEAR } window_kind;

/* Sizes are below 2^30, so that arithmetic of places fits into 32 bits. */
struct axis {
    int kind, in, out;
    int kernel, stride, padding, dilation; /* pools */
    bool count_padding;
    double step, shift; /* resizing: position of output o is step * (o + shift) - shift */
};

/* Inputs first, first + 1, ..., with the weight of the first and of each of the others. W: what is computed in. */
template <typename W> struct span {
    int first, count;
    W lead, rest;
};

static __device__ __forceinline__ int ceil_div(int a, int b)
{
    return a > 0 ? (a + b - 1) / b : -(-a / b);
}

/* Products of two sizes. */
static __device__ __forceinline__ int scaled(int a, int64_t times, int over)
{
    return (int)(a * times / over);
}
static __device__ __forceinline__ int scaled_up(int a, int64_t times, int over)
{
    return (int)((a * times + over - 1) / over);
}

static __device__ __forceinline__ double position(const axis &a, int o, double)
{
    return fma(a.step, (double)o + a.shift, -a.shift);
}
static __device__ __forceinline__ float position(const axis &a, int o, float)
{
    return fmaf((float)a.step, (float)o + (float)a.shift, -(float)a.shift);
}

/* A window may reach past the padding, where the caller rounded the output size up: that part never counts. */
template <typename W> static __device__ __forceinline__ span<W> pool_span(const axis &a, int o)
{
    int start = o * a.stride - a.padding, end = min(start + a.kernel, a.in + a.padding);
    int first = max(start, 0), last = min(end, a.in);
    W weight = (W)1 / (W)(a.count_padding ? end - start : last - first);
    return {first, max(last - first, 0), weight, weight};
}

/* Bins that tile the input; adjacent ones share an input where the sizes do not divide. */
template <typename W> static __device__ __forceinline__ span<W> adaptive_span(const axis &a, int o)
{
    int first = scaled(o, a.in, a.out), end = scaled_up(o + 1, a.in, a.out);
    W weight = (W)1 / (W)(end - first);
    return {first, end - first, weight, weight};
}

/* Sizes that stay the same or double are taken literally, even if the user's factor was not exactly 1 or 2. */
template <typename W> static __device__ __forceinline__ span<W> nearest_span(const axis &a, int o)
{
    int at = (int)floorf((float)position(a, o, (W)0));
    if (a.out == a.in) at = o;
    if (a.out == 2 * a.in) at = o / 2;
    return {min(at, a.in - 1), 1, 1, 0};
}

template <typename W> static __device__ __forceinline__ span<W> bilinear_span(const axis &a, int o)
{
    W at = a.in == a.out ? (W)o : max(position(a, o, (W)0), (W)0);
    int first = min((int)at, a.in - 1);
    W second = min(at - (W)first, (W)1);
    if (second == 0 || first == a.in - 1) return {first, 1, 1, 0};
    return {first, 2, 1 - second, second};
}

template <typename W> static __device__ __forceinline__ span<W> span_of(const axis &a, int o)
{
    switch (a.kind) {
    case WINDOW_POOL: return pool_span<W>(a, o);
    case WINDOW_ADAPTIVE: return adaptive_span<W>(a, o);
    case WINDOW_NEAREST: return nearest_span<W>(a, o);
    default: return bilinear_span<W>(a, o);
    }
}

/* The first output whose window begins at input i or later. */
template <typename W> static __device__ int first_from(const axis &a, int i)
{
    int low = 0, high = a.out;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (span_of<W>(a, middle).first < i) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Outputs [from, to) among which are all that see input i. */
template <typename W> static __device__ __forceinline__ void outputs_of(const axis &a, int i, int *from, int *to)
{
    switch (a.kind) {
    case WINDOW_POOL: {
        int at = i + a.padding, reach = (a.kernel - 1) * a.dilation;
        *from = max(ceil_div(at - reach, a.stride), 0);
        *to = min(at / a.stride + 1, a.out);
        break;
    }
    case WINDOW_ADAPTIVE:
        *from = scaled(i, a.out, a.in);
        *to = scaled_up(i + 1, a.out, a.in);
        break;
    default: *from = first_from<W>(a, i - 1); *to = first_from<W>(a, i + 1);
    }
}

/* ---- operands ---- */

/* Strides of a picture. */
struct strides {
    int64_t item, channel, row, column;
};

static strides strides_of(const ls_operand *x)
{
    strides s = {0, 0, 0, 0};
    if (x) s.item = x->stride[0], s.channel = x->stride[1], s.row = x->stride[2], s.column = x->stride[3];
    return s;
}

static __device__ __forceinline__ int64_t offset(const strides &s, int64_t item, int64_t channel, int64_t row,
                                                 int64_t column)
{
    return item * s.item + channel * s.channel + row * s.row + column * s.column;
}

/* y is made of x: forward, or dx of dy. `where`: positions of maxima, of the smaller picture. */
struct windows {
    axis down, across;
    const void *x;
    void *y;
    int32_t *where;
    strides of_x, of_y, of_where;
    int64_t items; /* of y, and the rest */
    int channels, height, width;
    bool channels_inside; /* threads beside each other take neighbouring channels */
};

struct spot {
    int64_t item;
    int channel, row, column;
};

/* What of y a thread works on; GROUP channels at a time. */
template <int GROUP> static __device__ __forceinline__ spot spot_of(const windows &w, int64_t i)
{
    spot s;
    int groups = w.channels / GROUP;
    if (w.channels_inside) {
        s.channel = (int)(i % groups) * GROUP, i /= groups;
        s.column = (int)(i % w.width), i /= w.width;
        s.row = (int)(i % w.height);
        s.item = i / w.height;
    } else {
        s.column = (int)(i % w.width), i /= w.width;
        s.row = (int)(i % w.height), i /= w.height;
        s.channel = (int)(i % groups) * GROUP;
        s.item = i / groups;
    }
    return s;
}

/* One number or eight. */
template <typename T, int GROUP> struct numbers {
    eight<T> at;
    __device__ __forceinline__ void load(const T *from, bool there = true)
    {
        at.template load<true>(from, there ? 8 : 0);
    }
    __device__ __forceinline__ void store(T *to)
    {
        at.template store<true>(to, 8);
    }
};
template <typename T> struct numbers<T, 1> {
    struct {
        T element[1];
    } at;
    __device__ __forceinline__ void load(const T *from, bool there = true)
    {
        at.element[0] = there ? *from : as<T>(0.0f);
    }
    __device__ __forceinline__ void store(T *to)
    {
        *to = at.element[0];
    }
};

#define EACH_SPOT(s, GROUP)                                                                                            \
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x,                                                      \
                 all = w.items * (w.channels / GROUP) * w.height * w.width;                                            \
         i < all; i += (int64_t)gridDim.x * THREADS)                                                                   \
        if (spot s = spot_of<GROUP>(w, i); true)

/* ---- sums ---- */

template <typename T, int GROUP> __global__ void __launch_bounds__(THREADS) window_sum(windows w)
{
    typedef typename wide<T>::type W;
    EACH_SPOT(s, GROUP)
    {
        span<W> down = span_of<W>(w.down, s.row), across = span_of<W>(w.across, s.column);
        W sum[GROUP] = {};
        for (int r = 0; r < down.count; r++) {
            for (int c = 0; c < across.count; c++) {
                W weight = (r ? down.rest : down.lead) * (c ? across.rest : across.lead);
                numbers<T, GROUP> x;
                x.load((const T *)w.x + offset(w.of_x, s.item, s.channel, down.first + r, across.first + c));
#pragma unroll
                for (int k = 0; k < GROUP; k++) sum[k] += weight * as<W>(x.at.element[k]);
            }
        }
        numbers<T, GROUP> y;
#pragma unroll
        for (int k = 0; k < GROUP; k++) y.at.element[k] = as<T>(sum[k]);
        y.store((T *)w.y + offset(w.of_y, s.item, s.channel, s.row, s.column));
    }
}

template <typename T, int GROUP> __global__ void __launch_bounds__(THREADS) window_sum_grad(windows w)
{
    typedef typename wide<T>::type W;
    EACH_SPOT(s, GROUP)
    {
        int top, bottom, left, right;
        outputs_of<W>(w.down, s.row, &top, &bottom);
        outputs_of<W>(w.across, s.column, &left, &right);
        W sum[GROUP] = {};
        for (int row = top; row < bottom; row++) {
            span<W> down = span_of<W>(w.down, row);
            int r = s.row - down.first;
            if (r < 0 || r >= down.count) continue;
            for (int column = left; column < right; column++) {
                span<W> across = span_of<W>(w.across, column);
                int c = s.column - across.first;
                if (c < 0 || c >= across.count) continue;
                W weight = (r ? down.rest : down.lead) * (c ? across.rest : across.lead);
                numbers<T, GROUP> dy;
                dy.load((const T *)w.x + offset(w.of_x, s.item, s.channel, row, column));
#pragma unroll
                for (int k = 0; k < GROUP; k++) sum[k] += weight * as<W>(dy.at.element[k]);
            }
        }
        numbers<T, GROUP> dx;
#pragma unroll
        for (int k = 0; k < GROUP; k++) dx.at.element[k] = as<T>(sum[k]);
        dx.store((T *)w.y + offset(w.of_y, s.item, s.channel, s.row, s.column));
    }
}

/* ---- maxima ---- */

enum { TOGETHER = 3 }; /* columns of a window that are loaded at once */

/* The first of equals; the last NaN where there is one. */
template <typename T, int GROUP> __global__ void __launch_bounds__(THREADS) window_max(windows w)
{
    typedef typename wide<T>::type W;
    EACH_SPOT(s, GROUP)
    {
        int top = s.row * w.down.stride - w.down.padding, left = s.column * w.across.stride - w.across.padding;
        W best[GROUP];
        int32_t best_at[GROUP];
        bool any = false;
#pragma unroll
        for (int k = 0; k < GROUP; k++) best[k] = -(W)INFINITY, best_at[k] = -1;
        for (int r = 0; r < w.down.kernel; r++) {
            int row = top + r * w.down.dilation;
            if (row < 0 || row >= w.down.in) continue;
            const T *line = (const T *)w.x + offset(w.of_x, s.item, s.channel, row, 0);
            for (int c = 0; c < w.across.kernel; c += TOGETHER) {
                numbers<T, GROUP> x[TOGETHER];
                bool there[TOGETHER];
#pragma unroll
                for (int u = 0; u < TOGETHER; u++) {
                    int column = left + (c + u) * w.across.dilation;
                    there[u] = c + u < w.across.kernel && column >= 0 && column < w.across.in;
                    x[u].load(line + column * w.of_x.column, there[u]);
                }
#pragma unroll
                for (int u = 0; u < TOGETHER; u++) {
                    if (!there[u]) continue;
                    int32_t here = row * w.across.in + left + (c + u) * w.across.dilation;
#pragma unroll
                    for (int k = 0; k < GROUP; k++) {
                        W value = as<W>(x[u].at.element[k]);
                        bool better = value > best[k] || value != value;
                        best_at[k] = better || !any ? here : best_at[k];
                        best[k] = better ? value : best[k];
                    }
                    any = true;
                }
            }
        }
        numbers<T, GROUP> y;
#pragma unroll
        for (int k = 0; k < GROUP; k++) y.at.element[k] = as<T>(best[k]);
        y.store((T *)w.y + offset(w.of_y, s.item, s.channel, s.row, s.column));
        if (!w.where) continue;
        numbers<int32_t, GROUP> at;
#pragma unroll
        for (int k = 0; k < GROUP; k++) at.at.element[k] = best_at[k];
        at.store(w.where + offset(w.of_where, s.item, s.channel, s.row, s.column));
    }
}

/* With dilation some of the outputs looked at do not see the pixel, but then their position tells. */
template <typename T, int GROUP> __global__ void __launch_bounds__(THREADS) window_max_grad(windows w)
{
    typedef typename wide<T>::type W;
    EACH_SPOT(s, GROUP)
    {
        int top, bottom, left, right;
        outputs_of<W>(w.down, s.row, &top, &bottom);
        outputs_of<W>(w.across, s.column, &left, &right);
        int32_t here = s.row * w.width + s.column;
        W sum[GROUP] = {};
        for (int row = top; row < bottom; row++) {
            for (int column = left; column < right; column++) {
                numbers<T, GROUP> dy;
                numbers<int32_t, GROUP> at;
                dy.load((const T *)w.x + offset(w.of_x, s.item, s.channel, row, column));
                at.load(w.where + offset(w.of_where, s.item, s.channel, row, column));
#pragma unroll
                for (int k = 0; k < GROUP; k++) sum[k] += at.at.element[k] == here ? as<W>(dy.at.element[k]) : 0;
            }
        }
        numbers<T, GROUP> dx;
#pragma unroll
        for (int k = 0; k < GROUP; k++) dx.at.element[k] = as<T>(sum[k]);
        dx.store((T *)w.y + offset(w.of_y, s.item, s.channel, s.row, s.column));
    }
}

/* ---- launches ---- */

static bool channels_adjacent(const ls_operand *x)
{
    return !x || x->stride[1] == 1 || x->dim[1] == 1;
}

/* Do eight channels start at a multiple of 16 bytes everywhere? */
static bool by_eights(const ls_operand *x)
{
    if (!x) return true;
    if (x->dim[1] % 8 || x->stride[1] != 1 || !can_load_eight(x->data) || x->dtype == LS_F64) return false;
    for (int i = 0; i < 4; i++)
        if (i != 1 && x->dim[i] > 1 && x->stride[i] % 8) return false;
    return true;
}

enum window_work { SUM, SUM_GRAD, MAX, MAX_GRAD };

template <typename T, int GROUP>
static void launch(const cuda_device *d, cudaStream_t stream, window_work work, const windows &w)
{
    int64_t threads = w.items * (w.channels / GROUP) * w.height * w.width;
    int64_t blocks = (threads + THREADS - 1) / THREADS, most = 32 * (int64_t)d->processors;
    unsigned grid = (unsigned)(blocks < most ? blocks : most);
    if (work == SUM) window_sum<T, GROUP><<<grid, THREADS, 0, stream>>>(w);
    else if (work == SUM_GRAD) window_sum_grad<T, GROUP><<<grid, THREADS, 0, stream>>>(w);
    else if (work == MAX) window_max<T, GROUP><<<grid, THREADS, 0, stream>>>(w);
    else window_max_grad<T, GROUP><<<grid, THREADS, 0, stream>>>(w);
}

/* axes: kind, and for pools and resizing their numbers; sizes are filled in here. */
static ls_status run(cuda_device *d, cudaStream_t stream, const ls_call *call, window_work work, const axis axes[2],
                     const ls_operand *where, ls_message *why)
{
    const ls_operand *x = call->in[0], *y = call->out[0];
    if (!cuda_numel(y)) return LS_OK;
    bool gradient = work == SUM_GRAD || work == MAX_GRAD;
    const ls_operand *picture = gradient ? y : x, *seen = gradient ? x : y;
    for (int i = 1; i < 4; i++)
        if (x->dim[i] >= 1 << 30 || y->dim[i] >= 1 << 30) return cuda_on_host(d, stream, call, why);
    if (picture->dim[2] * picture->dim[3] > INT32_MAX && where)
        return cuda_refuse(why, LS_ERR_UNSUPPORTED, "more than 2^31 - 1 pixels in a picture");
    windows w = {};
    w.down = axes[0], w.across = axes[1];
    w.down.in = (int)picture->dim[2], w.across.in = (int)picture->dim[3];
    w.down.out = (int)seen->dim[2], w.across.out = (int)seen->dim[3];
    w.x = x->data, w.y = y->data, w.where = where ? (int32_t *)where->data : NULL;
    w.of_x = strides_of(x), w.of_y = strides_of(y), w.of_where = strides_of(where);
    w.items = y->dim[0], w.channels = (int)y->dim[1], w.height = (int)y->dim[2], w.width = (int)y->dim[3];
    w.channels_inside = channels_adjacent(x) && channels_adjacent(y) && channels_adjacent(where);
    bool eights = by_eights(x) && by_eights(y) && by_eights(where);
    switch (y->dtype) {
    case LS_F16: (eights ? launch<f16, 8> : launch<f16, 1>)(d, stream, work, w); break;
    case LS_BF16: (eights ? launch<bf16, 8> : launch<bf16, 1>)(d, stream, work, w); break;
    case LS_F32: (eights ? launch<float, 8> : launch<float, 1>)(d, stream, work, w); break;
    case LS_F64: launch<double, 1>(d, stream, work, w); break;
    default: return cuda_refuse(why, LS_ERR_UNSUPPORTED, "no kernel for this number type");
    }
    return CUDA_LAUNCHED(why);
}

/* ---- the rows ---- */

static void pool_axes(const ls_call *call, axis axes[2])
{
    const ls_window *window = &call->attrs.pool.window;
    for (int i = 0; i < 2; i++) {
        axes[i] = {};
        axes[i].kind = WINDOW_POOL;
        axes[i].kernel = (int)window->kernel[i], axes[i].stride = (int)window->stride[i];
        axes[i].padding = (int)window->padding[i], axes[i].dilation = (int)window->dilation[i];
        axes[i].count_padding = call->attrs.pool.count_include_pad;
    }
}

extern "C" ls_status cuda_max_pool2d(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    axis axes[2];
    pool_axes(call, axes);
    return run(d, stream, call, MAX, axes, call->n_out > 1 ? call->out[1] : NULL, why);
}

extern "C" ls_status cuda_max_pool2d_grad(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    axis axes[2];
    pool_axes(call, axes);
    return run(d, stream, call, MAX_GRAD, axes, call->in[1], why);
}

extern "C" ls_status cuda_avg_pool2d(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    axis axes[2];
    pool_axes(call, axes);
    return run(d, stream, call, SUM, axes, NULL, why);
}

extern "C" ls_status cuda_avg_pool2d_grad(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    axis axes[2];
    pool_axes(call, axes);
    return run(d, stream, call, SUM_GRAD, axes, NULL, why);
}

static ls_status adaptive(cuda_device *d, cudaStream_t stream, const ls_call *call, window_work work, ls_message *why)
{
    axis axes[2] = {};
    axes[0].kind = axes[1].kind = WINDOW_ADAPTIVE;
    return run(d, stream, call, work, axes, NULL, why);
}

extern "C" ls_status cuda_adaptive_avg_pool2d(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return adaptive(d, stream, call, SUM, why);
}

extern "C" ls_status cuda_adaptive_avg_pool2d_grad(cuda_device *d, cudaStream_t stream, const ls_call *call,
                                                   ls_message *why)
{
    return adaptive(d, stream, call, SUM_GRAD, why);
}

static ls_status resize(cuda_device *d, cudaStream_t stream, const ls_call *call, window_work work, ls_message *why)
{
    axis axes[2] = {};
    bool bilinear = call->attrs.interpolate.bilinear, corners = bilinear && call->attrs.interpolate.align_corners;
    const ls_operand *picture = work == SUM ? call->in[0] : call->out[0];
    const ls_operand *resized = work == SUM ? call->out[0] : call->in[0];
    for (int i = 0; i < 2; i++) {
        int64_t in = picture->dim[2 + i], out = resized->dim[2 + i];
        axes[i].kind = bilinear ? WINDOW_BILINEAR : WINDOW_NEAREST;
        axes[i].step = call->attrs.interpolate.scale[i];
        if (corners) axes[i].step = out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
        axes[i].shift = bilinear && !corners ? 0.5 : 0;
    }
    return run(d, stream, call, work, axes, NULL, why);
}

extern "C" ls_status cuda_interpolate(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return resize(d, stream, call, SUM, why);
}

extern "C" ls_status cuda_interpolate_grad(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return resize(d, stream, call, SUM_GRAD, why);
}
