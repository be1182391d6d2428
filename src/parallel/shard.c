/* shard.c - sharded optimiser state: each process has a slice of every block. */
#include <limits.h>
#include <string.h>

#include "autograd/tape.h"
#include "parallel/inside.h"

void ls_shard_counts(ls_reducer *p, int64_t n, ls_range part)
{
    int size = ls_reducer_comm(p)->size;
    for (int r = 0; r < size; r++) {
        ls_range slice = ls_slice_of(n, r, size);
        int64_t begin = slice.begin > part.begin ? slice.begin : part.begin;
        int64_t end = slice.end < part.end ? slice.end : part.end;
        p->counts[r] = begin < end ? end - begin : 0;
    }
}

/* ---- gradients of more than one pass ---- */

/* Multiply elements [begin, end) of a gradient by a factor; a factor of 0 sets them to zero, even NaN. */
static void scale(ls_reducer *p, const ls_tensor *gradient, int64_t begin, int64_t end, double factor)
{
    if (begin >= end || ls_failed(p->run)) return;
    ls_operand part = {.data = (char *)gradient->view.data + (size_t)begin * sizeof(float), .dtype = LS_F32};
    ls_view_set_contiguous(&part, LS_SHAPE(end - begin));
    ls_call call = {.op = LS_OP_affine, .n_in = 1, .n_out = 1, .in = {&part}, .out = {&part}};
    call.attrs = (ls_attrs){.affine = {.scale = factor}};
    if (factor == 0) call.op = LS_OP_fill, call.n_in = 0;
    ls_submit(p->run, p->device, &call);
}

static int64_t within(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

static void reopen_slot(ls_reducer *p, ls_slot *slot, const ls_comm *comm)
{
    ls_tensor *gradient = ls_leaf_holds(slot->tensor) ? ls_leaf_room(slot->tensor) : NULL;
    int block = gradient ? ls_block_of(p, gradient->view.data) : INT_MAX;
    if (block == INT_MAX) return;
    const ls_gradient_block *b = &p->blocks[block];
    int64_t n = ls_view_numel(&gradient->view);
    int64_t at = ((const char *)gradient->view.data - b->base) / (int64_t)sizeof(float);
    ls_range own = ls_slice_of((int64_t)(b->bytes / sizeof(float)), comm->rank, comm->size);
    int64_t begin = within(own.begin - at, 0, n), end = within(own.end - at, 0, n);
    scale(p, gradient, 0, begin, 0);
    scale(p, gradient, begin, end, comm->size);
    scale(p, gradient, end, n, 0);
}

void ls_shard_reopen(ls_reducer *p)
{
    for (int i = 0; p->in_slices && i < p->slot_count; i++)
        if (ls_requires_grad(p->slots[i]->tensor)) reopen_slot(p, p->slots[i], ls_reducer_comm(p));
    p->in_slices = false;
}

/* ---- for optimisers ---- */

bool ls_reducer_spread(ls_reducer *p, ls_tensor *block, ls_range part)
{
    ls_comm *comm = ls_reducer_comm(p);
    ls_message why = {{0}};
    char *out = (char *)block->view.data + (size_t)part.begin * sizeof(float);
    ls_shard_counts(p, ls_view_numel(&block->view), part);
    ls_comm_call call = {.kind = LS_COMM_ALL_GATHER,
                         .dtype = LS_F32,
                         .count = p->counts[comm->rank],
                         .counts = p->counts,
                         .out = out,
                         .site = "new parameters"};
    call.in = out + (size_t)ls_comm_offset(&call, comm->rank) * sizeof(float);
    return ls_reducer_check(p, ls_comm_run_on(comm, block->storage->device, &call, &why), &why, "ls_step");
}

bool ls_reducer_sum(ls_reducer *p, double *number)
{
    ls_message why = {{0}};
    ls_status status =
        ls_comm_all_reduce(ls_reducer_comm(p), number, 1, LS_F64, LS_REDUCE_SUM, "sum over slices of gradients", &why);
    return ls_reducer_check(p, status, &why, "ls_step");
}

ls_tensor *ls_reducer_collect(ls_reducer *p, const ls_tensor *slice, int64_t numel)
{
    ls_comm *comm = ls_reducer_comm(p);
    ls_message why = {{0}};
    ls_tensor *whole = NULL;
    if (comm->rank == 0) {
        whole = ls_tensor_new(p->run, slice->storage->device, LS_F32, LS_SHAPE(numel));
        if (!ls_is_valid(whole)) ls_reducer_call_off(p);
        if (!ls_is_valid(whole)) return whole;
    }
    ls_shard_counts(p, numel, (ls_range){0, numel});
    ls_comm_call call = {.kind = LS_COMM_GATHER,
                         .dtype = LS_F32,
                         .count = p->counts[comm->rank],
                         .counts = p->counts,
                         .in = slice->view.data,
                         .out = whole ? whole->view.data : NULL,
                         .site = "state of an optimiser"};
    ls_status status = ls_comm_run_on(comm, slice->storage->device, &call, &why);
    return ls_reducer_check(p, status, &why, "ls_optim_state_dict") ? whole : &p->run->poison;
}
