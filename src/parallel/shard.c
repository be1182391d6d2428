/* shard.c - optimisers that share out their state: each process has a slice of every block. */
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

static void reopen_slot(ls_reducer *p, ls_slot *slot, const ls_comm *comm)
{
    ls_tensor *gradient = ls_leaf_holds(slot->tensor) ? ls_leaf_room(slot->tensor) : NULL;
    int block = gradient ? ls_block_of(p, gradient->view.data) : INT_MAX;
    if (block == INT_MAX) return;
    float *x = gradient->view.data;
    int64_t n = ls_view_numel(&gradient->view), begin = x - (const float *)(const void *)p->blocks[block].base;
    ls_range own = ls_slice_of((int64_t)(p->blocks[block].bytes / sizeof *x), comm->rank, comm->size);
    for (int64_t i = 0; i < n; i++) {
        bool mine = begin + i >= own.begin && begin + i < own.end;
        x[i] = mine ? x[i] * (float)comm->size : 0;
    }
}

void ls_shard_reopen(ls_reducer *p)
{
    for (int i = 0; p->in_slices && i < p->slot_count; i++)
        if (ls_wants_grad(p->slots[i]->tensor)) reopen_slot(p, p->slots[i], ls_reducer_comm(p));
    p->in_slices = false;
}

/* ---- for optimisers ---- */

bool ls_reducer_spread(ls_reducer *p, ls_tensor *block, ls_range part)
{
    ls_comm *comm = ls_reducer_comm(p);
    ls_message why = {{0}};
    float *out = (float *)block->view.data + part.begin;
    ls_shard_counts(p, ls_view_numel(&block->view), part);
    ls_comm_call call = {.kind = LS_COMM_ALL_GATHER,
                         .dtype = LS_F32,
                         .count = p->counts[comm->rank],
                         .counts = p->counts,
                         .out = out,
                         .site = "new parameters"};
    call.in = out + ls_comm_before(&call, comm->rank);
    return ls_reducer_check(p, ls_comm_run(comm, &call, &why), &why, "ls_step");
}

bool ls_reducer_sum(ls_reducer *p, double *number)
{
    ls_message why = {{0}};
    ls_status status =
        ls_comm_all_reduce(ls_reducer_comm(p), number, 1, LS_F64, LS_COMM_SUM, "sum over slices of gradients", &why);
    return ls_reducer_check(p, status, &why, "ls_step");
}

ls_tensor *ls_reducer_collect(ls_reducer *p, const ls_tensor *slice, int64_t numel)
{
    ls_comm *comm = ls_reducer_comm(p);
    ls_message why = {{0}};
    ls_tensor *whole = NULL;
    if (comm->rank == 0) {
        whole = ls_tensor_new(p->run, p->run->device, LS_F32, LS_SHAPE(numel));
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
    return ls_reducer_check(p, ls_comm_run(comm, &call, &why), &why, "ls_optim_state") ? whole : &p->run->poison;
}
