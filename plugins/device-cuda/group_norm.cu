/* group_norm.cu - the rows group_norm and group_norm_grad.
 *
 * A group is some channels of one sample with all their pixels; a block works on one. Pictures stay in the order they
 * have in memory, planes of channels or pixels with adjacent channels; operands in another order are copied. */
#include "channels.cuh"
#include "layout.h"

#include <math.h>

enum { THREADS = 256, LANES = 32, WARPS = THREADS / LANES };

struct groups {
    int64_t samples, channels, count, each, pixels; /* groups of `each` channels */
    bool inside;                                    /* channels are adjacent */
};

static groups groups_of(const ls_operand *x, int64_t count)
{
    groups g = {x->dim[0], x->dim[1], count, count ? x->dim[1] / count : 0, 1, false};
    g.inside = x->ndim > 2 && x->stride[1] == 1 && x->dim[1] > 1;
    for (int i = 2; i < x->ndim; i++) g.pixels *= x->dim[i];
    return g;
}

/* Element `i` of group `row`, and its channel. */
static __device__ __forceinline__ int64_t element(const groups &g, int64_t row, int64_t i, int64_t *channel)
{
    int64_t sample = row / g.count, first = row % g.count * g.each;
    if (g.inside) {
        *channel = first + i % g.each;
        return (sample * g.pixels + i / g.each) * g.channels + *channel;
    }
    *channel = first + i / g.pixels;
    return (sample * g.channels + first) * g.pixels + i;
}

template <typename W> static __device__ W block_sum(W x, W *shared)
{
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % LANES == 0) shared[threadIdx.x / LANES] = x;
    __syncthreads();
    W total = 0;
    for (int i = 0; i < WARPS; i++) total += shared[i];
    return total;
}

/* ---- forward ---- */

template <typename T>
__global__ void __launch_bounds__(THREADS) group_forward(groups g, const T *x, T *y, channels weight, channels bias,
                                                         void *mean_to, void *rstd_to, double epsilon)
{
    typedef typename wide<T>::type W;
    __shared__ W shared[WARPS];
    int64_t row = blockIdx.x, n = g.each * g.pixels, channel_of;
    W pivot = as<W>(x[element(g, row, 0, &channel_of)]), sum = 0, squares = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        W away = as<W>(x[element(g, row, i, &channel_of)]) - pivot;
        sum += away;
        squares += away * away;
    }
    double total = block_sum(sum, shared), m2 = block_sum(squares, shared);
    double mean = (double)pivot + total / (double)n, var = (m2 - total * total / (double)n) / (double)n;
    if (var < 0) var = 0; /* by rounding; NaN stays */
    double rstd = 1 / sqrt(var + epsilon);
    if (threadIdx.x == 0 && mean_to) ((W *)mean_to)[row] = (W)mean;
    if (threadIdx.x == 0 && rstd_to) ((W *)rstd_to)[row] = (W)rstd;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        int64_t at = element(g, row, i, &channel_of);
        W gain = (W)(rstd * channel(weight, channel_of, 1));
        W shift = (W)(channel(bias, channel_of, 0) - mean * (double)gain);
        y[at] = as<T>(as<W>(x[at]) * gain + shift);
    }
}

/* ---- backward ---- */

/* sum [N,C] = totals of dy, dot [N,C] = totals of dy (x - mean): a block takes 32 channels of a sample. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    group_totals(groups g, const T *dy, const T *x, const void *mean, void *sums, void *dots)
{
    typedef typename wide<T>::type W;
    __shared__ W shared[2][WARPS][LANES];
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    int64_t sample = blockIdx.y, first = (int64_t)blockIdx.x * LANES;
    if (!g.inside) { /* a warp takes a channel, its lanes the pixels */
        for (int64_t c = first + warp; c < first + LANES && c < g.channels; c += WARPS) {
            W center = ((const W *)mean)[sample * g.count + c / g.each], sum = 0, dot = 0;
            int64_t plane = (sample * g.channels + c) * g.pixels;
            for (int64_t i = lane; i < g.pixels; i += LANES) {
                W given = as<W>(dy[plane + i]);
                sum += given;
                dot += given * (as<W>(x[plane + i]) - center);
            }
            sum = warp_sum(sum), dot = warp_sum(dot);
            if (lane == 0) {
                ((W *)sums)[sample * g.channels + c] = sum;
                ((W *)dots)[sample * g.channels + c] = dot;
            }
        }
        return;
    }
    int64_t c = first + lane;
    W sum = 0, dot = 0;
    if (c < g.channels) {
        W center = ((const W *)mean)[sample * g.count + c / g.each];
        for (int64_t i = warp; i < g.pixels; i += WARPS) {
            int64_t at = (sample * g.pixels + i) * g.channels + c;
            W given = as<W>(dy[at]);
            sum += given;
            dot += given * (as<W>(x[at]) - center);
        }
    }
    shared[0][warp][lane] = sum, shared[1][warp][lane] = dot;
    __syncthreads();
    if (warp || c >= g.channels) return;
    for (int i = 1; i < WARPS; i++) sum += shared[0][i][lane], dot += shared[1][i][lane];
    ((W *)sums)[sample * g.channels + c] = sum;
    ((W *)dots)[sample * g.channels + c] = dot;
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    group_backward(groups g, const T *dy, const T *x, T *dx, channels weight, const void *means, const void *rstds,
                   const void *sums, const void *dots)
{
    typedef typename wide<T>::type W;
    int64_t row = blockIdx.x, n = g.each * g.pixels, first = row % g.count * g.each;
    int64_t own = row / g.count * g.channels + first; /* in sums and dots */
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < g.each; i++) { /* few, and every thread of the block reads the same */
        double factor = channel(weight, first + i, 1);
        sum += factor * (double)((const W *)sums)[own + i];
        dot += factor * (double)((const W *)dots)[own + i];
    }
    double mean = (double)((const W *)means)[row], rstd = (double)((const W *)rstds)[row];
    double slope = -rstd * rstd * rstd * dot / (double)n, shift = -rstd * sum / (double)n - slope * mean;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        int64_t channel_of, at = element(g, row, i, &channel_of);
        W scale = (W)(rstd * channel(weight, channel_of, 1));
        dx[at] = as<T>(as<W>(dy[at]) * scale + as<W>(x[at]) * (W)slope + (W)shift);
    }
}

template <typename W>
__global__ void group_vectors(groups g, const void *rstds, const void *sums, const void *dots, channels dweight,
                              channels dbias, int32_t accumulate)
{
    int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= g.channels) return;
    double weight = accumulate & 2 ? channel(dweight, c, 0) : 0, bias = accumulate & 4 ? channel(dbias, c, 0) : 0;
    for (int64_t i = 0; i < g.samples; i++) {
        weight += (double)((const W *)dots)[i * g.channels + c] * (double)((const W *)rstds)[i * g.count + c / g.each];
        bias += (double)((const W *)sums)[i * g.channels + c];
    }
    set_channel(dweight, c, weight);
    set_channel(dbias, c, bias);
}

/* ---- the rows ---- */

static cuda_order order_of(const groups &g)
{
    return g.inside ? CUDA_CHANNELS_LAST : CUDA_ROW_MAJOR;
}

static ls_status forward(cuda_device *d, cudaStream_t stream, const ls_call *call, cuda_form form[2], ls_message *why)
{
    const ls_operand *x = call->in[0], *y = call->out[0], *mean = call->out[1], *rstd = call->out[2];
    groups g = groups_of(x, call->attrs.norm.groups);
    CUDA_TRY(cuda_form_in(d, stream, x, x->dtype, order_of(g), &form[0], why));
    CUDA_TRY(cuda_form_out(d, y, x->dtype, order_of(g), &form[1], why));
    unsigned blocks = (unsigned)(g.samples * g.count);
    CUDA_FLOATING(x->dtype, why,
                  group_forward<T><<<blocks, THREADS, 0, stream>>>(g, (const T *)form[0].view.data,
                                                                   (T *)form[1].view.data, channels_of(call->in[1]),
                                                                   channels_of(call->in[2]), mean ? mean->data : NULL,
                                                                   rstd ? rstd->data : NULL, call->attrs.norm.epsilon));
    CUDA_TRY(CUDA_LAUNCHED(why));
    return cuda_form_store(d, stream, &form[1], y, why);
}

extern "C" ls_status cuda_group_norm(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    if (!cuda_numel(call->in[0])) return LS_OK;
    cuda_form form[2] = {};
    ls_status status = forward(d, stream, call, form, why);
    for (int i = 0; i < 2; i++) cuda_form_end(d, &form[i]);
    return status;
}

template <typename T>
static ls_status backward_as(cudaStream_t stream, const ls_call *call, const groups &g, const cuda_form form[3],
                             void *space, ls_message *why)
{
    typedef typename wide<T>::type W;
    const T *dy = (const T *)form[0].view.data, *x = (const T *)form[1].view.data;
    const void *mean = call->in[2]->data, *rstd = call->in[3]->data;
    W *sums = (W *)space, *dots = sums + g.samples * g.channels;
    dim3 tiles((unsigned)((g.channels + LANES - 1) / LANES), (unsigned)g.samples);
    group_totals<T><<<tiles, THREADS, 0, stream>>>(g, dy, x, mean, sums, dots);
    if (call->out[0])
        group_backward<T><<<(unsigned)(g.samples * g.count), THREADS, 0, stream>>>(
            g, dy, x, (T *)form[2].view.data, channels_of(call->in[4]), mean, rstd, sums, dots);
    if (call->out[1] || call->out[2])
        group_vectors<W><<<(unsigned)((g.channels + THREADS - 1) / THREADS), THREADS, 0, stream>>>(
            g, rstd, sums, dots, channels_of(call->out[1]), channels_of(call->out[2]), call->attrs.norm.accumulate);
    return CUDA_LAUNCHED(why);
}

static ls_status backward(cuda_device *d, cudaStream_t stream, const ls_call *call, cuda_form form[3],
                          ls_workspace *space, ls_message *why)
{
    const ls_operand *dy = call->in[0], *x = call->in[1], *dx = call->out[0];
    groups g = groups_of(x, call->attrs.norm.groups);
    if (g.samples > 65535) return cuda_on_host(d, stream, call, why);
    CUDA_TRY(cuda_form_in(d, stream, dy, x->dtype, order_of(g), &form[0], why));
    CUDA_TRY(cuda_form_in(d, stream, x, x->dtype, order_of(g), &form[1], why));
    if (dx) CUDA_TRY(cuda_form_out(d, dx, x->dtype, order_of(g), &form[2], why));
    CUDA_TRY(cuda_take(d, (size_t)(g.samples * g.channels) * 2 * sizeof(double), space, why));
    CUDA_FLOATING(x->dtype, why, CUDA_TRY(backward_as<T>(stream, call, g, form, space->address, why)));
    return dx ? cuda_form_store(d, stream, &form[2], dx, why) : LS_OK;
}

extern "C" ls_status cuda_group_norm_grad(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    if (!cuda_numel(call->in[1])) return cuda_on_host(d, stream, call, why); /* vectors become 0 */
    cuda_form form[3] = {};
    ls_workspace space = {};
    ls_status status = backward(d, stream, call, form, &space, why);
    for (int i = 0; i < 3; i++) cuda_form_end(d, &form[i]);
    cuda_give(d, space);
    return status;
}
