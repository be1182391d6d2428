/* cross_entropy.c - cross entropy from logits, negative log likelihood from log probabilities, and their gradients.
 *
 * A row is the classes of one sample (and pixel). With class weights w (1 without), label smoothing s and C classes,
 * as in PyTorch:
 *     loss of a row = -(1 - s) w[target] logp[target] - s / C sum over c of w[c] logp[c]
 *     the mean divides by the sum of w[target] over the rows that are not ignored */
#include "device/cpu/cpu.h"
#include "device/cpu/rows.h"
#include "kernels/loss.h"
#include "kernels/softmax.h"

#include <math.h>
#include <string.h>

/* The dimension of classes: x is [N,C], [N,C,...], or [C] with one target. */
static uint32_t class_dim(const ls_operand *x)
{
    return x->ndim > 1 ? 1u << 1 : 1u;
}

typedef struct targets {
    bool has_ignore;
    int64_t ignore, classes;
    ls_dtype wide;
    const void *weight; /* [C] in the compute type, or NULL */
} targets;

static bool ignored(const targets *t, int64_t target)
{
    return t->has_ignore && target == t->ignore;
}

static double class_weight(const targets *t, int64_t class)
{
    return t->weight ? ls_get(t->wide, t->weight, class) : 1;
}

static ls_status check_targets(const targets *t, const ls_rows *rows, ls_message *why)
{
    for (int64_t i = 0; i < rows->count; i++) {
        int64_t target = *(const int64_t *)(const void *)ls_row_at(rows, i);
        if ((target < 0 || target >= t->classes) && !ignored(t, target))
            return ls_explain(why, LS_ERR_VALUE, "target %lld at index %lld is out of range for %lld classes",
                              (long long)target, (long long)i, (long long)t->classes);
    }
    return LS_OK;
}

static ls_status set_targets(targets *t, const ls_call *call, const ls_operand *x, const ls_operand *weight,
                             const ls_rows *rows, ls_message *why)
{
    t->has_ignore = call->attrs.loss.has_ignore;
    t->ignore = call->attrs.loss.ignore_index;
    t->classes = x->ndim > 1 ? x->dim[1] : x->dim[0];
    t->wide = ls_compute_dtype(x->dtype);
    void *buffer = weight ? ls_scratch((ls_worker){0, 1}, 2, (size_t)t->classes * sizeof(double)) : NULL;
    if (weight && !buffer) return ls_explain(why, LS_ERR_MEMORY, "no scratch memory for class weights");
    t->weight = ls_plain(weight, t->wide, buffer);
    return check_targets(t, rows, why);
}

static double total_weight(const targets *t)
{
    double sum = 0;
    for (int64_t c = 0; c < t->classes; c++) sum += class_weight(t, c);
    return sum;
}

static const void *row(ls_dtype dtype, ls_matrix m, int64_t r)
{
    return (const char *)m.data + r * m.pitch * (int64_t)ls_dtype_size(dtype);
}

static int64_t target_at(ls_matrix m, int64_t r)
{
    return ((const int64_t *)m.data)[r * m.pitch];
}

/* ---- Summing up ----------------------------------------------------------------------------------------------- */

typedef struct tally { /* one per block, added up in order */
    double loss, weight;
} tally;

static tally *new_tallies(int64_t rows, int64_t block_rows, int64_t *blocks, ls_message *why)
{
    *blocks = (rows + block_rows - 1) / block_rows;
    size_t bytes = (size_t)(*blocks + 1) * sizeof(tally);
    tally *tallies = ls_scratch((ls_worker){0, 1}, 1, bytes);
    if (tallies) memset(tallies, 0, bytes);
    else ls_explain(why, LS_ERR_MEMORY, "no scratch memory for partial losses");
    return tallies;
}

/* Write the reduced loss (unless it was written per row) and the weight that a mean divides by. */
static void write_totals(const tally *tallies, int64_t blocks, ls_reduction reduction, const ls_operand *loss,
                         const ls_operand *total)
{
    tally all = {0};
    for (int64_t b = 0; b < blocks; b++) {
        all.loss += tallies[b].loss;
        all.weight += tallies[b].weight;
    }
    if (reduction == LS_REDUCE_MEAN) all.loss /= all.weight; /* all rows ignored: NaN */
    if (reduction != LS_REDUCE_NONE) ls_put(loss->dtype, loss->data, 0, all.loss);
    if (total) ls_put(total->dtype, total->data, 0, all.weight);
}

/* ---- Cross entropy -------------------------------------------------------------------------------------------- */

typedef struct forward {
    targets t;
    ls_dtype dtype;
    double smoothing, smooth_weight; /* smooth_weight: sum of all w, with smoothing */
    double (*log_sum_exp)(ls_dtype dtype, const void *x, int64_t n);
    double (*weighted_sum)(ls_dtype dtype, const void *x, const void *weight, int64_t n);
    tally *tallies;
} forward;

static void forward_rows(void *arg, const ls_block *block)
{
    const forward *f = arg;
    const targets *t = &f->t;
    tally *sum = &f->tallies[block->index];
    for (int64_t r = 0; r < block->rows; r++) {
        const void *x = row(f->dtype, block->at[0], r);
        int64_t target = target_at(block->at[1], r);
        double lse = f->log_sum_exp(f->dtype, x, t->classes), loss = 0;
        if (!ignored(t, target)) {
            double weight = class_weight(t, target);
            loss = (1 - f->smoothing) * weight * (lse - ls_get(f->dtype, x, target));
            if (f->smoothing > 0) {
                double others = f->smooth_weight * lse - f->weighted_sum(f->dtype, x, t->weight, t->classes);
                loss += f->smoothing / (double)t->classes * others;
            }
            sum->loss += loss;
            sum->weight += weight;
        }
        if (block->at[2].data) ls_put(t->wide, block->at[2].data, r * block->at[2].pitch, lse);
        if (block->at[3].data) ls_put(t->wide, block->at[3].data, r * block->at[3].pitch, loss);
    }
}

/* in: x [N,C], [N,C,...] or [C], target i64 [N], [N,...] or [], class weight [C]?
 * out: loss [] (attrs.loss.reduction NONE: as target), lse (as target)?, total []?
 * loss, lse and total are f32 (f64 for f64); lse = log sum exp(x) per row, total = sum of the weights of the targets:
 * both are for the gradient. attrs.loss: reduction, smoothing, ignore_index where has_ignore.
 * LS_ERR_VALUE if a target that is not ignored is out of range. */
ls_status ls_cpu_cross_entropy(const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0], *loss = call->out[0], *lse = call->out[1];
    bool per_row = call->attrs.loss.reduction == LS_REDUCE_NONE;
    ls_rows rows[4] = {ls_rows_of(x, class_dim(x)), ls_rows_of(call->in[1], 0), ls_rows_of(lse, 0),
                       ls_rows_of(per_row ? loss : NULL, 0)};
    forward f = {.dtype = x->dtype,
                 .smoothing = call->attrs.loss.smoothing,
                 .log_sum_exp = ls_softmax_table()->log_sum_exp[x->dtype],
                 .weighted_sum = ls_loss_table()->weighted_sum[x->dtype]};
    ls_status status = set_targets(&f.t, call, x, call->in[2], &rows[1], why);
    if (status != LS_OK) return status;
    if (f.smoothing > 0) f.smooth_weight = total_weight(&f.t);
    int64_t block_rows = ls_block_rows(f.t.classes, 16384), blocks;
    f.tallies = new_tallies(rows[0].count, block_rows, &blocks, why);
    if (!f.tallies) return LS_ERR_MEMORY;
    status = ls_rows_walk(rows, 2, 2, block_rows, forward_rows, &f, why);
    if (status == LS_OK) write_totals(f.tallies, blocks, call->attrs.loss.reduction, loss, call->out[2]);
    return status;
}

typedef struct backward {
    targets t;
    ls_dtype dtype;
    double smoothing, smooth_weight;
    double dloss; /* of every row, if there is no gradient per row */
    void (*slope)(const ls_cross_entropy_slope *args);
} backward;

static void backward_rows(void *arg, const ls_block *block)
{
    const backward *b = arg;
    const targets *t = &b->t;
    for (int64_t r = 0; r < block->rows; r++) {
        int64_t target = target_at(block->at[1], r);
        void *dx = (void *)(uintptr_t)row(b->dtype, block->at[4], r);
        if (ignored(t, target)) {
            memset(dx, 0, (size_t)t->classes * ls_dtype_size(b->dtype));
            continue;
        }
        double dloss = block->at[3].data ? ls_get(t->wide, block->at[3].data, r * block->at[3].pitch) : b->dloss;
        double hard = dloss * (1 - b->smoothing) * class_weight(t, target);
        double soft = dloss * b->smoothing / (double)t->classes;
        ls_cross_entropy_slope args = {.dtype = b->dtype,
                                       .n = t->classes,
                                       .x = row(b->dtype, block->at[0], r),
                                       .weight = t->weight,
                                       .dx = dx,
                                       .scale = hard + soft * b->smooth_weight,
                                       .smooth = soft,
                                       .lse = ls_get(t->wide, block->at[2].data, r * block->at[2].pitch)};
        double logp = ls_get(b->dtype, args.x, target) - args.lse;
        b->slope(&args);
        ls_put(b->dtype, dx, target, exp(logp) * args.scale - class_weight(t, target) * soft - hard);
    }
}

/* in: dloss [] or as target, x, target, class weight [C]?, lse, total []  out: dx (as x)
 * Shapes, types and attributes as in cross_entropy. */
ls_status ls_cpu_cross_entropy_grad(const ls_call *call, ls_message *why)
{
    const ls_operand *dloss = call->in[0], *x = call->in[1], *total = call->in[5];
    bool per_row = call->attrs.loss.reduction == LS_REDUCE_NONE;
    ls_rows rows[5] = {ls_rows_of(x, class_dim(x)), ls_rows_of(call->in[2], 0), ls_rows_of(call->in[4], 0),
                       ls_rows_of(per_row ? dloss : NULL, 0), ls_rows_of(call->out[0], class_dim(x))};
    backward b = {.dtype = x->dtype,
                  .smoothing = call->attrs.loss.smoothing,
                  .slope = ls_loss_table()->cross_entropy_slope[x->dtype]};
    ls_status status = set_targets(&b.t, call, x, call->in[3], &rows[1], why);
    if (status != LS_OK) return status;
    if (b.smoothing > 0) b.smooth_weight = total_weight(&b.t);
    if (!per_row) b.dloss = ls_get(dloss->dtype, dloss->data, 0);
    if (call->attrs.loss.reduction == LS_REDUCE_MEAN) b.dloss /= ls_get(total->dtype, total->data, 0);
    return ls_rows_walk(rows, 4, 1, 0, backward_rows, &b, why);
}

/* ---- Negative log likelihood ---------------------------------------------------------------------------------- */

typedef struct nll {
    targets t;
    ls_dtype dtype;
    ls_rows logp;
    double dloss;
    tally *tallies;
} nll;

static void nll_rows(void *arg, const ls_block *block)
{
    const nll *n = arg;
    const targets *t = &n->t;
    tally *sum = &n->tallies[block->index];
    for (int64_t r = 0; r < block->rows; r++) {
        int64_t target = target_at(block->at[0], r);
        double loss = 0;
        if (!ignored(t, target)) {
            double weight = class_weight(t, target);
            loss = -weight * ls_get(n->dtype, ls_row_at(&n->logp, block->first + r), target * n->logp.inner_stride[0]);
            sum->loss += loss;
            sum->weight += weight;
        }
        if (block->at[1].data) ls_put(t->wide, block->at[1].data, r * block->at[1].pitch, loss);
    }
}

/* in: logp [N,C], [N,C,...] or [C], target i64 [N], [N,...] or [], class weight [C]?
 * out: loss [] (attrs.loss.reduction NONE: as target), total []?
 * Types, attributes and errors as in cross_entropy; smoothing is ignored. */
ls_status ls_cpu_nll_loss(const ls_call *call, ls_message *why)
{
    const ls_operand *logp = call->in[0], *loss = call->out[0];
    bool per_row = call->attrs.loss.reduction == LS_REDUCE_NONE;
    ls_rows rows[2] = {ls_rows_of(call->in[1], 0), ls_rows_of(per_row ? loss : NULL, 0)};
    nll n = {.dtype = logp->dtype, .logp = ls_rows_of(logp, class_dim(logp))};
    ls_status status = set_targets(&n.t, call, logp, call->in[2], &rows[0], why);
    if (status != LS_OK) return status;
    int64_t block_rows = 4096, blocks;
    n.tallies = new_tallies(rows[0].count, block_rows, &blocks, why);
    if (!n.tallies) return LS_ERR_MEMORY;
    status = ls_rows_walk(rows, 1, 1, block_rows, nll_rows, &n, why);
    if (status == LS_OK) write_totals(n.tallies, blocks, call->attrs.loss.reduction, loss, call->out[1]);
    return status;
}

static void nll_grad_rows(void *arg, const ls_block *block)
{
    const nll *n = arg;
    const targets *t = &n->t;
    for (int64_t r = 0; r < block->rows; r++) {
        int64_t target = target_at(block->at[0], r);
        void *dlogp = (void *)(uintptr_t)row(n->dtype, block->at[2], r);
        memset(dlogp, 0, (size_t)t->classes * ls_dtype_size(n->dtype));
        if (ignored(t, target)) continue;
        double dloss = block->at[1].data ? ls_get(t->wide, block->at[1].data, r * block->at[1].pitch) : n->dloss;
        ls_put(n->dtype, dlogp, target, -dloss * class_weight(t, target));
    }
}

/* in: dloss [] or as target, target, class weight [C]?, total []  out: dlogp
 * Shapes, types and attributes as in nll_loss. */
ls_status ls_cpu_nll_loss_grad(const ls_call *call, ls_message *why)
{
    const ls_operand *dloss = call->in[0], *total = call->in[3], *dlogp = call->out[0];
    bool per_row = call->attrs.loss.reduction == LS_REDUCE_NONE;
    ls_rows rows[3] = {ls_rows_of(call->in[1], 0), ls_rows_of(per_row ? dloss : NULL, 0),
                       ls_rows_of(dlogp, class_dim(dlogp))};
    nll n = {.dtype = dlogp->dtype};
    ls_status status = set_targets(&n.t, call, dlogp, call->in[2], &rows[0], why);
    if (status != LS_OK) return status;
    if (!per_row) n.dloss = ls_get(dloss->dtype, dloss->data, 0);
    if (call->attrs.loss.reduction == LS_REDUCE_MEAN) n.dloss /= ls_get(total->dtype, total->data, 0);
    return ls_rows_walk(rows, 2, 1, 0, nll_grad_rows, &n, why);
}
