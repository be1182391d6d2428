/* conv_finish.cu - the pass after a convolution: bias, norm by running statistics, residual, ReLU, addition to what the
 * output holds, conversion of half gradients of weights to f32. */
#include "channels.cuh"
#include "conv.h"
#include "eight.cuh"
#include "layout.h"

enum { THREADS = 256 };

/* Strides of dimensions 0, 2, 3 and 1: in the order in which memory that has its channels last is walked. */
struct walk {
    int64_t item, row, column, channel;
};

static walk walk_of(const ls_operand *x)
{
    walk w = {0, 0, 0, 0};
    if (x) w.item = x->stride[0], w.row = x->stride[2], w.column = x->stride[3], w.channel = x->stride[1];
    return w;
}

struct finish {
    int64_t n, channels, height, width;
    const void *sums, *residual;
    void *y;
    walk to, beside;           /* of y and of the residual */
    const void *scale, *shift; /* [channels], of the compute type; NULL: 1 and 0 */
    bool relu, accumulate;
};

/* ---- coefficients of channels ---- */

struct coefficients {
    channels bias, weight, shift, mean, var;
    double epsilon;
    void *scale_to, *shift_to;
};

template <typename S> __global__ void make_coefficients(coefficients c, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double scale = 1, shift = channel(c.bias, i, 0);
    if (c.mean.data) {
        scale = channel(c.weight, i, 1) / sqrt(channel(c.var, i, 1) + c.epsilon);
        shift = (shift - channel(c.mean, i, 0)) * scale + channel(c.shift, i, 0);
    }
    ((S *)c.scale_to)[i] = (S)scale;
    ((S *)c.shift_to)[i] = (S)shift;
}

/* ---- the pass ---- */

template <typename S> static __device__ __forceinline__ S finished(const finish &f, S value, int64_t channel)
{
    return f.scale ? value * ((const S *)f.scale)[channel] + ((const S *)f.shift)[channel] : value;
}

/* Any layout of y and of the residual, one element a thread. */
template <typename From, typename To> __global__ void __launch_bounds__(THREADS) finish_strided(finish f)
{
    typedef typename wide<From>::type S;
    const From *sums = (const From *)f.sums;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < f.n; i += (int64_t)gridDim.x * THREADS) {
        int64_t channel = i % f.channels, pixel = i / f.channels, column = pixel % f.width, line = pixel / f.width;
        int64_t row = line % f.height, item = line / f.height;
        To *y = (To *)f.y + item * f.to.item + row * f.to.row + column * f.to.column + channel * f.to.channel;
        S value = finished(f, as<S>(sums[i]), channel);
        if (f.residual)
            value += as<S>(((const To *)f.residual)[item * f.beside.item + row * f.beside.row +
                                                    column * f.beside.column + channel * f.beside.channel]);
        if (f.relu && value < 0) value = 0;
        if (f.accumulate) value += as<S>(*y);
        *y = as<To>(value);
    }
}

/* Everything channels last without gaps, and channels a multiple of eight where coefficients are needed. */
template <typename From, typename To> __global__ void __launch_bounds__(THREADS) finish_dense(finish f)
{
    typedef typename wide<From>::type S;
    int64_t eights = (f.n + 7) / 8;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < eights; i += (int64_t)gridDim.x * THREADS) {
        int valid = f.n - i * 8 > 8 ? 8 : (int)(f.n - i * 8);
        int64_t channel = f.scale ? i * 8 % f.channels : 0;
        eight<From> in;
        eight<To> more, before, out;
        if (valid == 8) {
            in.template load<true>((const From *)f.sums + i * 8, 8);
            if (f.residual) more.template load<true>((const To *)f.residual + i * 8, 8);
            if (f.accumulate) before.template load<true>((const To *)f.y + i * 8, 8);
        } else {
            in.template load<false>((const From *)f.sums + i * 8, valid);
            if (f.residual) more.template load<false>((const To *)f.residual + i * 8, valid);
            if (f.accumulate) before.template load<false>((const To *)f.y + i * 8, valid);
        }
#pragma unroll
        for (int k = 0; k < 8; k++) {
            S value = finished(f, as<S>(in.element[k]), channel + k);
            if (f.residual) value += as<S>(more.element[k]);
            if (f.relu && value < 0) value = 0;
            if (f.accumulate) value += as<S>(before.element[k]);
            out.element[k] = as<To>(value);
        }
        if (valid == 8) out.template store<true>((To *)f.y + i * 8, 8);
        else out.template store<false>((To *)f.y + i * 8, valid);
    }
}

template <typename From, typename To>
static ls_status launch(const cuda_device *d, cudaStream_t stream, const finish &f, bool dense, ls_message *why)
{
    int64_t work = dense ? (f.n + 7) / 8 : f.n, blocks = (work + THREADS - 1) / THREADS;
    int64_t most = 16 * (int64_t)d->processors;
    unsigned grid = (unsigned)(blocks < most ? blocks : most);
    if (dense) finish_dense<From, To><<<grid, THREADS, 0, stream>>>(f);
    else finish_strided<From, To><<<grid, THREADS, 0, stream>>>(f);
    return CUDA_LAUNCHED(why);
}

static ls_status launch_by_type(const cuda_device *d, cudaStream_t stream, ls_dtype from, ls_dtype to, const finish &f,
                                bool dense, ls_message *why)
{
    if (from == LS_F64 && to == LS_F64) return launch<double, double>(d, stream, f, dense, why);
    if (from == LS_F32 && to == LS_F32) return launch<float, float>(d, stream, f, dense, why);
    if (from == LS_F16 && to == LS_F16) return launch<f16, f16>(d, stream, f, dense, why);
    if (from == LS_F16 && to == LS_F32) return launch<f16, float>(d, stream, f, dense, why);
    if (from == LS_BF16 && to == LS_BF16) return launch<bf16, bf16>(d, stream, f, dense, why);
    if (from == LS_BF16 && to == LS_F32) return launch<bf16, float>(d, stream, f, dense, why);
    return cuda_refuse(why, LS_ERR_UNSUPPORTED, "a convolution in this number type with a result in that one");
}

static bool may_be_dense(const finish &f, const ls_operand *residual, const ls_operand *y)
{
    if (!cuda_has_order(y, CUDA_CHANNELS_LAST) || (f.scale && f.channels % 8)) return false;
    if (residual && !cuda_has_order(residual, CUDA_CHANNELS_LAST)) return false;
    return can_load_eight(f.sums) && can_load_eight(f.y) && can_load_eight(f.residual);
}

ls_status conv_finish(cuda_device *d, cudaStream_t stream, const ls_operand *sums, const conv_finish_with *with,
                      const ls_operand *y, ls_message *why)
{
    finish f = {};
    f.n = cuda_numel(y);
    f.channels = y->dim[1], f.height = y->dim[2], f.width = y->dim[3];
    f.sums = sums->data, f.y = y->data, f.to = walk_of(y), f.beside = walk_of(with->residual);
    f.residual = with->residual ? with->residual->data : NULL;
    f.relu = with->relu, f.accumulate = with->accumulate;
    ls_workspace space = {};
    if (with->bias || with->mean) {
        size_t vector = (size_t)f.channels * 8;
        CUDA_TRY(cuda_take(d, 2 * vector, &space, why));
        coefficients c = {channels_of(with->bias), channels_of(with->weight),     channels_of(with->shift),
                          channels_of(with->mean), channels_of(with->var),        with->epsilon,
                          space.address,           (char *)space.address + vector};
        unsigned blocks = (unsigned)((f.channels + THREADS - 1) / THREADS);
        if (sums->dtype == LS_F64) make_coefficients<double><<<blocks, THREADS, 0, stream>>>(c, f.channels);
        else make_coefficients<float><<<blocks, THREADS, 0, stream>>>(c, f.channels);
        f.scale = c.scale_to, f.shift = c.shift_to;
    }
    ls_status status = launch_by_type(d, stream, sums->dtype, y->dtype, f, may_be_dense(f, with->residual, y), why);
    cuda_give(d, space);
    return status;
}
