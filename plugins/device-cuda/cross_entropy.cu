/* cross_entropy.cu - cross entropy from logits, negative log likelihood from log probabilities, and their gradients.
 *
 * The arithmetic is that of the CPU (src/device/cpu/cross_entropy.c): with class weights w, smoothing s and C classes
 *     loss of a row = -(1 - s) w[target] logp[target] - s / C sum over c of w[c] logp[c]
 * Losses and weights of rows are summed by one block in a fixed order. A target out of range is reported when the host
 * next waits, and counts as ignored. */
#include "crew.cuh"
#include "fault.h"

struct target_rules {
    bool has_ignore;
    int64_t ignore, classes;
    const void *weight; /* [C], NULL: all are 1 */
    ls_dtype weight_dtype;
    int64_t weight_step;
    double smoothing;
    double *smooth_weight; /* the sum of all weights, where there is smoothing and there are weights */
};

/* What a row adds to the loss, and to the weight that a mean divides by. */
struct tally {
    double loss, weight;
};

static __device__ double class_weight(const target_rules &t, int64_t c)
{
    c *= t.weight_step;
    switch (t.weight ? t.weight_dtype : LS_DTYPE_NONE) {
    case LS_F32: return ((const float *)t.weight)[c];
    case LS_F64: return ((const double *)t.weight)[c];
    case LS_F16: return __half2float(((const f16 *)t.weight)[c]);
    case LS_BF16: return __bfloat162float(((const bf16 *)t.weight)[c]);
    default: return 1;
    }
}

__global__ void sum_weights(target_rules t)
{
    double sum = 0;
    for (int64_t c = threadIdx.x; c < t.classes; c += 32) sum += class_weight(t, c);
    sum = warp_sum(sum);
    if (threadIdx.x == 0) *t.smooth_weight = sum;
}

static __device__ double all_weights(const target_rules &t)
{
    return t.smooth_weight ? *t.smooth_weight : (double)t.classes;
}

static __device__ bool counts(const target_rules &t, int64_t target, cuda_fault_site fault)
{
    if (t.has_ignore && target == t.ignore) return false;
    return fault_unless_index(fault, target, t.classes);
}

/* ---- cross entropy ---- */

enum { X, TARGET, LSE, LOSS, ROW_OPERANDS };

/* Lines are those of x along classes; target, lse and loss have one element each. */
template <typename T, bool by_block>
__global__ void cross_entropy_rows(const T *x, const int64_t *target, typename wide<T>::type *lse,
                                   typename wide<T>::type *loss, lines<ROW_OPERANDS> l, target_rules t, tally *tallies,
                                   cuda_fault_site fault)
{
    typedef typename wide<T>::type W;
    EACH_LINE(l)
    {
        int64_t at[ROW_OPERANDS];
        walk_to(l.begins, line, at);
        W most = -(W)INFINITY, sum = 0;
        double weighted = 0;
        for (int64_t i = index; i < t.classes; i += size) {
            W v = as<W>(x[at[X] + i * l.step[X]]);
            most = v > most ? v : most;
            if (t.smoothing > 0) weighted += class_weight(t, i) * (double)v;
        }
        most = crew_max<by_block>(most);
        for (int64_t i = index; i < t.classes; i += size) sum += exponential(as<W>(x[at[X] + i * l.step[X]]) - most);
        sum = crew_sum<by_block>(sum);
        if (t.smoothing > 0) weighted = crew_sum<by_block>(weighted);
        if (index != 0) continue;
        double log_sum = (double)most + (double)logarithm(sum);
        tally row = {0, 0};
        int64_t wanted = target[at[TARGET]];
        if (counts(t, wanted, fault)) {
            row.weight = class_weight(t, wanted);
            row.loss = (1 - t.smoothing) * row.weight * (log_sum - (double)as<W>(x[at[X] + wanted * l.step[X]]));
            if (t.smoothing > 0) row.loss += t.smoothing / (double)t.classes * (all_weights(t) * log_sum - weighted);
        }
        if (lse) lse[at[LSE]] = (W)log_sum;
        if (loss) loss[at[LOSS]] = (W)row.loss;
        tallies[line] = row;
    }
}

/* Everything that rows left behind: the reduced loss, and the weight that a mean divides by. One block. */
template <typename W>
__global__ void write_totals(const tally *tallies, int64_t rows, bool reduces, bool mean, W *loss, W *total)
{
    double sum = 0, weight = 0;
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x) {
        sum += tallies[i].loss;
        weight += tallies[i].weight;
    }
    sum = crew_sum<true>(sum);
    weight = crew_sum<true>(weight);
    if (threadIdx.x != 0) return;
    if (reduces) *loss = (W)(mean ? sum / weight : sum); /* all rows ignored: NaN */
    if (total) *total = (W)weight;
}

enum { GRAD_X, GRAD_TARGET, GRAD_LSE, GRAD_DLOSS, GRAD_DX, GRAD_OPERANDS };

template <typename T, bool by_block>
__global__ void cross_entropy_grad_rows(const T *x, const int64_t *target, const typename wide<T>::type *lse,
                                        const typename wide<T>::type *dloss, const typename wide<T>::type *total, T *dx,
                                        lines<GRAD_OPERANDS> l, target_rules t)
{
    typedef typename wide<T>::type W;
    EACH_LINE(l)
    {
        int64_t at[GRAD_OPERANDS];
        walk_to(l.begins, line, at);
        int64_t wanted = target[at[GRAD_TARGET]];
        bool good = !(t.has_ignore && wanted == t.ignore) && (uint64_t)wanted < (uint64_t)t.classes;
        double upstream = (double)dloss[at[GRAD_DLOSS]] / (total ? (double)*total : 1.0);
        double hard = good ? upstream * (1 - t.smoothing) * class_weight(t, wanted) : 0;
        double soft = upstream * t.smoothing / (double)t.classes;
        W scale = (W)(hard + soft * all_weights(t)), log_sum = lse[at[GRAD_LSE]];
        for (int64_t i = index; i < t.classes; i += size) {
            W g = exponential(as<W>(x[at[GRAD_X] + i * l.step[GRAD_X]]) - log_sum) * scale;
            if (t.smoothing > 0) g -= (W)(class_weight(t, i) * soft);
            if (i == wanted) g -= (W)hard;
            dx[at[GRAD_DX] + i * l.step[GRAD_DX]] = as<T>(good ? g : (W)0);
        }
    }
}

/* ---- negative log likelihood ---- */

template <typename T>
__global__ void nll_rows(const T *logp, const int64_t *target, typename wide<T>::type *loss, lines<3> l, target_rules t,
                         tally *tallies, cuda_fault_site fault)
{
    typedef typename wide<T>::type W;
    for (int64_t line = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; line < l.begins.count;
         line += (int64_t)gridDim.x * blockDim.x) {
        int64_t at[3];
        walk_to(l.begins, line, at);
        int64_t wanted = target[at[1]];
        tally row = {0, 0};
        if (counts(t, wanted, fault)) {
            row.weight = class_weight(t, wanted);
            row.loss = -row.weight * (double)as<W>(logp[at[0] + wanted * l.step[0]]);
        }
        if (loss) loss[at[2]] = (W)row.loss;
        tallies[line] = row;
    }
}

template <typename T, bool by_block>
__global__ void nll_grad_rows(const int64_t *target, const typename wide<T>::type *dloss,
                              const typename wide<T>::type *total, T *dlogp, lines<3> l, target_rules t)
{
    typedef typename wide<T>::type W;
    EACH_LINE(l)
    {
        int64_t at[3];
        walk_to(l.begins, line, at);
        int64_t wanted = target[at[1]];
        bool good = !(t.has_ignore && wanted == t.ignore) && (uint64_t)wanted < (uint64_t)t.classes;
        double upstream = (double)dloss[at[2]] / (total ? (double)*total : 1.0);
        for (int64_t i = index; i < t.classes; i += size)
            dlogp[at[0] + i * l.step[0]] = as<T>((W)(good && i == wanted ? -upstream * class_weight(t, wanted) : 0));
    }
}

/* ---- the host's side ---- */

/* Rows of x along its classes ([N,C], [N,C,...] or [C]) together with operands of one element per row, NULL or with
 * strides of 0 where one serves all rows. */
template <int operands>
static lines<operands> class_lines(const ls_operand *x, const ls_operand *const (&rest)[operands])
{
    lines<operands> l = {};
    l.begins = cuda_walk_begin();
    int classes = x->ndim > 1 ? 1 : 0;
    for (int d = 0; d < x->ndim; d++) {
        if (d == classes) continue;
        int64_t stride[operands];
        for (int i = 0; i < operands; i++) {
            const ls_operand *o = rest[i];
            bool whole = o && o->ndim == x->ndim; /* has classes of its own */
            int at = whole ? d : d > classes ? d - 1 : d;
            stride[i] = o && at < o->ndim ? o->stride[at] : 0;
        }
        walk_add(&l.begins, x->dim[d], stride);
    }
    for (int i = 0; i < operands; i++) {
        bool whole = rest[i] && rest[i]->ndim == x->ndim && x->ndim > 0;
        l.length[i] = whole ? x->dim[classes] : 1;
        l.step[i] = whole ? rest[i]->stride[classes] : 0;
    }
    return l;
}

static target_rules rules_of(const ls_call *call, const ls_operand *x, const ls_operand *weight)
{
    target_rules t = {};
    t.has_ignore = call->attrs.loss.has_ignore != 0;
    t.ignore = call->attrs.loss.ignore_index;
    t.classes = x->ndim > 1 ? x->dim[1] : x->dim[0];
    t.weight = weight ? weight->data : NULL;
    t.weight_dtype = weight ? weight->dtype : LS_DTYPE_NONE;
    t.weight_step = weight ? weight->stride[0] : 0;
    bool smooths = call->op == LS_OP_cross_entropy || call->op == LS_OP_cross_entropy_grad;
    t.smoothing = smooths ? call->attrs.loss.smoothing : 0;
    return t;
}

/* Scratch: one number for the sum of weights, then a tally per row. */
static ls_status take_tallies(cuda_device *d, target_rules *t, int64_t rows, ls_workspace *space, tally **tallies,
                              ls_message *why)
{
    CUDA_TRY(cuda_take(d, 16 + (size_t)rows * sizeof(tally), space, why));
    if (t->smoothing > 0 && t->weight) t->smooth_weight = (double *)space->address;
    *tallies = (tally *)(void *)((char *)space->address + 16);
    return LS_OK;
}

static void *data_of(const ls_operand *x)
{
    return x ? x->data : NULL;
}

ls_status cuda_cross_entropy(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0], *loss = call->out[0];
    ls_reduction reduction = call->attrs.loss.reduction;
    bool per_row = reduction == LS_REDUCE_NONE;
    const ls_operand *const rest[ROW_OPERANDS] = {x, call->in[1], call->out[1], per_row ? loss : NULL};
    lines<ROW_OPERANDS> l = class_lines(x, rest);
    target_rules t = rules_of(call, x, call->in[2]);
    ls_workspace space;
    tally *tallies;
    CUDA_TRY(take_tallies(d, &t, l.begins.count, &space, &tallies, why));
    bool by_block = line_needs_block(d, l.begins.count, t.classes);
    unsigned blocks = blocks_of(d, l.begins.count, by_block);
    cuda_fault_site fault = cuda_fault_at(d, call);
    const int64_t *target = (const int64_t *)call->in[1]->data;
    CUDA_FLOATING(x->dtype, why, {
        typedef typename wide<T>::type W;
        W *lse = (W *)data_of(call->out[1]), *row_loss = per_row ? (W *)loss->data : NULL;
        if (t.smooth_weight) sum_weights<<<1, 32, 0, stream>>>(t);
        if (by_block)
            cross_entropy_rows<T, true>
                <<<blocks, 256, 0, stream>>>((const T *)x->data, target, lse, row_loss, l, t, tallies, fault);
        else
            cross_entropy_rows<T, false>
                <<<blocks, 128, 0, stream>>>((const T *)x->data, target, lse, row_loss, l, t, tallies, fault);
        write_totals<W><<<1, 1024, 0, stream>>>(tallies, l.begins.count, !per_row, reduction == LS_REDUCE_MEAN,
                                                (W *)loss->data, (W *)data_of(call->out[2]));
    })
    cuda_give(d, space);
    return CUDA_LAUNCHED(why);
}

ls_status cuda_cross_entropy_grad(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *dloss = call->in[0], *x = call->in[1], *dx = call->out[0];
    bool per_row = call->attrs.loss.reduction == LS_REDUCE_NONE, mean = call->attrs.loss.reduction == LS_REDUCE_MEAN;
    const ls_operand *const rest[GRAD_OPERANDS] = {x, call->in[2], call->in[4], per_row ? dloss : NULL, dx};
    lines<GRAD_OPERANDS> l = class_lines(x, rest);
    if (!l.begins.count) return LS_OK;
    target_rules t = rules_of(call, x, call->in[3]);
    ls_workspace space;
    tally *unused;
    CUDA_TRY(take_tallies(d, &t, 0, &space, &unused, why));
    bool by_block = line_needs_block(d, l.begins.count, t.classes);
    unsigned blocks = blocks_of(d, l.begins.count, by_block);
    const int64_t *target = (const int64_t *)call->in[2]->data;
    CUDA_FLOATING(x->dtype, why, {
        typedef typename wide<T>::type W;
        const W *lse = (const W *)call->in[4]->data, *up = (const W *)dloss->data;
        const W *total = mean ? (const W *)call->in[5]->data : NULL;
        if (t.smooth_weight) sum_weights<<<1, 32, 0, stream>>>(t);
        if (by_block)
            cross_entropy_grad_rows<T, true>
                <<<blocks, 256, 0, stream>>>((const T *)x->data, target, lse, up, total, (T *)dx->data, l, t);
        else
            cross_entropy_grad_rows<T, false>
                <<<blocks, 128, 0, stream>>>((const T *)x->data, target, lse, up, total, (T *)dx->data, l, t);
    })
    cuda_give(d, space);
    return CUDA_LAUNCHED(why);
}

ls_status cuda_nll_loss(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *logp = call->in[0], *loss = call->out[0];
    ls_reduction reduction = call->attrs.loss.reduction;
    bool per_row = reduction == LS_REDUCE_NONE;
    const ls_operand *const rest[3] = {logp, call->in[1], per_row ? loss : NULL};
    lines<3> l = class_lines(logp, rest);
    target_rules t = rules_of(call, logp, call->in[2]);
    ls_workspace space;
    tally *tallies;
    CUDA_TRY(take_tallies(d, &t, l.begins.count, &space, &tallies, why));
    const int64_t *target = (const int64_t *)call->in[1]->data;
    CUDA_FLOATING(logp->dtype, why, {
        typedef typename wide<T>::type W;
        if (l.begins.count)
            nll_rows<T><<<cuda_blocks(d, l.begins.count, 256), 256, 0, stream>>>(
                (const T *)logp->data, target, per_row ? (W *)loss->data : NULL, l, t, tallies, cuda_fault_at(d, call));
        write_totals<W><<<1, 1024, 0, stream>>>(tallies, l.begins.count, !per_row, reduction == LS_REDUCE_MEAN,
                                                (W *)loss->data, (W *)data_of(call->out[1]));
    })
    cuda_give(d, space);
    return CUDA_LAUNCHED(why);
}

ls_status cuda_nll_loss_grad(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *dloss = call->in[0], *dlogp = call->out[0];
    bool per_row = call->attrs.loss.reduction == LS_REDUCE_NONE, mean = call->attrs.loss.reduction == LS_REDUCE_MEAN;
    const ls_operand *const rest[3] = {dlogp, call->in[1], per_row ? dloss : NULL};
    lines<3> l = class_lines(dlogp, rest);
    if (!l.begins.count) return LS_OK;
    target_rules t = rules_of(call, dlogp, call->in[2]);
    bool by_block = line_needs_block(d, l.begins.count, t.classes);
    unsigned blocks = blocks_of(d, l.begins.count, by_block);
    const int64_t *target = (const int64_t *)call->in[1]->data;
    CUDA_FLOATING(dlogp->dtype, why, {
        typedef typename wide<T>::type W;
        const W *up = (const W *)dloss->data, *total = mean ? (const W *)call->in[3]->data : NULL;
        if (by_block) nll_grad_rows<T, true><<<blocks, 256, 0, stream>>>(target, up, total, (T *)dlogp->data, l, t);
        else nll_grad_rows<T, false><<<blocks, 128, 0, stream>>>(target, up, total, (T *)dlogp->data, l, t);
    })
    return CUDA_LAUNCHED(why);
}
