/* dnn_sums.c - convolutions that add up their result for the batch norm behind them.
 *
 * A batch norm that trains reads its input twice: for the statistics, and to normalise. A convolution can add up what
 * it writes, and the squares of it, by channel: then the first pass is not needed. The operators of a network come one
 * by one, and in every step in the same order: so a plan whose last result went into a batch norm, in the very next
 * operator, is expected to see one again. It is tried whether adding up is faster than the pass. */
#include "dnn.h"

/* Smaller results are read once anyway: they fit into shared memory. */
enum { LEAST_BYTES = 32000000 };

static int64_t bytes_of(const dnn_conv *conv)
{
    return conv->n * conv->o * conv->out[0] * conv->out[1] * 2;
}

static bool can_add_up(const cuda_device *d, const dnn_conv *conv)
{
    bool half = conv->dtype == LS_F16 || conv->dtype == LS_BF16; /* f32 would lose digits in squares */
    return half && !d->deterministic && conv->o <= DNN_MOST_SUMS && bytes_of(conv) >= LEAST_BYTES;
}

/* Milliseconds of reading the result once, at three quarters of what the memory can do. */
static float time_of_pass(const cuda_device *d, const dnn_conv *conv)
{
    int kilohertz = 0, bits = 0;
    cudaDeviceGetAttribute(&kilohertz, cudaDevAttrMemoryClockRate, d->index);
    cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, d->index);
    double bytes_of_millisecond = 2.0 * kilohertz * bits / 8 * 0.75;
    return bytes_of_millisecond > 0 ? (float)((double)bytes_of(conv) / bytes_of_millisecond) : 0;
}

/* Is the plan with sums faster than the one without, and a pass? */
static bool pays(cuda_device *d, cudaStream_t stream, dnn_plan *plain, dnn_plan *adding,
                 void *const address[DNN_OPERANDS])
{
    if (adding->pays == CUDA_CHOICE_UNKNOWN) adding->pays = dnn_choice(d, DNN_DO_SUMS_PAY, &adding->conv);
    if (adding->pays == CUDA_CHOICE_UNKNOWN) {
        float without = dnn_time(d, stream, plain, plain->chosen, address);
        float with = dnn_time(d, stream, adding, adding->chosen, address);
        adding->pays = with >= 0 && with < without + time_of_pass(d, &plain->conv);
        dnn_keep_choice(d, DNN_DO_SUMS_PAY, &adding->conv, adding->pays);
    }
    return adding->pays == 1;
}

/* The plan with sums, if there is one; *found NULL otherwise. */
static ls_status find_adding(cuda_device *d, cudaStream_t stream, dnn_plan *plain, void *const address[DNN_OPERANDS],
                             dnn_plan **found, ls_message *why)
{
    dnn_conv conv = plain->conv;
    conv.sums = 1;
    CUDA_TRY(dnn_find(d, stream, &conv, address, found, why));
    if (*found && !pays(d, stream, plain, *found, address)) *found = NULL;
    return LS_OK;
}

ls_status dnn_run_for_norm(cuda_device *d, cudaStream_t stream, dnn_plan *plan, void *const address[DNN_OPERANDS],
                           ls_message *why)
{
    cuda_dnn *dnn = d->dnn;
    dnn_plan *adding = NULL;
    void *all[DNN_OPERANDS] = {address[DNN_X], address[DNN_W], address[DNN_Y]};
    if (plan->is_normed && can_add_up(d, &plan->conv) && dnn->count < DNN_MOST_PLANS) { /* else `plan` is forgotten */
        size_t bytes = 2 * DNN_MOST_SUMS * sizeof *dnn->sums;
        if (!dnn->sums) CUDA_TRY(cuda_check(cudaMalloc((void **)&dnn->sums, bytes), "memory for sums", why));
        all[DNN_SUM] = dnn->sums, all[DNN_SQUARES] = dnn->sums + DNN_MOST_SUMS;
        CUDA_TRY(find_adding(d, stream, plan, all, &adding, why));
    }
    CUDA_TRY(dnn_run(d, stream, adding ? adding : plan, all, why));
    plan->is_normed = false; /* until a batch norm comes */
    dnn->last.plan = plan, dnn->last.y = address[DNN_Y], dnn->last.call = cuda_calls(d),
    dnn->last.has_sums = adding != NULL;
    return LS_OK;
}

void dnn_forget_sums(cuda_device *d)
{
    if (d->dnn) d->dnn->last.plan = NULL;
}

bool cuda_conv_sums(cuda_device *d, const ls_operand *x, const float *sums[2])
{
    cuda_dnn *dnn = d->dnn;
    if (!dnn || !dnn->last.plan || dnn->last.y != x->data || cuda_calls(d) - dnn->last.call > 1) return false;
    const dnn_conv *conv = &dnn->last.plan->conv;
    if (x->ndim != 4 || (int32_t)x->dtype != conv->dtype || x->dim[1] != conv->o ||
        cuda_numel(x) != conv->n * conv->o * conv->out[0] * conv->out[1])
        return false;
    dnn->last.plan->is_normed = true;
    sums[0] = dnn->sums, sums[1] = dnn->sums + DNN_MOST_SUMS;
    return dnn->last.has_sums;
}
