/* softmax.c - softmax and log softmax along one dimension, and their gradients. */
#include "kernels/softmax.h"

#include "device/cpu/cpu.h"
#include "device/cpu/rows.h"

typedef struct forward {
    ls_dtype dtype;
    int64_t length;
    bool large; /* the result */
    void (*kernel)(const ls_softmax_rows *args);
} forward;

static void forward_rows(void *arg, const ls_block *block)
{
    const forward *f = arg;
    f->kernel(&(ls_softmax_rows){.dtype = f->dtype,
                                 .rows = block->rows,
                                 .n = f->length,
                                 .x = block->at[0],
                                 .y = block->at[1],
                                 .stream = f->large && ls_block_may_stream(block, 1, ls_dtype_size(f->dtype))});
}

static ls_status run_forward(const ls_call *call, void (*kernel)(const ls_softmax_rows *args), ls_message *why)
{
    const ls_operand *x = call->in[0], *y = call->out[0];
    uint32_t along = x->ndim ? 1u << call->attrs.axis.dim : 0;
    ls_rows rows[2] = {ls_rows_of(x, along), ls_rows_of(y, along)};
    forward f = {x->dtype, rows[0].length, ls_rows_large(&rows[1], ls_softmax_table()->stream_bytes), kernel};
    return f.length ? ls_rows_walk(rows, 1, 1, 0, forward_rows, &f, why) : LS_OK;
}

/* in: x, any shape  out: y, shape and type of x. Along attrs.axis.dim. */
ls_status ls_cpu_softmax(const ls_call *call, ls_message *why)
{
    return run_forward(call, ls_softmax_table()->softmax[call->in[0]->dtype], why);
}

ls_status ls_cpu_log_softmax(const ls_call *call, ls_message *why)
{
    return run_forward(call, ls_softmax_table()->log_softmax[call->in[0]->dtype], why);
}

typedef struct backward {
    ls_dtype dtype;
    int64_t length;
    bool large; /* the result */
    void (*kernel)(const ls_softmax_grad_rows *args);
} backward;

static void backward_rows(void *arg, const ls_block *block)
{
    const backward *b = arg;
    b->kernel(&(ls_softmax_grad_rows){.dtype = b->dtype,
                                      .rows = block->rows,
                                      .n = b->length,
                                      .dy = block->at[0],
                                      .y = block->at[1],
                                      .dx = block->at[2],
                                      .stream = b->large && ls_block_may_stream(block, 2, ls_dtype_size(b->dtype))});
}

static ls_status run_backward(const ls_call *call, void (*kernel)(const ls_softmax_grad_rows *args), ls_message *why)
{
    const ls_operand *dy = call->in[0];
    uint32_t along = dy->ndim ? 1u << call->attrs.axis.dim : 0;
    ls_rows rows[3] = {ls_rows_of(dy, along), ls_rows_of(call->in[1], along), ls_rows_of(call->out[0], along)};
    backward b = {dy->dtype, rows[0].length, ls_rows_large(&rows[2], ls_softmax_table()->stream_bytes), kernel};
    return b.length ? ls_rows_walk(rows, 2, 1, 0, backward_rows, &b, why) : LS_OK;
}

/* in: dy, y (the result of the forward operator)  out: dx. All of one shape and type, along attrs.axis.dim. */
ls_status ls_cpu_softmax_grad(const ls_call *call, ls_message *why)
{
    return run_backward(call, ls_softmax_table()->softmax_grad[call->in[0]->dtype], why);
}

ls_status ls_cpu_log_softmax_grad(const ls_call *call, ls_message *why)
{
    return run_backward(call, ls_softmax_table()->log_softmax_grad[call->in[0]->dtype], why);
}
