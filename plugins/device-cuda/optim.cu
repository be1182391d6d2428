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

template <typename W> struct state {
    W p, m, v;
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
        s.m = fma(blend1, d - s.m, s.m);
        s.v = fma(blend2 * d, d, s.v * beta2);
        W denominator = sqrt(s.v) * unbias2 + epsilon;
        s.p = s.p * keep - step * s.m / denominator;
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
            s.m = first ? d : fma(blend, d, s.m * momentum);
            d = nesterov ? fma(momentum, s.m, d) : s.m;
        }
        s.p = fma(-step, d, s.p);
    }
};

/* m: the mean of squares; v: momentum. */
template <typename W, bool MOMENTUM> struct rmsprop {
    static const int MOMENTS = MOMENTUM ? 2 : 1;
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
        W d = fma(l2_decay, s.p, g * sign);
        s.m = fma(blend * d, d, s.m * alpha);
        d /= sqrt(s.m) + epsilon;
        if (MOMENTUM) d = s.v = fma(s.v, momentum, d);
        s.p = fma(-step, d, s.p);
    }
};

/* m: the sum of squares. */
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
        s.m = fma(d, d, s.m);
        s.p -= step * d / (sqrt(s.m) + epsilon);
    }
};

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

typedef struct step_operands {
    numbers g, p, m, v, half;
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
    float *p = (float *)o.p.data, *m = (float *)o.m.data, *v = (float *)o.v.data;
    const float *g = (const float *)o.g.data;
    int64_t step = (int64_t)gridDim.x * 256 * N;
    for (int64_t i = ((int64_t)blockIdx.x * 256 + threadIdx.x) * N; i < o.n; i += step) {
        if (i + N > o.n) { /* the last few */
            for (int64_t k = i; k < o.n; k++) {
                state<float> s = {p[k], Rule::MOMENTS > 0 ? m[k] : 0, Rule::MOMENTS > 1 ? v[k] : 0};
                rule.update(s, g[k]);
                p[k] = s.p;
                if (Rule::MOMENTS > 0) m[k] = s.m;
                if (Rule::MOMENTS > 1) v[k] = s.v;
                if (o.half.data) put(o.half, k, s.p);
            }
            return;
        }
        float ps[N], ms[N], vs[N], gs[N];
        load_vector<float, N>(ps, p + i);
        load_vector<float, N>(gs, g + i);
        if (Rule::MOMENTS > 0) load_vector<float, N>(ms, m + i);
        if (Rule::MOMENTS > 1) load_vector<float, N>(vs, v + i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            state<float> s = {ps[k], Rule::MOMENTS > 0 ? ms[k] : 0, Rule::MOMENTS > 1 ? vs[k] : 0};
            rule.update(s, gs[k]);
            ps[k] = s.p, ms[k] = s.m, vs[k] = s.v;
        }
        store_vector<float, N>(p + i, ps);
        if (Rule::MOMENTS > 0) store_vector<float, N>(m + i, ms);
        if (Rule::MOMENTS > 1) store_vector<float, N>(v + i, vs);
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
        state<W> s = {get<W>(o.p, i), 0, 0};
        if (Rule::MOMENTS > 0) s.m = get<W>(o.m, i);
        if (Rule::MOMENTS > 1) s.v = get<W>(o.v, i);
        rule.update(s, get<W>(o.g, i));
        put(o.p, i, s.p);
        if (Rule::MOMENTS > 0) put(o.m, i, s.m);
        if (Rule::MOMENTS > 1) put(o.v, i, s.v);
        if (o.half.data) put(o.half, i, get<W>(o.p, i));
    }
}

static bool is_flat(const step_operands *o)
{
    const numbers *f32[] = {&o->g, &o->p, &o->m, &o->v};
    for (int i = 0; i < 4; i++)
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

/* The operands of a call whose outputs are p, one or two moments (of which the last may be absent) and a half copy.
 * False: not for these kernels. */
static bool operands_of(const ls_call *call, int moments, step_operands *o)
{
    const ls_operand *all[] = {call->out[0], output(call, 1), moments > 1 ? output(call, 2) : NULL, call->in[0],
                               output(call, 1 + moments)};
    o->p = numbers_of(all[0]), o->m = numbers_of(all[1]), o->v = numbers_of(all[2]);
    o->g = numbers_of(all[3]), o->half = numbers_of(all[4]);
    o->found = found_of(call), o->factor = factor_of(call);
    o->n = cuda_numel(all[0]);
    return lie_alike(all, 5);
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
    return o.m.data ? run_step<momentum_sgd>(d, stream, call, &o, why) : run_step<plain_sgd>(d, stream, call, &o, why);
}

template <typename W> using plain_rmsprop = rmsprop<W, false>;
template <typename W> using momentum_rmsprop = rmsprop<W, true>;

extern "C" ls_status cuda_rmsprop_step(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    step_operands o;
    if (!operands_of(call, 2, &o)) return cuda_on_host(d, stream, call, why);
    return o.v.data ? run_step<momentum_rmsprop>(d, stream, call, &o, why)
                    : run_step<plain_rmsprop>(d, stream, call, &o, why);
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
