/* loss.c - losses that compare element by element: mean squared error, smooth L1, binary cross entropy from logits. */
#include "kernels/loss.h"

#include "device/cpu/cpu.h"
#include "device/cpu/rows.h"

#include <string.h>

#define ROW 4096    /* elements per row, if all operands are contiguous */
#define BLOCK 16384 /* elements summed together */

enum { X, T, WEIGHT, POS_WEIGHT, DLOSS, OUT, OPERANDS };

typedef struct pointwise {
    ls_dtype dtype;
    int64_t length; /* of a row */
    double beta, scale;
    ls_loss_fn *loss;        /* forward, */
    double *sums;            /* with one sum per block, */
    ls_loss_slope_fn *slope; /* or backward */
} pointwise;

static void *at(ls_dtype dtype, ls_matrix m, int64_t r)
{
    return m.data ? (char *)m.data + r * m.pitch * (int64_t)ls_dtype_size(dtype) : NULL;
}

static void run_rows(void *arg, const ls_block *block)
{
    const pointwise *p = arg;
    ls_dtype wide = ls_compute_dtype(p->dtype);
    for (int64_t r = 0; r < block->rows; r++) {
        ls_pointwise_loss args = {.dtype = p->dtype,
                                  .n = p->length,
                                  .beta = p->beta,
                                  .scale = p->scale,
                                  .x = at(p->dtype, block->at[X], r),
                                  .t = at(p->dtype, block->at[T], r),
                                  .weight = at(p->dtype, block->at[WEIGHT], r),
                                  .pos_weight = at(p->dtype, block->at[POS_WEIGHT], r),
                                  .dloss = at(wide, block->at[DLOSS], r)};
        if (p->loss) {
            args.loss = at(wide, block->at[OUT], r);
            p->sums[block->index] += p->loss(&args);
        } else {
            args.dx = at(p->dtype, block->at[OUT], r);
            p->slope(&args);
        }
    }
}

/* Walk rows, with one sum per block stored from `sums` on; adds the number of blocks to *blocks. */
static ls_status walk(pointwise *p, const ls_rows rows[OPERANDS], int64_t *blocks, ls_message *why)
{
    int64_t block_rows = ls_block_rows(rows[X].length, BLOCK);
    p->length = rows[X].length;
    p->sums =
        p->loss ? ls_scratch((ls_worker){0, 1}, 1, (size_t)(rows[X].count / block_rows + 2) * sizeof(double)) : NULL;
    if (p->loss && !p->sums) return ls_explain(why, LS_ERR_MEMORY, "no scratch memory for partial losses");
    if (p->loss) memset(p->sums, 0, (size_t)(rows[X].count / block_rows + 2) * sizeof(double));
    *blocks = (rows[X].count + block_rows - 1) / block_rows;
    return ls_rows_walk(rows, OPERANDS - 1, 1, block_rows, run_rows, p, why);
}

/* The elements of a contiguous operand starting at `first`, as [rows, length]. */
static ls_rows flat(const ls_operand *operand, int64_t first, int64_t rows, int64_t length)
{
    if (!operand) return ls_rows_of(NULL, 0);
    ls_operand view = {.data = (char *)operand->data + first * (int64_t)ls_dtype_size(operand->dtype),
                       .dtype = operand->dtype,
                       .ndim = 2,
                       .dim = {rows, length},
                       .stride = {length, 1}};
    return ls_rows_of(&view, 1u << 1);
}

static bool all_flat(const ls_operand *const operands[OPERANDS])
{
    for (int k = 0; k < OPERANDS; k++) {
        if (operands[k] && !ls_rows_of(operands[k], ls_dims(0, operands[k]->ndim)).direct) return false;
    }
    return true;
}

/* Process all elements; forward stores the sum of all losses to *sum. */
static ls_status run(pointwise *p, const ls_operand *const operands[OPERANDS], double *sum, ls_message *why)
{
    const ls_operand *x = operands[X];
    int64_t n = ls_operand_numel(x), blocks = 0, whole = n / ROW;
    ls_status status = LS_OK;
    ls_rows rows[OPERANDS];
    *sum = 0;
    if (all_flat(operands)) {
        for (int part = 0; part < 2 && status == LS_OK; part++) { /* rows of ROW elements, then the rest */
            int64_t rest = n - whole * ROW;
            if (part == 0 ? !whole : !rest) continue;
            for (int k = 0; k < OPERANDS; k++)
                rows[k] = part == 0 ? flat(operands[k], 0, whole, ROW) : flat(operands[k], whole * ROW, 1, rest);
            status = walk(p, rows, &blocks, why);
            for (int64_t b = 0; p->loss && b < blocks; b++) *sum += p->sums[b];
        }
        return status;
    }
    int32_t first = x->ndim; /* trailing dimensions long enough to be rows for a kernel */
    for (int64_t length = 1; first > 0 && length < 512;) length *= x->dim[--first];
    for (int k = 0; k < OPERANDS; k++) rows[k] = ls_rows_of(operands[k], ls_dims(first, x->ndim));
    status = walk(p, rows, &blocks, why);
    for (int64_t b = 0; p->loss && b < blocks; b++) *sum += p->sums[b];
    return status;
}

static ls_status forward(const ls_call *call, ls_loss_fn *loss, ls_message *why)
{
    const ls_operand *x = call->in[0], *out = call->out[0];
    ls_reduction reduction = call->attrs.loss.reduction;
    bool weighted = call->op == LS_OP_bce_with_logits;
    const ls_operand *operands[OPERANDS] = {[X] = x,
                                            [T] = call->in[1],
                                            [WEIGHT] = weighted ? call->in[2] : NULL,
                                            [POS_WEIGHT] = weighted ? call->in[3] : NULL,
                                            [OUT] = reduction == LS_REDUCE_NONE ? out : NULL};
    pointwise p = {.dtype = x->dtype, .beta = call->attrs.loss.beta, .loss = loss};
    double sum;
    ls_status status = run(&p, operands, &sum, why);
    if (status != LS_OK || reduction == LS_REDUCE_NONE) return status;
    if (reduction == LS_REDUCE_MEAN) sum /= (double)ls_operand_numel(x); /* of nothing: NaN */
    ls_put(out->dtype, out->data, 0, sum);
    return LS_OK;
}

static ls_status backward(const ls_call *call, ls_loss_slope_fn *slope, ls_message *why)
{
    const ls_operand *dloss = call->in[0], *x = call->in[1];
    ls_reduction reduction = call->attrs.loss.reduction;
    bool weighted = call->op == LS_OP_bce_with_logits_grad, per_element = reduction == LS_REDUCE_NONE;
    const ls_operand *operands[OPERANDS] = {[X] = x,
                                            [T] = call->in[2],
                                            [WEIGHT] = weighted ? call->in[3] : NULL,
                                            [POS_WEIGHT] = weighted ? call->in[4] : NULL,
                                            [DLOSS] = per_element ? dloss : NULL,
                                            [OUT] = call->out[0]};
    pointwise p = {.dtype = x->dtype, .beta = call->attrs.loss.beta, .scale = 1, .slope = slope};
    if (!per_element) p.scale = ls_get(dloss->dtype, dloss->data, 0);
    if (reduction == LS_REDUCE_MEAN) p.scale /= (double)ls_operand_numel(x);
    double unused;
    return run(&p, operands, &unused, why);
}

/* in: x, t  out: loss [] (attrs.loss.reduction NONE: as x)
 * x and t have one shape and type; loss is f32 (f64 for f64). smooth_l1_loss: attrs.loss.beta, 0 gives the L1 loss. */
ls_status ls_cpu_mse_loss(const ls_call *call, ls_message *why)
{
    return forward(call, ls_loss_table()->mse[call->in[0]->dtype], why);
}

ls_status ls_cpu_smooth_l1_loss(const ls_call *call, ls_message *why)
{
    return forward(call, ls_loss_table()->smooth_l1[call->in[0]->dtype], why);
}

/* in: x, t, weight?, pos_weight?  out: loss [] (attrs.loss.reduction NONE: as x)
 * All inputs have the shape and type of x, broadcast by strides of 0 if needed. */
ls_status ls_cpu_bce_with_logits(const ls_call *call, ls_message *why)
{
    return forward(call, ls_loss_table()->bce[call->in[0]->dtype], why);
}

/* in: dloss [] or as x, x, t  out: dx (as x). The gradient for t is -dx. */
ls_status ls_cpu_mse_loss_grad(const ls_call *call, ls_message *why)
{
    return backward(call, ls_loss_table()->mse_slope[call->in[1]->dtype], why);
}

ls_status ls_cpu_smooth_l1_loss_grad(const ls_call *call, ls_message *why)
{
    return backward(call, ls_loss_table()->smooth_l1_slope[call->in[1]->dtype], why);
}

/* in: dloss [] or as x, x, t, weight?, pos_weight?  out: dx (as x) */
ls_status ls_cpu_bce_with_logits_grad(const ls_call *call, ls_message *why)
{
    return backward(call, ls_loss_table()->bce_slope[call->in[1]->dtype], why);
}
