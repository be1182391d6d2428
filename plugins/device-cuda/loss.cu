/* loss.cu - losses that compare element by element: mean squared error, smooth L1, binary cross entropy from logits.
 *
 * Sums are made by blocks, then by one block over them, in a fixed order. */
#include "crew.cuh"

enum loss_kind { MSE, SMOOTH_L1, BCE };
enum { X, T_, WEIGHT, POSITIVE, DLOSS, OUT, OPERANDS };

struct pointwise {
    const void *in[OPERANDS]; /* NULL: absent */
    void *out;
    cuda_walk walk;
    double beta;
    double scale;         /* of the gradient */
    const void *upstream; /* one gradient for all elements; NULL: DLOSS has one for each */
};

template <typename W> struct point {
    W x, t, weight, positive, beta;
};

template <typename W> static __device__ W log_one_plus(W x)
{
    return (W)log1p(x);
}

template <loss_kind kind, typename W> static __device__ W loss_of(const point<W> &p)
{
    W d = p.x - p.t, distance = d < 0 ? -d : d;
    if (kind == MSE) return d * d;
    if (kind == SMOOTH_L1) return distance < p.beta ? d * d / (2 * p.beta) : distance - p.beta / 2;
    W positive = (p.positive - 1) * p.t + 1, magnitude = p.x < 0 ? -p.x : p.x;
    W log_term = log_one_plus(exponential(-magnitude)) + (p.x < 0 ? -p.x : (W)0); /* log(1 + exp(-x)) */
    return p.weight * (positive * log_term + (1 - p.t) * p.x);
}

template <loss_kind kind, typename W> static __device__ W slope_of(const point<W> &p)
{
    W d = p.x - p.t, distance = d < 0 ? -d : d;
    if (kind == MSE) return 2 * d;
    if (kind == SMOOTH_L1) return distance < p.beta ? d / p.beta : d == 0 || d != d ? d : d < 0 ? (W)-1 : (W)1;
    W positive = (p.positive - 1) * p.t + 1;
    W sigmoid = 1 / (1 + exponential(p.x)); /* of -x */
    return p.weight * ((1 - p.t) - positive * sigmoid);
}

template <typename T, typename W> static __device__ point<W> point_at(const pointwise &p, const int64_t (&at)[OPERANDS])
{
    point<W> q;
    q.x = as<W>(((const T *)p.in[X])[at[X]]);
    q.t = as<W>(((const T *)p.in[T_])[at[T_]]);
    q.weight = p.in[WEIGHT] ? as<W>(((const T *)p.in[WEIGHT])[at[WEIGHT]]) : (W)1;
    q.positive = p.in[POSITIVE] ? as<W>(((const T *)p.in[POSITIVE])[at[POSITIVE]]) : (W)1;
    q.beta = (W)p.beta;
    return q;
}

/* Losses of all elements to `out`, or their sums per block to `sums`. */
template <typename T, loss_kind kind> __global__ void pointwise_losses(pointwise p, double *sums)
{
    typedef typename wide<T>::type W;
    double sum = 0;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.walk.count;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t at[OPERANDS];
        walk_to(p.walk, i, at);
        W loss = loss_of<kind>(point_at<T, W>(p, at));
        if (p.out) ((W *)p.out)[at[OUT]] = loss;
        sum += (double)loss;
    }
    if (!sums) return;
    sum = crew_sum<true>(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

template <typename W> __global__ void write_sum(const double *sums, int count, double divisor, W *loss)
{
    double sum = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) sum += sums[i];
    sum = crew_sum<true>(sum);
    if (threadIdx.x == 0) *loss = (W)(sum / divisor);
}

template <typename T, loss_kind kind> __global__ void pointwise_slopes(pointwise p)
{
    typedef typename wide<T>::type W;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.walk.count;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t at[OPERANDS];
        walk_to(p.walk, i, at);
        W upstream = p.upstream ? *(const W *)p.upstream : ((const W *)p.in[DLOSS])[at[DLOSS]];
        W slope = slope_of<kind>(point_at<T, W>(p, at));
        ((T *)p.out)[at[OUT]] = as<T>((W)(upstream * p.scale) * slope);
    }
}

/* ---- the host's side ---- */

static pointwise pointwise_of(const ls_operand *const (&operands)[OPERANDS], double beta)
{
    pointwise p = {};
    p.walk = cuda_walk_begin();
    const ls_operand *x = operands[X];
    for (int d = 0; d < x->ndim; d++) {
        int64_t stride[OPERANDS];
        for (int k = 0; k < OPERANDS; k++) stride[k] = operands[k] ? operands[k]->stride[d] : 0;
        walk_add(&p.walk, x->dim[d], stride);
    }
    for (int k = 0; k < OUT; k++) p.in[k] = operands[k] ? operands[k]->data : NULL;
    p.out = operands[OUT] ? operands[OUT]->data : NULL;
    p.beta = beta;
    return p;
}

template <loss_kind kind>
static ls_status forward(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0], *loss = call->out[0];
    ls_reduction reduction = call->attrs.loss.reduction;
    bool each = reduction == LS_REDUCE_NONE;
    const ls_operand *const operands[OPERANDS] = {
        x, call->in[1], kind == BCE ? call->in[2] : NULL, kind == BCE ? call->in[3] : NULL, NULL, each ? loss : NULL};
    pointwise p = pointwise_of(operands, call->attrs.loss.beta);
    if (each && !p.walk.count) return LS_OK;
    unsigned blocks = cuda_blocks(d, p.walk.count, 256);
    ls_workspace space = {};
    if (!each) CUDA_TRY(cuda_take(d, blocks * sizeof(double), &space, why));
    double *sums = (double *)space.address, divisor = reduction == LS_REDUCE_MEAN ? (double)p.walk.count : 1;
    CUDA_FLOATING(x->dtype, why, {
        typedef typename wide<T>::type W;
        pointwise_losses<T, kind><<<blocks, 256, 0, stream>>>(p, sums);
        if (!each) write_sum<W><<<1, 256, 0, stream>>>(sums, (int)blocks, divisor, (W *)loss->data);
    })
    cuda_give(d, space);
    return CUDA_LAUNCHED(why);
}

template <loss_kind kind>
static ls_status backward(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *dloss = call->in[0], *x = call->in[1];
    ls_reduction reduction = call->attrs.loss.reduction;
    bool each = reduction == LS_REDUCE_NONE;
    const ls_operand *const operands[OPERANDS] = {x,
                                                  call->in[2],
                                                  kind == BCE ? call->in[3] : NULL,
                                                  kind == BCE ? call->in[4] : NULL,
                                                  each ? dloss : NULL,
                                                  call->out[0]};
    pointwise p = pointwise_of(operands, call->attrs.loss.beta);
    if (!p.walk.count) return LS_OK;
    p.upstream = each ? NULL : dloss->data;
    p.scale = reduction == LS_REDUCE_MEAN ? 1 / (double)p.walk.count : 1;
    CUDA_FLOATING(x->dtype, why,
                  { pointwise_slopes<T, kind><<<cuda_blocks(d, p.walk.count, 256), 256, 0, stream>>>(p); })
    return CUDA_LAUNCHED(why);
}

#define LOSS(name, kind)                                                                                               \
    ls_status cuda_##name(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)                   \
    {                                                                                                                  \
        return forward<kind>(d, stream, call, why);                                                                    \
    }                                                                                                                  \
    ls_status cuda_##name##_grad(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)            \
    {                                                                                                                  \
        return backward<kind>(d, stream, call, why);                                                                   \
    }
LOSS(mse_loss, MSE)
LOSS(smooth_l1_loss, SMOOTH_L1)
LOSS(bce_with_logits, BCE)
