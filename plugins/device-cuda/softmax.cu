/* softmax.cu - softmax and log softmax along one dimension, and their gradients.
 *
 * A warp takes a line, or a block where lines are long and few. Half types are computed in f32. */
#include "crew.cuh"

template <typename T, bool by_block, bool logs> __global__ void softmax_lines(const T *x, T *y, lines<2> l)
{
    typedef typename wide<T>::type W;
    EACH_LINE(l)
    {
        int64_t at[2], n = l.length[0];
        walk_to(l.begins, line, at);
        W most = -(W)INFINITY, sum = 0;
        for (int64_t i = index; i < n; i += size) {
            W v = as<W>(x[at[0] + i * l.step[0]]);
            most = v > most ? v : most;
        }
        most = crew_max<by_block>(most);
        for (int64_t i = index; i < n; i += size) sum += exponential(as<W>(x[at[0] + i * l.step[0]]) - most);
        sum = crew_sum<by_block>(sum);
        W subtracted = most + logarithm(sum), factor = 1 / sum;
        for (int64_t i = index; i < n; i += size) {
            W v = as<W>(x[at[0] + i * l.step[0]]);
            y[at[1] + i * l.step[1]] = as<T>(logs ? v - subtracted : exponential(v - most) * factor);
        }
    }
}

/* softmax: dx = y (dy - sum dy y); log softmax: dx = dy - exp(y) sum dy */
template <typename T, bool by_block, bool logs>
__global__ void softmax_grad_lines(const T *dy, const T *y, T *dx, lines<3> l)
{
    typedef typename wide<T>::type W;
    EACH_LINE(l)
    {
        int64_t at[3], n = l.length[0];
        walk_to(l.begins, line, at);
        W sum = 0;
        for (int64_t i = index; i < n; i += size) {
            W g = as<W>(dy[at[0] + i * l.step[0]]);
            sum += logs ? g : g * as<W>(y[at[1] + i * l.step[1]]);
        }
        sum = crew_sum<by_block>(sum);
        for (int64_t i = index; i < n; i += size) {
            W g = as<W>(dy[at[0] + i * l.step[0]]), v = as<W>(y[at[1] + i * l.step[1]]);
            dx[at[2] + i * l.step[2]] = as<T>(logs ? g - exponential(v) * sum : v * (g - sum));
        }
    }
}

static ls_status forward(cuda_device *d, cudaStream_t stream, const ls_call *call, bool logs, ls_message *why)
{
    const ls_operand *x = call->in[0], *y = call->out[0], *const operands[2] = {x, y};
    lines<2> l = lines_along(operands, call->attrs.axis.dim);
    if (!l.begins.count || !l.length[0]) return LS_OK;
    bool by_block = line_needs_block(d, l.begins.count, l.length[0]);
    unsigned blocks = blocks_of(d, l.begins.count, by_block), threads = by_block ? 256 : 128;
    CUDA_FLOATING(x->dtype, why, {
        const T *from = (const T *)x->data;
        T *to = (T *)y->data;
        if (by_block && logs) softmax_lines<T, true, true><<<blocks, threads, 0, stream>>>(from, to, l);
        else if (by_block) softmax_lines<T, true, false><<<blocks, threads, 0, stream>>>(from, to, l);
        else if (logs) softmax_lines<T, false, true><<<blocks, threads, 0, stream>>>(from, to, l);
        else softmax_lines<T, false, false><<<blocks, threads, 0, stream>>>(from, to, l);
    })
    return CUDA_LAUNCHED(why);
}

static ls_status backward(cuda_device *d, cudaStream_t stream, const ls_call *call, bool logs, ls_message *why)
{
    const ls_operand *dy = call->in[0], *y = call->in[1], *dx = call->out[0], *const operands[3] = {dy, y, dx};
    lines<3> l = lines_along(operands, call->attrs.axis.dim);
    if (!l.begins.count || !l.length[0]) return LS_OK;
    bool by_block = line_needs_block(d, l.begins.count, l.length[0]);
    unsigned blocks = blocks_of(d, l.begins.count, by_block), threads = by_block ? 256 : 128;
    CUDA_FLOATING(dy->dtype, why, {
        const T *g = (const T *)dy->data, *from = (const T *)y->data;
        T *to = (T *)dx->data;
        if (by_block && logs) softmax_grad_lines<T, true, true><<<blocks, threads, 0, stream>>>(g, from, to, l);
        else if (by_block) softmax_grad_lines<T, true, false><<<blocks, threads, 0, stream>>>(g, from, to, l);
        else if (logs) softmax_grad_lines<T, false, true><<<blocks, threads, 0, stream>>>(g, from, to, l);
        else softmax_grad_lines<T, false, false><<<blocks, threads, 0, stream>>>(g, from, to, l);
    })
    return CUDA_LAUNCHED(why);
}

ls_status cuda_softmax(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return forward(d, stream, call, false, why);
}

ls_status cuda_log_softmax(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return forward(d, stream, call, true, why);
}

ls_status cuda_softmax_grad(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return backward(d, stream, call, false, why);
}

ls_status cuda_log_softmax_grad(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return backward(d, stream, call, true, why);
}
