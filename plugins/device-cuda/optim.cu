/* optim.cu - operators that update in place: optimiser steps, and the passes over gradients that clipping and loss
 * scaling make. The arithmetic, in its order, is that of src/kernels/optim.h.
 *
 * Optimisers lay parameters out in large blocks, so one launch does most of a model; it is bound by memory. */
#include "vector.cuh"

#include <math.h>

/* ---- Operands ---------------------------------------------------------------------------------------------------- */

/* Elements in memory order, of a type known at run time. */
typedef struct numbers {
    void *data; /* NULL: absent */
    ls_dtype dtype;
} numbers;

template <typename W> static __device__ __forceinline__ W get(const numbers &x, int64_t i)
{
    switch (x.dtype) {
    case LS_F16: return as<W>(((const f16 *)x.data)[i]);
    case LS_BF16: return as<W>(((const bf16 *)x.data)[i]);
    case LS_F64: return (W)((const double *)x.data)[i];
    default: return (W)((const float *)x.data)[i];
    }
}

template <typename W> static __device__ __forceinline__ void put(const numbers &x, int64_t i, W value)
{
    switch (x.dtype) {
    case LS_F16: ((f16 *)x.data)[i] = as<f16>(value); break;
    case LS_BF16: ((bf16 *)x.data)[i] = as<bf16>(value); break;
    case LS_F64: ((double *)x.data)[i] = (double)value; break;
    default: ((float *)x.data)[i] = (float)value; break;
    }
}

static numbers numbers_of(const ls_operand *x)
{
    numbers n = {x ? x->data : NULL, x ? x->dtype : LS_F32};
    return n;
}

static bool is_floating(ls_dtype dtype)
{
    return dtype == LS_F16 || dtype == LS_BF16 || dtype == LS_F32 || dtype == LS_F64;
}

/* Does x fill one piece of memory, in whatever order of its dimensions? */
static bool fills_memory(const ls_operand *x)
{
    int64_t expected = 1, numel = cuda_numel(x);
    while (expected < numel) {
        int next = -1;
        for (int i = 0; i < x->ndim && next < 0; i++)
            if (x->dim[i] > 1 && x->stride[i] == expected) next = i;
        if (next < 0) return false;
        expected *= x->dim[next];
    }
    return true;
}

/* Can these operands (NULL: absent) be walked together as they lie in memory? */
static bool lie_alike(const ls_operand *const *operand, int count)
{
    const ls_operand *first = operand[0];
    for (int k = 0; k < count; k++) {
        const ls_operand *x = operand[k];
        if (!x) continue;
        if (!fills_memory(x) || !is_floating(x->dtype)) return false;
        for (int i = 0; i < first->ndim; i++)
            if (first->dim[i] > 1 && x->stride[i] != first->stride[i]) return false;
    }
    return true;
}

static unsigned grid_for(const cuda_device *d, int64_t n, int64_t per_block, int64_t per_processor)
{
    int64_t blocks = (n + per_block - 1) / per_block, most = d->processors * per_processor;
    return (unsigned)(blocks < most ? blocks : most);
}

/* ---- Rules ------------------------------------------------------------------------------------------------------- */

enum { MOST_MOMENTS = 3 };

/* A parameter and its moments, of which a rule has MOMENTS. */
template <typename W> struct state {
    W p, m[MOST_MOMENTS];
};

template <typename W> struct adam {
    static const int MOMENTS = 2;
    W sign, l2_decay, keep, blend1, beta2, blend2, unbias2, epsilon, step;

    static adam of(const ls_attrs *attrs)
    {
        double lr = attrs->adam.lr, decay = attrs->adam.weight_decay;
        adam a;
        a.sign = attrs->adam.maximize ? -1 : 1;
        a.l2_decay = (W)(attrs->adam.decoupled ? 0 : decay);
        a.keep = (W)(attrs->adam.decoupled ? 1 - lr * decay : 1);
        a.blend1 = (W)(1 - attrs->adam.beta1);
        a.beta2 = (W)attrs->adam.beta2;
        a.blend2 = (W)(1 - attrs->adam.beta2);
        a.unbias2 = (W)(1 / sqrt(attrs->adam.bias2));
        a.epsilon = (W)attrs->adam.epsilon;
        a.step = (W)(lr / attrs->adam.bias1);
        return a;
    }

    __device__ __forceinline__ void update(state<W> &s, W g) const
    {
        W d = fma(l2_decay, s.p, g * sign);
        s.m[0] = fma(blend1, d - s.m[0], s.m[0]);
        s.m[1] = fma(blend2 * d, d, s.m[1] * beta2);
        W denominator = sqrt(s.m[1]) * unbias2 + epsilon;
        s.p = s.p * keep - step * s.m[0] / denominator;
    }
};

template <typename W, bool MOMENTUM> struct sgd {
    static const int MOMENTS = MOMENTUM;
    W sign, l2_decay, momentum, blend, step;
    bool first, nesterov;

    static sgd of(const ls_attrs *attrs)
    {
        sgd s;
        s.sign = attrs->sgd.maximize ? -1 : 1;
        s.l2_decay = (W)attrs->sgd.weight_decay;
        s.momentum = (W)attrs->sgd.momentum;
        s.blend = (W)(1 - attrs->sgd.dampening);
        s.step = (W)attrs->sgd.lr;
        s.first = attrs->sgd.first;
        s.nesterov = attrs->sgd.nesterov;
        return s;
    }

    __device__ __forceinline__ void update(state<W> &s, W g) const
    {
        W d = fma(l2_decay, s.p, g * sign);
        if (MOMENTUM) {
            s.m[0] = first ? d : fma(blend, d, s.m[0] * momentum);
            d = nesterov ? fma(momentum, s.m[0], d) : s.m[0];
        }
        s.p = fma(-step, d, s.p);
    }
};

/* Moments: the mean of squares; the mean of gradients, if centered; momentum, if there is any. */
template <typename W, bool CENTERED, bool MOMENTUM> struct rmsprop {
    static const int MOMENTS = 1 + CENTERED + MOMENTUM;
    W sign, l2_decay, alpha, blend, epsilon, momentum, step;

    static rmsprop of(const ls_attrs *attrs)
    {
        rmsprop r;
        r.sign = attrs->rmsprop.maximize ? -1 : 1;
        r.l2_decay = (W)attrs->rmsprop.weight_decay;
        r.alpha = (W)attrs->rmsprop.alpha;
        r.blend = (W)(1 - attrs->rmsprop.alpha);
        r.epsilon = (W)attrs->rmsprop.epsilon;
        r.momentum = (W)attrs->rmsprop.momentum;
        r.step = (W)attrs->rmsprop.lr;
        return r;
    }

    __device__ __forceinline__ void update(state<W> &s, W g) const
    {
        W d = fma(l2_decay, s.p, g * sign), spread = s.m[0] = fma(blend * d, d, s.m[0] * alpha);
        if (CENTERED) {
            s.m[1] = fma(blend, d - s.m[1], s.m[1]);
            spread = fma(-s.m[1], s.m[1], spread);
            if (spread < 0) spread = 0; /* by rounding, of gradients that do not change */
        }
        d /= sqrt(spread) + epsilon;
        if (MOMENTUM) d = s.m[1 + CENTERED] = fma(s.m[1 + CENTERED], momentum, d);
        s.p = fma(-step, d, s.p);
    }
};

/* Its moment: the sum of squares. */
template <typename W> struct adagrad {
    static const int MOMENTS = 1;
    W sign, l2_decay, epsilon, step;

    static adagrad of(const ls_attrs *attrs)
    {
        adagrad a;
        a.sign = attrs->adagrad.maximize ? -1 : 1;
        a.l2_decay = (W)attrs->adagrad.weight_decay;
        a.epsilon = (W)attrs->adagrad.epsilon;
        a.step = (W)attrs->adagrad.lr;
        return a;
    }

    __device__ __forceinline__ void update(state<W> &s, W g) const
    {
        W d = fma(l2_decay, s.p, g * sign);
        s.m[0] = fma(d, d, s.m[0]);
        s.p -= step * d / (sqrt(s.m[0]) + epsilon);
    }
};

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

typedef struct step_operands {
    numbers g, p, m[MOST_MOMENTS], half;
    numbers found;  /* one number: nothing is done unless it is 0 */
    numbers factor; /* one number that gradients are multiplied by */
    int64_t n;
} step_operands;

/* Parameters, moments and gradients of f32, four at a time; 16-byte addresses. */
template <typename Rule> static __global__ void __launch_bounds__(256) step_flat(step_operands o, Rule rule)
{
    if (o.found.data && get<float>(o.found, 0) != 0) return;
    if (o.factor.data) rule.sign *= get<float>(o.factor, 0);
    const int N = 4;
    float *p = (float *)o.p.data;
    const float *g = (const float *)o.g.data;
    int64_t step = (int64_t)gridDim.x * 256 * N;
    for (int64_t i = ((int64_t)blockIdx.x * 256 + threadIdx.x) * N; i < o.n; i += step) {
        if (i + N > o.n) { /* the last few */
            for (int64_t k = i; k < o.n; k++) {
                state<float> s = {p[k]};
#pragma unroll
                for (int j = 0; j < Rule::MOMENTS; j++) s.m[j] = ((const float *)o.m[j].data)[k];
                rule.update(s, g[k]);
                p[k] = s.p;
#pragma unroll
                for (int j = 0; j < Rule::MOMENTS; j++) ((float *)o.m[j].data)[k] = s.m[j];
                if (o.half.data) put(o.half, k, s.p);
            }
            return;
        }
        float ps[N], gs[N], ms[MOST_MOMENTS][N];
        load_vector<float, N>(ps, p + i);
        load_vector<float, N>(gs, g + i);
#pragma unroll
        for (int j = 0; j < Rule::MOMENTS; j++) load_vector<float, N>(ms[j], (const float *)o.m[j].data + i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            state<float> s = {ps[k]};
#pragma unroll
            for (int j = 0; j < Rule::MOMENTS; j++) s.m[j] = ms[j][k];
            rule.update(s, gs[k]);
            ps[k] = s.p;
#pragma unroll
            for (int j = 0; j < Rule::MOMENTS; j++) ms[j][k] = s.m[j];
        }
        store_vector<float, N>(p + i, ps);
#pragma unroll
        for (int j = 0; j < Rule::MOMENTS; j++) store_vector<float, N>((float *)o.m[j].data + i, ms[j]);
        if (o.half.data && o.half.dtype == LS_BF16) store_vector<bf16, N>((bf16 *)o.half.data + i, ps);
        else if (o.half.data) store_vector<f16, N>((f16 *)o.half.data + i, ps);
    }
}

/* Any floating types. */
template <typename W, typename Rule> static __global__ void __launch_bounds__(256) step_each(step_operands o, Rule rule)
{
    if (o.found.data && get<float>(o.found, 0) != 0) return;
    if (o.factor.data) rule.sign *= get<W>(o.factor, 0);
    for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x; i < o.n; i += (int64_t)gridDim.x * 256) {
        state<W> s = {get<W>(o.p, i)};
#pragma unroll
        for (int j = 0; j < Rule::MOMENTS; j++) s.m[j] = get<W>(o.m[j], i);
        rule.update(s, get<W>(o.g, i));
        put(o.p, i, s.p);
#pragma unroll
        for (int j = 0; j < Rule::MOMENTS; j++) put(o.m[j], i, s.m[j]);
        if (o.half.data) put(o.half, i, get<W>(o.p, i));
    }
}

static bool is_flat(const step_operands *o)
{
    const numbers *f32[] = {&o->g, &o->p, &o->m[0], &o->m[1], &o->m[2]};
    for (int i = 0; i < 2 + MOST_MOMENTS; i++)
        if (f32[i]->data && (f32[i]->dtype != LS_F32 || (uintptr_t)f32[i]->data % 16)) return false;
    bool half = o->half.dtype == LS_F16 || o->half.dtype == LS_BF16;
    return !o->half.data || (half && (uintptr_t)o->half.data % 8 == 0);
}

template <template <typename> class Rule>
static ls_status run_step(cuda_device *d, cudaStream_t stream, const ls_call *call, const step_operands *o,
                          ls_message *why)
{
    unsigned grid = grid_for(d, o->n, 1024, 16);
    if (!o->n) return LS_OK;
    if (is_flat(o)) step_flat<<<grid, 256, 0, stream>>>(*o, Rule<float>::of(&call->attrs));
    else if (o->p.dtype == LS_F64) step_each<double><<<grid, 256, 0, stream>>>(*o, Rule<double>::of(&call->attrs));
    else step_each<float><<<grid, 256, 0, stream>>>(*o, Rule<float>::of(&call->attrs));
    return CUDA_LAUNCHED(why);
}

static const ls_operand *output(const ls_call *call, int i)
{
    return i < call->n_out ? call->out[i] : NULL;
}

static numbers found_of(const ls_call *call)
{
    return numbers_of(call->n_in > 1 ? call->in[1] : NULL);
}

static numbers factor_of(const ls_call *call)
{
    return numbers_of(call->n_in > 2 ? call->in[2] : NULL);
}

/* The operands of a call whose outputs are p, moments (of which the last may be absent) and a half copy. False: not for
 * these kernels. */
static bool operands_of(const ls_call *call, int moments, step_operands *o)
{
    const ls_operand *all[3 + MOST_MOMENTS] = {call->out[0], call->in[0], output(call, 1 + moments)};
    o->p = numbers_of(all[0]), o->g = numbers_of(all[1]), o->half = numbers_of(all[2]);
    for (int i = 0; i < MOST_MOMENTS; i++) {
        all[3 + i] = i < moments ? output(call, 1 + i) : NULL;
        o->m[i] = numbers_of(all[3 + i]);
    }
    o->found = found_of(call), o->factor = factor_of(call);
    o->n = cuda_numel(all[0]);
    return lie_alike(all, 3 + MOST_MOMENTS);
}

extern "C" ls_status cuda_adam_step(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    step_operands o;
    if (!operands_of(call, 2, &o)) return cuda_on_host(d, stream, call, why);
    return run_step<adam>(d, stream, call, &o, why);
}

template <typename W> using plain_sgd = sgd<W, false>;
template <typename W> using momentum_sgd = sgd<W, true>;

extern "C" ls_status cuda_sgd_step(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    step_operands o;
    if (!operands_of(call, 1, &o)) return cuda_on_host(d, stream, call, why);
    return o.m[0].data ? run_step<momentum_sgd>(d, stream, call, &o, why)
                       : run_step<plain_sgd>(d, stream, call, &o, why);
}

template <typename W> using plain_rmsprop = rmsprop<W, false, false>;
template <typename W> using momentum_rmsprop = rmsprop<W, false, true>;
template <typename W> using centered_rmsprop = rmsprop<W, true, false>;
template <typename W> using centered_momentum_rmsprop = rmsprop<W, true, true>;

extern "C" ls_status cuda_rmsprop_step(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    step_operands o;
    if (!operands_of(call, 2, &o)) return cuda_on_host(d, stream, call, why);
    return o.m[1].data ? run_step<momentum_rmsprop>(d, stream, call, &o, why)
                       : run_step<plain_rmsprop>(d, stream, call, &o, why);
}

extern "C" ls_status cuda_centered_rmsprop_step(cuda_device *d, cudaStream_t stream, const ls_call *call,
                                                ls_message *why)
{
    step_operands o;
    if (!operands_of(call, 3, &o)) return cuda_on_host(d, stream, call, why);
    return o.m[2].data ? run_step<centered_momentum_rmsprop>(d, stream, call, &o, why)
                       : run_step<centered_rmsprop>(d, stream, call, &o, why);
}

extern "C" ls_status cuda_adagrad_step(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    step_operands o;
    if (!operands_of(call, 1, &o)) return cuda_on_host(d, stream, call, why);
    return run_step<adagrad>(d, stream, call, &o, why);
}

/* ---- Sum of squares ---------------------------------------------------------------------------------------------- */

template <typename W> __device__ __forceinline__ W block_sum(W x) /* of 256 threads; in the first thread only */
{
    __shared__ W sums[8];
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x) return x;
    for (int i = 1; i < 8; i++) x += sums[i];
    return x;
}

/* part[block] = sum of squares of its share, in f64. */
template <typename T>
static __global__ void __launch_bounds__(256) square_parts(const T *__restrict__ x, int64_t n, double *part)
{
    typedef typename wide<T>::type W;
    const int N = whole<T>::N;
    int64_t step = (int64_t)gridDim.x * 256 * N;
    double sum = 0;
#pragma unroll 4
    for (int64_t i = ((int64_t)blockIdx.x * 256 + threadIdx.x) * N; i < n; i += step) {
        W v[N];
        if (i + N <= n) {
            load_vector<T, N>(v, x + i);
        } else {
#pragma unroll
            for (int k = 0; k < N; k++) v[k] = i + k < n ? as<W>(x[i + k]) : (W)0;
        }
#pragma unroll
        for (int k = 0; k < N; k++) sum = fma((double)v[k], (double)v[k], sum);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) part[blockIdx.x] = sum;
}

static __global__ void __launch_bounds__(256) add_parts(const double *part, int parts, numbers total)
{
    double sum = 0;
    for (int i = threadIdx.x; i < parts; i += 256) sum += part[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) put(total, 0, get<double>(total, 0) + sum);
}

extern "C" ls_status cuda_sum_squares(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0];
    int64_t n = cuda_numel(x);
    if (!lie_alike(&x, 1) || (uintptr_t)x->data % 16) return cuda_on_host(d, stream, call, why);
    if (!n) return LS_OK;
    unsigned grid = grid_for(d, n, 4096, 8);
    ls_workspace space = {};
    CUDA_TRY(cuda_take(d, grid * sizeof(double), &space, why));
    double *part = (double *)space.address;
    CUDA_FLOATING(x->dtype, why, square_parts<T><<<grid, 256, 0, stream>>>((const T *)x->data, n, part));
    add_parts<<<1, 256, 0, stream>>>(part, (int)grid, numbers_of(call->out[0]));
    cuda_give(d, space);
    return CUDA_LAUNCHED(why);
}

/* ---- Loss scaling ------------------------------------------------------------------------------------------------ */

template <typename T>
static __global__ void __launch_bounds__(256) unscale_all(T *g, int64_t n, typename wide<T>::type factor, numbers found)
{
    typedef typename wide<T>::type W;
    bool finite = true;
    for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x; i < n; i += (int64_t)gridDim.x * 256) {
        W x = as<W>(g[i]);
        finite = finite && isfinite(x);
        g[i] = as<T>(x * factor);
    }
    if (!finite) put(found, 0, 1.0f); /* whoever writes writes the same */
}

extern "C" ls_status cuda_unscale(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *g = call->out[0];
    int64_t n = cuda_numel(g);
    if (!lie_alike(&g, 1) || !is_floating(call->out[1]->dtype)) return cuda_on_host(d, stream, call, why);
    if (!n) return LS_OK;
    unsigned grid = grid_for(d, n, 1024, 16);
    numbers found = numbers_of(call->out[1]);
    CUDA_FLOATING(
        g->dtype, why,
        unscale_all<<<grid, 256, 0, stream>>>((T *)g->data, n, (wide<T>::type)call->attrs.scalar.value, found));
    return CUDA_LAUNCHED(why);
}
