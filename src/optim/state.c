/* state.c - the state of an optimiser by name, for checkpoints. */
#include <stdio.h>
#include <string.h>

#include "optim/optim.h"

enum { NAME_SIZE = 640 };

typedef struct listing {
    ls_state *list;
    int64_t count;
} listing;

static bool list_one(listing *l, const ls_optim_slot *slot, const char *what, ls_tensor *tensor)
{
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "%s.%s", slot->name, what);
    return ls_state_refresh(l->list, l->count++, name, tensor);
}

/* The step count of a slot as a tensor, updated. */
static bool refresh_step(ls_run *run, ls_optim_slot *slot)
{
    ls_tensor *count = ls_empty_shape(run, LS_I64, LS_SCALAR);
    if (!ls_is_valid(count) || !ls_raw_fill(count, (double)slot->step)) return false;
    if (slot->step_tensor) return ls_raw_copy(slot->step_tensor, count);
    slot->step_tensor = ls_alias_owned(count);
    return slot->step_tensor != NULL;
}

/* A moment of which each process has a part: rank 0 lists what it collected. */
static bool list_collected(const ls_optim *optim, const ls_optim_slot *slot, int k, listing *l)
{
    const ls_optim_block *block = ls_slot_block(optim, slot);
    if (!block->collected[k]) return true;
    ls_tensor *whole = ls_block_piece(block->collected[k], slot->offset, &slot->parameter->view);
    bool ok = whole && list_one(l, slot, optim->rule->moment_names[k], whole);
    ls_release(whole);
    return ok;
}

static bool list_slot(const ls_optim *optim, ls_optim_slot *slot, listing *l)
{
    for (int k = 0; k < LS_MAX_MOMENTS; k++) {
        if (!slot->moments_hold[k]) continue;
        bool ok = ls_slot_shared_out(optim, slot) ? list_collected(optim, slot, k, l)
                                                  : list_one(l, slot, optim->rule->moment_names[k], slot->moments[k]);
        if (!ok) return false;
    }
    if (slot->master && !list_one(l, slot, "master", slot->master)) return false;
    return slot->step == 0 || (refresh_step(optim->object.run, slot) && list_one(l, slot, "step", slot->step_tensor));
}

/* ---- several processes ---- */

bool ls_optim_collect(ls_optim *optim)
{
    ls_run *run = optim->object.run;
    if (optim->collected) return true;
    ls_mark mark = ls_scope_begin(run);
    for (int i = 0; i < optim->block_count && !ls_failed(run); i++) {
        ls_optim_block *block = &optim->blocks[i];
        for (int k = 0; block->shared_out && k < LS_MAX_MOMENTS && !ls_failed(run); k++) {
            ls_tensor *whole =
                block->moments[k] ? ls_reducer_collect(run->step->reducer, block->moments[k], block->numel) : NULL;
            if (whole && !ls_failed(run)) block->collected[k] = ls_alias_owned(whole);
        }
    }
    ls_scope_end(run, mark, NULL);
    optim->collected = !ls_failed(run);
    return optim->collected;
}

static void let_go(ls_optim *optim)
{
    optim->collected = false;
    for (int i = 0; i < optim->block_count; i++) {
        for (int k = 0; k < LS_MAX_MOMENTS; k++) {
            ls_release(optim->blocks[i].collected[k]);
            optim->blocks[i].collected[k] = NULL;
        }
    }
}

void ls_optim_collect_end(ls_optim *optim)
{
    let_go(optim);
    if (optim->state && ls_optim_shared_out(optim)) ls_state_truncate(optim->state, 0); /* it refers to them */
}

/* ---- listing ---- */

static ls_state *list_all(ls_optim *optim)
{
    ls_run *run = optim->object.run;
    listing l = {.list = optim->state};
    ls_mark mark = ls_scope_begin(run);
    for (int64_t i = 0; i < optim->slot_count && !ls_failed(run); i++) list_slot(optim, &optim->slots[i], &l);
    ls_scope_end(run, mark, NULL);
    if (ls_failed(run)) return NULL;
    ls_state_truncate(optim->state, l.count);
    return optim->state;
}

ls_state *ls_optim_state_dict(ls_optim *optim)
{
    if (!optim || ls_failed(optim->object.run)) return NULL;
    bool for_this = !optim->collected;
    if (!optim->state) optim->state = ls_state_new(optim->object.run);
    if (!optim->state || !ls_optim_collect(optim)) return NULL;
    ls_state *list = list_all(optim);
    if (for_this) let_go(optim);
    return list;
}

/* ---- loading ---- */

/* The slot whose name, and a dot, this one begins with; *what is the rest. */
static ls_optim_slot *slot_for(ls_optim *optim, const char *name, const char **what)
{
    for (int64_t i = 0; i < optim->slot_count; i++) {
        size_t length = strlen(optim->slots[i].name);
        if (strncmp(name, optim->slots[i].name, length) != 0 || name[length] != '.') continue;
        *what = name + length + 1;
        if (!strchr(*what, '.')) return &optim->slots[i];
    }
    return NULL;
}

/* Does a tensor of the list have the shape of its target? */
static bool fits(const ls_tensor *shaped, const ls_tensor *from, const char *name)
{
    char a[LS_TEXT], b[LS_TEXT];
    if (ls_shape_equal(ls_shape_of(shaped), ls_shape_of(from))) return true;
    ls_fail(&shaped->run->errors, LS_ERR_SHAPE, "ls_optim_load_state_dict: %s is %s, the list has %s", name,
            ls_operand_text(&shaped->view, a), ls_operand_text(&from->view, b));
    return false;
}

static bool fill(ls_tensor *to, ls_tensor *from, const char *name)
{
    ls_run *run = to->run;
    if (!fits(to, from, name)) return false;
    if (from->storage->device != to->storage->device) from = ls_to_device(from, to->storage->device->name);
    ls_assign(to, from);
    return !ls_failed(run);
}

static bool fill_moment(const ls_optim *optim, ls_optim_slot *slot, int k, ls_tensor *from, const char *name)
{
    if (!ls_slot_shared_out(optim, slot)) return fill(slot->moments[k], from, name);
    if (!fits(slot->parameter, from, name)) return false;
    return !slot->moments[k] || fill(slot->moments[k], ls_elements_of(from, ls_slot_own(optim, slot)), name);
}

static bool load_one(ls_optim *optim, const char *name, ls_tensor *from)
{
    const char *what = "";
    ls_optim_slot *slot = slot_for(optim, name, &what);
    if (slot && strcmp(what, "step") == 0) {
        double step = ls_item(from);
        slot->step = step >= 0 ? (int64_t)step : 0;
        if (slot->step > optim->steps) optim->steps = slot->step;
        return true;
    }
    if (slot && strcmp(what, "master") == 0) return ls_slot_need_master(slot) && fill(slot->master, from, name);
    for (int k = 0; slot && k < LS_MAX_MOMENTS; k++) {
        if (!optim->rule->moment_names[k] || strcmp(what, optim->rule->moment_names[k]) != 0) continue;
        slot->moments_hold[k] = ls_slot_need_moment(optim, slot, k) && fill_moment(optim, slot, k, from, name);
        return slot->moments_hold[k];
    }
    ls_fail(&optim->object.run->errors, LS_ERR_VALUE, "ls_optim_load_state_dict: %s has no entry %s", optim->rule->name,
            name);
    return false;
}

void ls_optim_forget(ls_optim *optim)
{
    for (int64_t i = 0; i < optim->slot_count; i++) {
        ls_optim_slot *slot = &optim->slots[i];
        slot->step = 0;
        for (int k = 0; k < LS_MAX_MOMENTS; k++) {
            if (slot->moments[k]) ls_raw_fill(slot->moments[k], 0);
            slot->moments_hold[k] = false;
        }
        ls_release(slot->master);
        slot->master = NULL;
    }
    optim->steps = 0;
    optim->skipped = false;
    optim->unscaled = 0;
}

void ls_optim_load_state_dict(ls_optim *optim, const ls_state *state)
{
    if (!optim || ls_failed(optim->object.run) || !ls_optim_lay_out(optim)) return;
    ls_run *run = optim->object.run;
    ls_mark mark = ls_scope_begin(run);
    for (int64_t i = 0; i < ls_state_count(state); i++)
        if (!load_one(optim, state->entries[i].name, state->entries[i].tensor)) break;
    ls_scope_end(run, mark, NULL);
}
