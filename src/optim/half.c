/* half.c - copies of f32 parameters in the precision of the forward pass, for devices that request them: the step that
 * changes a parameter writes its copy in the same pass; without them a device converts one weight after the other.
 * Parameters that no product reads have none. */
#include "optim/optim.h"

static bool possible(const ls_optim *optim, const ls_optim_slot *slot)
{
    const ls_run *run = optim->object.run;
    return ls_device_has(optim->device, LS_TRAIT_HALF_COPY) && run->step->mixed_precision != LS_F32 &&
           slot->parameter->view.dtype == LS_F32 && !ls_slot_shared_out(optim, slot);
}

/* Is there room for it in the copy of its block? */
static bool has_place(const ls_optim_block *block, const ls_optim_slot *slot)
{
    return block && block->half && slot->offset >= block->half_begin;
}

static ls_tensor *copy_of(ls_tensor *parameters)
{
    ls_tensor *half = ls_tensor_new_like(parameters, parameters->run->step->mixed_precision);
    return ls_is_valid(half) && ls_raw_copy(half, parameters) ? ls_alias_owned(half) : NULL;
}

/* A block's copy begins with the first slot that is in products: tables of embeddings, which come first, are not. The
 * few that are not behind it have a copy too, so that one call updates all. */
static bool block_need_half(ls_optim_block *block, int64_t begin)
{
    if (block->half) return true;
    ls_tensor *part = ls_elements_of(block->parameters, (ls_range){begin, block->numel});
    block->half_begin = begin;
    return ls_is_valid(part) && (block->half = copy_of(part)) != NULL;
}

bool ls_slot_need_half(ls_optim *optim, ls_optim_slot *slot)
{
    ls_optim_block *block = ls_slot_block(optim, slot);
    if (slot->half || !possible(optim, slot)) return true;
    if (!has_place(block, slot) && !ls_leaf_multiplied(slot->parameter)) return true;
    if (block && !block_need_half(block, slot->offset)) return false;
    slot->half = has_place(block, slot)
                     ? ls_block_piece(block->half, slot->offset - block->half_begin, &slot->parameter->view)
                     : copy_of(slot->parameter);
    return slot->half != NULL;
}

void ls_slot_half_written(ls_optim_slot *slot)
{
    ls_derived *derived = slot->parameter->view.derived;
    if (!slot->half || !derived) return;
    derived->half = slot->half->view.data;
    derived->half_dtype = slot->half->view.dtype;
    derived->half_version = derived->version;
}

void ls_slot_half_free(ls_optim_slot *slot)
{
    if (slot->half && slot->parameter->view.derived) slot->parameter->view.derived->half = NULL;
    ls_release(slot->half);
    slot->half = NULL;
}
