/* batch_norm.cu - the rows batch_norm and batch_norm_grad: operands in order, statistics, result.
 *
 * As on the CPU, the layout of x decides: where its channels are adjacent, or it is [N,C], rows are pixels, elsewhere
 * planes of one channel. The other operands are brought into that order; so is x where it has gaps. */
#include "batch_norm.cuh"
#include "layout.h"

/* ---- channels alone ---- */

/* Sums over the batch are not needed. */
template <typename W> __global__ void finish_channels(batch_norm_channels c, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) write_channel<W>(c, read_channel(c, i), i, 0, 0, 0);
}

/* They are there already, of x and of its squares. Blocks are slabs of channels; `again`, of each: one of its channels
 * has a mean so large that the batch must be read after all, to be summed up without it. */
static __global__ void finish_sums(batch_norm_channels c, int64_t n, const float *first, const float *second,
                                   int *again)
{
    int64_t i = (int64_t)blockIdx.x * BATCH_NORM_SLAB + threadIdx.x;
    double sum = i < n ? first[i] : 0, squares = i < n ? second[i] : 0, mean = sum / c.count;
    bool lost = __syncthreads_or(has_lost_digits(mean, squares / c.count - mean * mean));
    if (threadIdx.x == 0) again[blockIdx.x] = lost;
    if (i < n && !lost) write_channel<float>(c, read_channel(c, i), i, 0, sum, squares);
}

/* ---- a call ---- */

enum { MOST_OPERANDS = 4 };

/* Operands as rows, and coefficients. */
typedef struct work {
    cuda_device *d;
    cudaStream_t stream;
    ls_dtype dtype;
    bool pixels;
    cuda_order order;
    batch_norm_data data;
    batch_norm_channels channels;
    bool has_sums; /* those below are of the batch, which is of a half type */
    const float *sums[2];
    cuda_form form[MOST_OPERANDS];
    ls_workspace coefficients;
} work;

static work work_of(cuda_device *d, cudaStream_t stream, const ls_operand *x, const ls_call *call)
{
    work w = {};
    w.d = d, w.stream = stream, w.dtype = x->dtype;
    w.pixels = x->ndim == 2 || (x->stride[1] == 1 && x->dim[1] > 1);
    w.order = w.pixels ? CUDA_CHANNELS_LAST : CUDA_ROW_MAJOR;
    int64_t channels = x->dim[1], numel = cuda_numel(x);
    w.data.channels = channels;
    w.data.length = w.pixels ? channels : channels && x->dim[0] ? numel / channels / x->dim[0] : 0;
    w.data.rows = w.data.length ? numel / w.data.length : 0;
    w.data.relu = call->attrs.norm.activation == LS_ACT_RELU;
    w.channels.training = call->attrs.norm.training;
    w.channels.accumulate = call->attrs.norm.accumulate;
    w.channels.count = channels ? (double)(numel / channels) : 0;
    w.channels.epsilon = call->attrs.norm.epsilon;
    w.channels.momentum = call->attrs.norm.momentum;
    return w;
}

static void end(work *w)
{
    for (int i = 0; i < MOST_OPERANDS; i++) cuda_form_end(w->d, &w->form[i]);
    cuda_give(w->d, w->coefficients);
}

static ls_status input(work *w, int form, const ls_operand *x, const void **data, ls_message *why)
{
    if (!x) return LS_OK;
    CUDA_TRY(cuda_form_in(w->d, w->stream, x, w->dtype, w->order, &w->form[form], why));
    *data = w->form[form].view.data;
    return LS_OK;
}

static ls_status output(work *w, int form, const ls_operand *y, void **data, ls_message *why)
{
    if (!y) return LS_OK;
    CUDA_TRY(cuda_form_out(w->d, y, w->dtype, w->order, &w->form[form], why));
    *data = w->form[form].view.data;
    return LS_OK;
}

static void mask(work *w, const ls_operand *bits)
{
    if (!bits) return;
    w->data.mask = (uint8_t *)bits->data;
    w->data.mask_pitch = bits->stride[0];
}

/* Coefficients of the second pass, from a first one over the batch if its sums are needed. */
static ls_status gather(work *w, bool sums, ls_message *why)
{
    int64_t n = w->data.channels, slabs = (n + BATCH_NORM_SLAB - 1) / BATCH_NORM_SLAB;
    size_t vector = (size_t)n * 8;
    CUDA_TRY(cuda_take(w->d, 3 * vector + (size_t)slabs * sizeof(int), &w->coefficients, why));
    char *at = (char *)w->coefficients.address;
    w->channels.scale = at, w->channels.slope = at + vector, w->channels.shift = at + 2 * vector;
    if (!sums) {
        unsigned blocks = (unsigned)((n + 255) / 256);
        if (w->dtype == LS_F64) finish_channels<double><<<blocks, 256, 0, w->stream>>>(w->channels, n);
        else finish_channels<float><<<blocks, 256, 0, w->stream>>>(w->channels, n);
        return CUDA_LAUNCHED(why);
    }
    if (w->has_sums) {
        int *again = (int *)(at + 3 * vector);
        finish_sums<<<(unsigned)slabs, BATCH_NORM_SLAB, 0, w->stream>>>(w->channels, n, w->sums[0], w->sums[1], again);
        w->channels.only = again;
    }
    ls_workspace space = {};
    CUDA_TRY(cuda_take(w->d, (w->pixels ? batch_norm_pixels_space : batch_norm_planes_space)(w->d, w->dtype, w->data),
                       &space, why));
    ls_status status = (w->pixels ? batch_norm_pixels_sums : batch_norm_planes_sums)(w->d, w->stream, w->dtype, w->data,
                                                                                     w->channels, space.address, why);
    cuda_give(w->d, space);
    return status;
}

static ls_status write(work *w, ls_message *why)
{
    return (w->pixels ? batch_norm_pixels_write : batch_norm_planes_write)(w->d, w->stream, w->dtype, w->data,
                                                                           w->channels, why);
}

/* Both passes. `sums`: the second needs what the first finds. */
static ls_status normalise(work *w, bool sums, bool results, ls_message *why)
{
    if (w->pixels && results && !w->has_sums && batch_norm_once_fits(w->d, w->dtype, w->data, w->channels)) {
        ls_workspace space = {};
        CUDA_TRY(cuda_take(w->d, batch_norm_once_space(w->d, w->data), &space, why));
        ls_status status = batch_norm_once(w->d, w->stream, w->dtype, w->data, w->channels, space.address, why);
        cuda_give(w->d, space);
        return status;
    }
    CUDA_TRY(gather(w, sums, why));
    return results ? write(w, why) : LS_OK;
}

static ls_status forward(work *w, const ls_call *call, ls_message *why)
{
    const ls_operand *y = call->out[0];
    CUDA_TRY(input(w, 0, call->in[0], &w->data.x, why));
    CUDA_TRY(input(w, 1, call->in[5], &w->data.residual, why));
    CUDA_TRY(output(w, 2, y, &w->data.y, why));
    mask(w, call->out[3]);
    batch_norm_channels *c = &w->channels;
    c->weight = channels_of(call->in[1]), c->bias = channels_of(call->in[2]);
    c->mean = channels_of(call->in[3]), c->var = channels_of(call->in[4]);
    c->save_mean = channels_of(call->out[1]), c->save_rstd = channels_of(call->out[2]);
    c->running_mean = channels_of(call->out[4]), c->running_var = channels_of(call->out[5]);
    w->has_sums = c->training && w->pixels && cuda_conv_sums && cuda_conv_sums(w->d, call->in[0], w->sums);
    CUDA_TRY(normalise(w, c->training, true, why));
    return cuda_form_store(w->d, w->stream, &w->form[2], y, why);
}

static ls_status backward(work *w, const ls_call *call, ls_message *why)
{
    const ls_operand *dx = call->out[0], *dweight = call->out[1], *dbias = call->out[2], *dresidual = call->out[3];
    CUDA_TRY(input(w, 0, call->in[0], &w->data.dy, why));
    CUDA_TRY(input(w, 1, call->in[1], &w->data.x, why));
    CUDA_TRY(output(w, 2, dx, &w->data.dx, why));
    CUDA_TRY(output(w, 3, dresidual, &w->data.dresidual, why));
    mask(w, call->in[2]);
    batch_norm_channels *c = &w->channels;
    c->backward = true;
    c->mean = channels_of(call->in[3]), c->var = channels_of(call->in[4]), c->weight = channels_of(call->in[5]);
    c->dweight = channels_of(dweight), c->dbias = channels_of(dbias);
    CUDA_TRY(normalise(w, (c->training && dx) || dweight || dbias, dx || dresidual, why));
    if (dx) CUDA_TRY(cuda_form_store(w->d, w->stream, &w->form[2], dx, why));
    return dresidual ? cuda_form_store(w->d, w->stream, &w->form[3], dresidual, why) : LS_OK;
}

/* An empty batch: gradients of vectors are 0, statistics stay. */
static ls_status empty(work *w, const ls_call *call, ls_message *why)
{
    if (call->op == LS_OP_batch_norm || !w->data.channels) return LS_OK;
    w->channels.backward = true, w->channels.count = 1;
    w->channels.mean = channels_of(call->in[3]), w->channels.var = channels_of(call->in[4]);
    w->channels.dweight = channels_of(call->out[1]), w->channels.dbias = channels_of(call->out[2]);
    return gather(w, false, why);
}

static ls_status run(cuda_device *d, cudaStream_t stream, const ls_call *call, const ls_operand *x, ls_message *why)
{
    work w = work_of(d, stream, x, call);
    ls_status status;
    if (!w.data.rows) status = empty(&w, call, why);
    else status = (call->op == LS_OP_batch_norm ? forward : backward)(&w, call, why);
    end(&w);
    return status;
}

extern "C" ls_status cuda_batch_norm(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return run(d, stream, call, call->in[0], why);
}

extern "C" ls_status cuda_batch_norm_grad(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return run(d, stream, call, call->in[1], why);
}
