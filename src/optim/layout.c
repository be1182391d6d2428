/* layout.c - parameters, gradients and moments in blocks of memory.
 *
 * A block holds the f32 parameters of one group in order, each beginning on a cache line; three more of the same layout
 * hold gradients and moments. The gaps are zero in all of them and stay so under every rule,
 * so a call may run across. */
#include "optim/optim.h"

enum { GRAIN = 16 }; /* elements to a cache line */

static int64_t room_of(int64_t numel)
{
    return (numel + GRAIN - 1) / GRAIN * GRAIN;
}

static bool movable(const ls_optim *optim, const ls_optim_slot *slot, int group)
{
    const ls_tensor *p = slot->parameter;
    return !slot->block && slot->group == group && ls_wants_grad(p) && p->view.dtype == LS_F32 &&
           ls_view_contiguous(&p->view) && p->storage->device == optim->device;
}

/* An own handle on a part of a block, shaped like the parameter. */
static ls_tensor *piece(ls_tensor *block, int64_t offset, const ls_tensor *parameter)
{
    ls_tensor *t = ls_handle_new_owned(block->run);
    if (!t) return NULL;
    t->storage = ls_storage_part(block->run, block->storage);
    if (!t->storage) return ls_release(t), NULL;
    t->view.dtype = LS_F32;
    t->view.data = (char *)block->view.data + (size_t)offset * sizeof(float);
    ls_view_set_contiguous(&t->view, ls_view_shape(&parameter->view));
    return t;
}

typedef struct blocks {
    ls_tensor *parameters, *gradients, *moments[LS_MAX_MOMENTS];
    int moment_count, number;
} blocks;

static bool move_slot(ls_optim_slot *slot, const blocks *b, int64_t offset)
{
    ls_tensor *p = slot->parameter, *home = piece(b->parameters, offset, p);
    if (!home) return false;
    bool ok = ls_raw_copy(home, p);
    if (ok) ls_adopt(p, home);
    ls_release(home);
    if (!ok) return false;
    if (!(slot->grad_home = piece(b->gradients, offset, p))) return false;
    ls_grad_place(p, slot->grad_home);
    for (int k = 0; k < b->moment_count; k++) {
        ls_tensor *place = piece(b->moments[k], offset, p);
        if (!place) return false;
        if (slot->moments[k] && !ls_raw_copy(place, slot->moments[k])) return ls_release(place), false;
        ls_release(slot->moments[k]);
        slot->moments[k] = place;
    }
    slot->block = b->number;
    slot->offset = offset;
    slot->room = room_of(ls_numel(p));
    return true;
}

static bool make_blocks(ls_optim *optim, int group, int64_t numel, blocks *b)
{
    ls_run *run = optim->object.run;
    b->number = ++optim->block_count;
    b->moment_count = optim->rule->moment_count(&optim->groups[group].now);
    ls_tensor **all[] = {&b->parameters, &b->gradients, &b->moments[0], &b->moments[1]};
    for (int i = 0; i < 2 + b->moment_count; i++) {
        bool shared = all[i] == &b->gradients && run->gradient_block;
        *all[i] = shared ? run->gradient_block(run, numel) : ls_tensor_new(run, optim->device, LS_F32, LS_SHAPE(numel));
        if ((*all[i])->life != LS_LIFE_LIVE || !ls_raw_fill(*all[i], 0)) return false;
    }
    return true;
}

static bool lay_out_group(ls_optim *optim, int group)
{
    int64_t numel = 0;
    for (int64_t i = 0; i < optim->slot_count; i++)
        if (movable(optim, &optim->slots[i], group)) numel += room_of(ls_numel(optim->slots[i].parameter));
    blocks b = {0};
    if (numel == 0) return true;
    if (!make_blocks(optim, group, numel, &b)) return false;
    int64_t offset = 0;
    for (int64_t i = 0; i < optim->slot_count; i++) {
        ls_optim_slot *slot = &optim->slots[i];
        if (!movable(optim, slot, group)) continue;
        if (!move_slot(slot, &b, offset)) return false;
        offset += slot->room;
    }
    return true;
}

bool ls_optim_lay_out(ls_optim *optim)
{
    ls_run *run = optim->object.run;
    if (optim->scattered) return true;
    ls_mark mark = ls_scope_begin(run);
    for (int group = 0; group < optim->group_count && !ls_failed(run); group++) lay_out_group(optim, group);
    ls_scope_end(run, mark, NULL);
    return !ls_failed(run);
}

static bool at_home(const ls_optim_slot *slot, const ls_tensor *gradient)
{
    return slot->grad_home && gradient->view.data == slot->grad_home->view.data;
}

bool ls_slots_adjoin(const ls_optim_slot *a, const ls_tensor *grad_a, const ls_optim_slot *b, const ls_tensor *grad_b)
{
    return a->block && a->block == b->block && b->offset == a->offset + a->room && at_home(a, grad_a) &&
           at_home(b, grad_b);
}

bool ls_slot_need_moment(ls_optim_slot *slot, int k)
{
    if (slot->moments[k]) return true;
    ls_tensor *like = slot->master ? slot->master : slot->parameter;
    ls_tensor *moment = ls_tensor_new_like(like, like->view.dtype);
    if (moment->life != LS_LIFE_LIVE || !ls_raw_fill(moment, 0)) return false;
    slot->moments[k] = ls_alias_owned(moment);
    return slot->moments[k] != NULL;
}
