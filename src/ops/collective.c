/* collective.c - operators whose input comes from all processes of a communicator.
 *
 * A gradient is that of the sum of all processes' losses: the gradient of a value sent to all is the sum of theirs. So
 * backward must reach these operators in the same order on all processes. */
#include <lockstep/comm.h>

#include <stdio.h>

#include "base/hash.h"
#include "comm/queue.h"
#include "ops/op.h"
#include "tensor/exchange.h"

/* ---- calling ---- */

static int number_of(const ls_run *run, const ls_comm *comm)
{
    for (int i = 0; comm && i < run->group_count; i++)
        if (run->groups[i] == comm) return i;
    return -1;
}

/* If this process cannot make the call, release the others, which would wait for it. */
static ls_tensor *refuse(ls_run *run)
{
    ls_report_failure(run);
    return &run->poison;
}

/* The run if the call can be made; attrs then names the communicator. */
static ls_run *begin(ls_opcode op, ls_comm *comm, ls_tensor *x, ls_attrs *attrs)
{
    ls_run *run = op_begin(op, 1, 1, &x);
    if (!run) return refuse(ls_run_of(x)), NULL;
    attrs->collective.group = number_of(run, comm);
    if (attrs->collective.group >= 0) return run;
    op_error(run, op, LS_ERR_VALUE, "%s",
             comm ? "the communicator does not belong to this run"
                  : "the communicator is NULL: this process is not a member");
    return refuse(run), NULL;
}

/* y = the result of the call for x, both row-major. */
static ls_tensor *finish(ls_opcode op, ls_comm_kind kind, ls_tensor *x, ls_tensor *y, const ls_attrs *attrs)
{
    ls_run *run = y->run;
    ls_comm *comm = run->groups[attrs->collective.group];
    ls_tensor *from = ls_is_valid(y) ? ls_raw_contiguous(x) : y;
    ls_message why = {{0}};
    ls_node *node;
    if (!ls_is_valid(from)) return refuse(run);
    bool gives = comm->rank == attrs->collective.root || ls_device_records(y->storage->device);
    if (kind == LS_COMM_BROADCAST && gives && !ls_raw_copy(y, x)) return refuse(run);
    char site[80], text[LS_TEXT];
    snprintf(site, sizeof site, "%s of %s", ls_op_table[op].name, ls_operand_text(&x->view, text));
    ls_shape shape = ls_view_shape(&x->view);
    ls_comm_call call = {.kind = kind,
                         .dtype = x->view.dtype,
                         .op = (ls_reduction)attrs->collective.op,
                         .count = ls_view_numel(kind == LS_COMM_REDUCE_SCATTER ? &y->view : &x->view),
                         .in = from->view.data,
                         .out = y->view.data,
                         .peer = attrs->collective.root,
                         .shape = ls_hash_of(shape.dim, (size_t)shape.ndim * sizeof *shape.dim),
                         .site = site};
    ls_comm_queue_enter(comm->queue);
    ls_status status = ls_comm_run_on(comm, y->storage->device, &call, &why);
    ls_comm_queue_leave(comm->queue);
    if (status) return op_error(run, op, status, "%s", why.text), refuse(run);
    return op_record(op, 1, &x, 1, &y, attrs, &node) ? y : refuse(run);
}

/* Only linear reductions have gradients. */
static bool can_combine(ls_run *run, ls_opcode op, ls_reduction how, ls_tensor *x)
{
    bool linear = how == LS_REDUCE_SUM || how == LS_REDUCE_MEAN;
    if ((unsigned)how >= LS_REDUCE_NONE)
        op_error(run, op, LS_ERR_VALUE, "%d is not a reduction over processes", (int)how);
    else if (how == LS_REDUCE_MEAN && !ls_dtype_is_float(x->view.dtype))
        op_error(run, op, LS_ERR_DTYPE, "the mean of %s needs a floating type; ls_cast() it first", OP_TEXT(x));
    else if (!linear && ls_must_record(run, 1, &x))
        op_error(run, op, LS_ERR_UNSUPPORTED, "%s over processes has no gradient; ls_detach() the input",
                 ls_comm_op_name(how));
    return !ls_failed(run);
}

/* ---- operators ---- */

ls_tensor *ls_all_reduce(ls_comm *comm, ls_tensor *x, ls_reduction op)
{
    ls_attrs attrs = {.collective = {.op = (int32_t)op}};
    ls_run *run = begin(LS_OP_all_reduce, comm, x, &attrs);
    if (!run) return op_poison(x);
    if (!can_combine(run, LS_OP_all_reduce, op, x)) return refuse(run);
    ls_tensor *y = op_new(x, x->view.dtype, ls_view_shape(&x->view));
    return finish(LS_OP_all_reduce, LS_COMM_ALL_REDUCE, x, y, &attrs);
}

ls_tensor *ls_all_gather(ls_comm *comm, ls_tensor *x)
{
    ls_attrs attrs = {.collective = {0}};
    ls_run *run = begin(LS_OP_all_gather, comm, x, &attrs);
    if (!run) return op_poison(x);
    ls_shape shape = ls_view_shape(&x->view);
    if (shape.ndim == 0)
        return op_error(run, LS_OP_all_gather, LS_ERR_SHAPE, "[] has no rows; ls_reshape() it to [1]"), refuse(run);
    shape.dim[0] *= comm->size;
    return finish(LS_OP_all_gather, LS_COMM_ALL_GATHER, x, op_new(x, x->view.dtype, shape), &attrs);
}

ls_tensor *ls_reduce_scatter(ls_comm *comm, ls_tensor *x, ls_reduction op)
{
    ls_attrs attrs = {.collective = {.op = (int32_t)op}};
    ls_run *run = begin(LS_OP_reduce_scatter, comm, x, &attrs);
    if (!run) return op_poison(x);
    if (!can_combine(run, LS_OP_reduce_scatter, op, x)) return refuse(run);
    ls_shape shape = ls_view_shape(&x->view);
    if (shape.ndim == 0 || shape.dim[0] % comm->size) {
        op_error(run, LS_OP_reduce_scatter, LS_ERR_SHAPE, "%s cannot be divided into equal rows for %d processes",
                 OP_TEXT(x), comm->size);
        return refuse(run);
    }
    shape.dim[0] /= comm->size;
    return finish(LS_OP_reduce_scatter, LS_COMM_REDUCE_SCATTER, x, op_new(x, x->view.dtype, shape), &attrs);
}

ls_tensor *ls_broadcast_from(ls_comm *comm, ls_tensor *x, int root)
{
    ls_attrs attrs = {.collective = {.root = root}};
    ls_run *run = begin(LS_OP_broadcast, comm, x, &attrs);
    if (!run) return op_poison(x);
    if (root < 0 || root >= comm->size) {
        op_error(run, LS_OP_broadcast, LS_ERR_VALUE, "there is no rank %d among %d processes", root, comm->size);
        return refuse(run);
    }
    ls_tensor *y = op_new(x, x->view.dtype, ls_view_shape(&x->view));
    return finish(LS_OP_broadcast, LS_COMM_BROADCAST, x, y, &attrs);
}

/* ---- gradients ---- */

/* The communicator of a node; NULL (and an error) if it was freed since. */
static ls_comm *comm_of(const ls_node *node, ls_run *run)
{
    ls_comm *comm = run->groups[node->attrs.collective.group];
    if (!comm)
        ls_fail(&run->errors, LS_ERR_STATE, "ls_backward: the communicator of %s was freed before backward",
                node->op->name);
    return comm;
}

BACK(all_reduce)
{
    ls_comm *comm = comm_of(node, dy[0]->run);
    if (comm) dx[0] = ls_all_reduce(comm, dy[0], (ls_reduction)node->attrs.collective.op);
}

BACK(all_gather)
{
    ls_comm *comm = comm_of(node, dy[0]->run);
    if (comm) dx[0] = ls_reduce_scatter(comm, dy[0], LS_REDUCE_SUM);
}

BACK(reduce_scatter)
{
    ls_comm *comm = comm_of(node, dy[0]->run);
    if (!comm) return;
    dx[0] = ls_all_gather(comm, dy[0]);
    if (node->attrs.collective.op == LS_REDUCE_MEAN) dx[0] = ls_mul_scalar(dx[0], 1.0 / comm->size);
}

/* The gradient of the other ranks' inputs is zero, since nothing depends on them. They continue with it, because there
 * may be more collectives further back. */
BACK(broadcast)
{
    ls_comm *comm = comm_of(node, dy[0]->run);
    if (!comm) return;
    ls_tensor *sum = ls_all_reduce(comm, dy[0], LS_REDUCE_SUM);
    bool is_root = comm->rank == node->attrs.collective.root;
    dx[0] = is_root ? sum : ls_full_shape(sum->run, sum->view.dtype, 0, ls_view_shape(&sum->view));
}
