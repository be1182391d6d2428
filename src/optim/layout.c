/* layout.c - place parameters, gradients and moments in blocks of memory. */
#include "optim/optim.h"

#include "autograd/tape.h"
#include "base/log.h"
#include "tensor/live.h"

enum { GRAIN = 16 }; /* elements per cache line */

static int64_t room_of(int64_t numel)
{
    return (numel + GRAIN - 1) / GRAIN * GRAIN;
}

/* Was its memory moved here with another parameter's? */
static bool in_blocks(const ls_optim *optim, const ls_tensor *p)
{
    for (int i = 0; i < optim->block_count; i++)
        if (p->storage->whole == optim->blocks[i].parameters->storage) return true;
    return false;
}

/* Do several processes train? Then all of them must lay out alike, whatever else their programs hold. */
static bool is_together(const ls_optim *optim)
{
    return ls_reducer_trains(optim->object.run->step->reducer);
}

static bool movable(const ls_optim *optim, const ls_optim_slot *slot, int group)
{
    const ls_tensor *p = slot->parameter;
    /* Slices of sharded state consist of elements in row-major order. */
    bool fits = optim->object.run->step->share.optimizer ? ls_view_contiguous(&p->view) : ls_view_dense(&p->view);
    return !slot->block && slot->group == group && ls_requires_grad(p) && p->view.dtype == LS_F32 && fits &&
           p->storage->device == optim->device && !in_blocks(optim, p) && (is_together(optim) || !ls_is_part(p));
}

ls_tensor *ls_block_piece(ls_tensor *block, int64_t offset, const ls_operand *like)
{
    ls_tensor *t = ls_handle_new_owned(block->run);
    if (!t) return NULL;
    ls_storage *part = ls_storage_part(block->run, block->storage);
    if (!part) return ls_release(t), NULL;
    ls_storage_show(part, t);
    t->view = *like;
    t->view.derived = NULL;
    t->view.dtype = block->view.dtype;
    t->view.data = (char *)block->view.data + (size_t)offset * ls_dtype_size(block->view.dtype);
    return t;
}

ls_tensor *ls_elements_of(ls_tensor *t, ls_range which)
{
    ls_tensor *whole = ls_raw_contiguous(t), *part = ls_is_valid(whole) ? ls_alias(whole) : whole;
    if (!ls_is_valid(part)) return part;
    part->view = ls_operand_part(ls_operand_flat(&whole->view), which);
    return part;
}

/* ---- which process updates what ---- */

ls_optim_block *ls_slot_block(const ls_optim *optim, const ls_optim_slot *slot)
{
    return slot->block ? &optim->blocks[slot->block - 1] : NULL;
}

bool ls_slot_shared_out(const ls_optim *optim, const ls_optim_slot *slot)
{
    return slot->block && ls_slot_block(optim, slot)->shared_out;
}

bool ls_optim_shared_out(const ls_optim *optim)
{
    for (int i = 0; i < optim->block_count; i++)
        if (optim->blocks[i].shared_out) return true;
    return false;
}

ls_range ls_slot_own(const ls_optim *optim, const ls_optim_slot *slot)
{
    int64_t numel = ls_view_numel(&slot->parameter->view);
    if (!ls_slot_shared_out(optim, slot)) return (ls_range){0, numel};
    ls_range own = ls_slot_block(optim, slot)->own;
    int64_t begin = own.begin - slot->offset, end = own.end - slot->offset;
    if (begin < 0) begin = 0;
    if (end > numel) end = numel;
    return begin < end ? (ls_range){begin, end} : (ls_range){0, 0};
}

/* ---- moments ---- */

static bool block_need_moment(ls_optim_block *block, int k)
{
    if (block->moments[k]) return true;
    const ls_tensor *p = block->parameters;
    ls_tensor *t = ls_tensor_new(p->run, p->storage->device, LS_F32, LS_SHAPE(block->own.end - block->own.begin));
    if (t->life != LS_LIFE_LIVE || !ls_begin_at(t, 0)) return false;
    return (block->moments[k] = ls_alias_owned(t)) != NULL;
}

bool ls_slot_keeps_master(const ls_optim *optim, const ls_optim_slot *slot)
{
    return optim->master_weights && ls_dtype_size(slot->parameter->view.dtype) < sizeof(float);
}

bool ls_slot_need_master(ls_optim_slot *slot)
{
    if (slot->master) return true;
    ls_tensor *master = ls_tensor_new_like(slot->parameter, LS_F32);
    if (ls_is_valid(master) && ls_raw_copy(master, slot->parameter)) slot->master = ls_alias_owned(master);
    return slot->master != NULL;
}

bool ls_slot_need_moment(ls_optim *optim, ls_optim_slot *slot, int k)
{
    ls_optim_block *block = ls_slot_block(optim, slot);
    if (slot->moments[k]) return true;
    if (block) {
        ls_range own = ls_slot_own(optim, slot);
        ls_operand like = slot->parameter->view;
        if (block->shared_out) ls_view_set_contiguous(&like, LS_SHAPE(own.end - own.begin));
        if (!block_need_moment(block, k)) return false;
        if (block->shared_out && own.begin == own.end) return true;
        slot->moments[k] = ls_block_piece(block->moments[k], slot->offset + own.begin - block->own.begin, &like);
        return slot->moments[k] != NULL;
    }
    if (ls_slot_keeps_master(optim, slot) && !ls_slot_need_master(slot)) return false;
    ls_tensor *like = slot->master ? slot->master : slot->parameter;
    ls_tensor *moment = ls_tensor_new_like(like, like->view.dtype);
    if (moment->life != LS_LIFE_LIVE || !ls_begin_at(moment, 0)) return false;
    slot->moments[k] = ls_alias_owned(moment);
    return slot->moments[k] != NULL;
}

/* Copy the moments that a slot had before it was moved. */
static bool move_moment(ls_optim *optim, ls_optim_slot *slot, int k)
{
    ls_tensor *before = slot->moments[k];
    slot->moments[k] = NULL;
    bool ok = ls_slot_need_moment(optim, slot, k);
    if (ok && before && slot->moments[k] && !ls_slot_shared_out(optim, slot))
        ok = ls_raw_copy(slot->moments[k], before);
    else if (ok && before && slot->moments[k]) {
        ls_tensor *flat = ls_elements_of(slot->moments[k], (ls_range){0, ls_view_numel(&slot->moments[k]->view)});
        ls_tensor *part = ls_elements_of(before, ls_slot_own(optim, slot));
        ok = ls_is_valid(flat) && ls_is_valid(part) && ls_raw_copy(flat, part);
    }
    ls_release(before);
    return ok;
}

/* ---- moving ---- */

/* A gradient that the program keeps in memory of its own stays there, where only one process trains. */
static bool place_gradient(const ls_optim *optim, ls_optim_slot *slot, int64_t offset, const ls_optim_block *block)
{
    if (!is_together(optim) && ls_leaf_grad_is_part(slot->parameter)) return true;
    slot->grad_memory = ls_block_piece(block->gradients, offset, &slot->parameter->view);
    if (!slot->grad_memory) return false;
    ls_leaf_move_grad(slot->parameter, slot->grad_memory);
    return !ls_failed(optim->object.run);
}

static bool move_slot(ls_optim *optim, ls_optim_slot *slot, int number, int64_t offset)
{
    const ls_optim_block *block = &optim->blocks[number - 1];
    ls_tensor *p = slot->parameter, *home = ls_block_piece(block->parameters, offset, &p->view);
    if (!home) return false;
    if (ls_is_part(p))
        ls_log_line(LS_LOG_WARN,
                    "%s: %s is a part of another tensor, which shows old numbers from now on: a step of several "
                    "processes moves only the parameter (.scattered = true leaves it)",
                    optim->rule->name, slot->name);
    bool ok = ls_raw_copy(home, p);
    if (ok) ls_move(p, home);
    ls_release(home);
    if (!ok) return false;
    if (!place_gradient(optim, slot, offset, block)) return false;
    slot->block = number;
    slot->offset = offset;
    slot->room = room_of(ls_numel(p));
    int moments = optim->rule->moment_count(&optim->groups[slot->group].now);
    for (int k = 0; k < LS_MAX_MOMENTS; k++)
        if ((k < moments || slot->moments[k]) && !move_moment(optim, slot, k)) return false;
    return true;
}

/* Append a new block to the optimiser's. */
static bool add_block(ls_optim *optim, int64_t numel)
{
    ls_run *run = optim->object.run;
    bool together = is_together(optim);
    ls_optim_block *grown = ls_sys_realloc(optim->blocks, (size_t)(optim->block_count + 1) * sizeof *grown);
    if (!grown) return ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory", optim->rule->name), false;
    optim->blocks = grown;
    ls_optim_block *b = &optim->blocks[optim->block_count];
    *b = (ls_optim_block){.numel = numel, .own = {0, numel}};
    b->shared_out = together && run->step->share.optimizer && optim->object.prepared;
    if (b->shared_out) b->own = ls_slice_of(numel, run->step->share.rank, run->step->share.world);
    ls_tensor *parameters = b->shared_out ? ls_reducer_parameters(run->step->reducer, numel)
                                          : ls_tensor_new(run, optim->device, LS_F32, LS_SHAPE(numel));
    ls_tensor *gradients = together ? ls_reducer_block(run->step->reducer, numel)
                                    : ls_tensor_new(run, optim->device, LS_F32, LS_SHAPE(numel));
    if (ls_failed(run) || !ls_raw_fill(parameters, 0) || !ls_raw_fill(gradients, 0)) return false;
    b->parameters = ls_alias_owned(parameters);
    b->gradients = b->parameters ? ls_alias_owned(gradients) : NULL;
    if (!b->gradients) return ls_release(b->parameters), false;
    optim->block_count++;
    return true;
}

static bool lay_out_group(ls_optim *optim, int group)
{
    int64_t numel = 0, offset = 0;
    for (int64_t i = 0; i < optim->slot_count; i++)
        if (movable(optim, &optim->slots[i], group)) numel += room_of(ls_numel(optim->slots[i].parameter));
    if (numel == 0) return true;
    if (!add_block(optim, numel)) return false;
    for (int64_t i = 0; i < optim->slot_count; i++) {
        ls_optim_slot *slot = &optim->slots[i];
        if (!movable(optim, slot, group)) continue;
        if (!move_slot(optim, slot, optim->block_count, offset)) return false;
        offset += slot->room;
    }
    return true;
}

bool ls_optim_lay_out(ls_optim *optim)
{
    ls_run *run = optim->object.run;
    if (optim->scattered || (optim->device && ls_device_has(optim->device, LS_TRAIT_SCATTERED))) return true;
    ls_mark mark = ls_scope_begin(run);
    for (int group = 0; group < optim->group_count && !ls_failed(run); group++) lay_out_group(optim, group);
    ls_scope_end(run, mark, NULL);
    return !ls_failed(run);
}

static bool in_block(const ls_optim_slot *slot, const ls_tensor *gradient)
{
    return slot->grad_memory && gradient->view.data == slot->grad_memory->view.data;
}

bool ls_slot_check_home(const ls_optim *optim, const ls_optim_slot *slot, const ls_tensor *gradient)
{
    if (!ls_slot_shared_out(optim, slot)) return true;
    const char *home = (const char *)ls_slot_block(optim, slot)->parameters->view.data;
    if (in_block(slot, gradient) && slot->parameter->view.data == home + (size_t)slot->offset * sizeof(float))
        return true;
    ls_fail(
        &optim->object.run->errors, LS_ERR_STATE,
        "%s: %s was moved by another optimiser or by ls_set_grad_memory(); with .shard_optimizer a parameter must have "
        "one optimiser, and its gradient one place",
        optim->rule->name, slot->name);
    return false;
}

bool ls_slots_adjoin(const ls_optim_slot *a, const ls_tensor *grad_a, const ls_optim_slot *b, const ls_tensor *grad_b)
{
    /* Another optimiser may have moved the one or the other, if its memory is a parameter there as well. */
    const char *end = (const char *)a->parameter->view.data + (size_t)a->room * sizeof(float);
    return a->block && a->block == b->block && b->offset == a->offset + a->room && in_block(a, grad_a) &&
           in_block(b, grad_b) && (const char *)b->parameter->view.data == end;
}
