/* optim.c - create optimisers, manage groups, take steps. */
#include "optim/optim.h"

#include <math.h>
#include <string.h>

#include "autograd/tape.h"
#include "optim/scaler.h"
#include "tensor/live.h"

/* ---- creating and freeing ---- */

static void clear(void *object)
{
    ls_optim *optim = object;
    for (int64_t i = 0; i < optim->slot_count; i++) {
        ls_optim_slot *slot = &optim->slots[i];
        ls_sys_free(slot->name);
        ls_slot_half_free(slot);
        ls_release(slot->parameter);
        ls_release(slot->grad_memory);
        for (int k = 0; k < LS_MAX_MOMENTS; k++) ls_release(slot->moments[k]);
        ls_release(slot->master);
        ls_release(slot->step_tensor);
    }
    for (int i = 0; i < optim->block_count; i++) {
        ls_optim_block *block = &optim->blocks[i];
        ls_release(block->parameters);
        ls_release(block->gradients);
        ls_release(block->half);
        for (int k = 0; k < LS_MAX_MOMENTS; k++) ls_release(block->moments[k]);
        for (int k = 0; k < LS_MAX_MOMENTS; k++) ls_release(block->collected[k]);
    }
    ls_optim_owe_nothing(optim);
    ls_verdict_free(optim);
    ls_release(optim->found);
    ls_sys_free(optim->blocks);
    ls_sys_free(optim->slots);
    ls_sys_free(optim->groups);
}

void ls_optim_free(ls_optim *optim)
{
    if (optim && optim->owed) ls_debt_pay(optim->object.run);
    if (optim) ls_state_free(optim->state);
    if (optim) ls_state_free(optim->trained);
    ls_object_free(optim);
}

static ls_optim_slot *find_slot(ls_optim *optim, const ls_tensor *parameter)
{
    for (int64_t i = 0; i < optim->slot_count; i++)
        if (optim->slots[i].parameter == parameter) return &optim->slots[i];
    return NULL;
}

/* A new slot for a parameter. NULL (and an error) if it is unsuitable or memory is out. */
static ls_optim_slot *add_slot(ls_optim *optim, const char *name, ls_tensor *parameter)
{
    ls_run *run = optim->object.run;
    if (!ls_check_live(run, parameter, optim->rule->name)) return NULL;
    if (!ls_dtype_is_float(parameter->view.dtype)) {
        ls_fail(&run->errors, LS_ERR_DTYPE, "%s: %s is %s and cannot be trained", optim->rule->name, name,
                ls_dtype_name(parameter->view.dtype));
        return NULL;
    }
    if (!optim->device) optim->device = parameter->storage->device;
    if (parameter->storage->device != optim->device) {
        ls_fail(&run->errors, LS_ERR_DEVICE, "%s: %s is on device %s, but earlier parameters are on %s",
                optim->rule->name, name, parameter->storage->device->name, optim->device->name);
        return NULL;
    }
    if (optim->slot_count == optim->slot_capacity) {
        int64_t capacity = optim->slot_capacity ? optim->slot_capacity * 2 : 16;
        ls_optim_slot *grown = ls_sys_realloc(optim->slots, (size_t)capacity * sizeof *grown);
        if (!grown) return ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory", optim->rule->name), NULL;
        optim->slots = grown;
        optim->slot_capacity = capacity;
    }
    char *copy = ls_text_copy(run, name);
    if (!copy) return NULL;
    ls_optim_slot *slot = &optim->slots[optim->slot_count++];
    optim->own_values = 0;
    *slot = (ls_optim_slot){.name = copy, .parameter = ls_retain(parameter)};
    return slot;
}

static bool add_group(ls_optim *optim, ls_optim_group_opts settings)
{
    ls_run *run = optim->object.run;
    if (optim->group_count == optim->group_capacity) {
        int capacity = optim->group_capacity ? optim->group_capacity * 2 : 4;
        ls_group *grown = ls_sys_realloc(optim->groups, (size_t)capacity * sizeof *grown);
        if (!grown) return ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory", optim->rule->name), false;
        optim->groups = grown;
        optim->group_capacity = capacity;
    }
    optim->groups[optim->group_count++] = (ls_group){.now = settings, .made = settings};
    return true;
}

static bool settings_sound(ls_optim *optim, const ls_optim_group_opts *s)
{
    bool finite = isfinite(s->lr + s->weight_decay + s->momentum + s->dampening + s->epsilon);
    bool rates = s->lr >= 0 && s->weight_decay >= 0 && s->epsilon >= 0 && s->dampening >= 0 && s->dampening <= 1;
    bool memories =
        s->momentum >= 0 && s->momentum < 1 && s->beta1 >= 0 && s->beta1 < 1 && s->beta2 >= 0 && s->beta2 < 1;
    if (finite && rates && memories) return true;
    ls_fail(
        &optim->object.run->errors, LS_ERR_VALUE,
        "%s: lr %g, weight decay %g and epsilon %g must be finite and not negative, momentum %g and betas %g and %g "
        "in [0, 1), dampening %g in [0, 1]",
        optim->rule->name, s->lr, s->weight_decay, s->epsilon, s->momentum, s->beta1, s->beta2, s->dampening);
    return false;
}

/* The parameters of its slots, by name. */
static ls_state *trained(void *object)
{
    ls_optim *optim = object;
    if (!optim->trained) optim->trained = ls_state_new(optim->object.run);
    ls_state *list = optim->trained;
    if (list) ls_state_truncate(list, 0);
    for (int64_t i = 0; list && i < optim->slot_count; i++)
        ls_state_append(list, optim->slots[i].name, optim->slots[i].parameter);
    return list;
}

ls_optim *ls_optim_new(ls_run *run, const ls_rule *rule, const ls_state *parameters, const ls_optim *settings)
{
    if (ls_failed(run)) return NULL;
    ls_optim *optim = ls_object_new(run, LS_OBJECT_OPTIM, sizeof *optim, clear);
    if (!optim) return NULL;
    optim->object.parameters = trained;
    optim->rule = rule;
    optim->defaults = settings->defaults;
    optim->nesterov = settings->nesterov;
    optim->maximize = settings->maximize;
    optim->decoupled = settings->decoupled;
    optim->master_weights = settings->master_weights;
    optim->scattered = settings->scattered;
    optim->lr_decay = settings->lr_decay;
    bool ok = settings_sound(optim, &optim->defaults) && add_group(optim, optim->defaults);
    for (int64_t i = 0; ok && i < ls_state_count(parameters); i++)
        if (!find_slot(optim, parameters->entries[i].tensor))
            ok = add_slot(optim, parameters->entries[i].name, parameters->entries[i].tensor) != NULL;
    if (ok && optim->slot_count == 0)
        ok = ls_fail(&run->errors, LS_ERR_VALUE, "%s: there are no parameters to train", rule->name) == LS_OK;
    if (ok) return optim;
    ls_object_free(optim);
    return NULL;
}

/* ---- groups ---- */

/* Options that were not given are taken from `otherwise`. */
static void complete(ls_optim_group_opts *given, const ls_optim_group_opts *otherwise)
{
    given->lr = ls_opts_real(given->lr, otherwise->lr);
    given->weight_decay = ls_opts_real(given->weight_decay, otherwise->weight_decay);
    given->momentum = ls_opts_real(given->momentum, otherwise->momentum);
    given->dampening = ls_opts_real(given->dampening, otherwise->dampening);
    given->beta1 = ls_opts_real(given->beta1, otherwise->beta1);
    given->beta2 = ls_opts_real(given->beta2, otherwise->beta2);
    given->epsilon = ls_opts_real(given->epsilon, otherwise->epsilon);
}

bool ls_rule_has(const ls_rule *rule, const char *option)
{
    size_t length = strlen(option);
    for (const char *at = rule->options; (at = strstr(at, option)); at += length)
        if ((at == rule->options || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return true;
    return false;
}

/* Options that the optimiser's rule does not use would have no effect. */
static bool options_apply(const ls_optim *optim, const ls_optim_group_opts *given, const char *who)
{
    const struct {
        const char *name;
        double value;
    } options[] = {{"momentum", given->momentum},
                   {"dampening", given->dampening},
                   {"beta1", given->beta1},
                   {"beta2", given->beta2},
                   {"epsilon", given->epsilon}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (ls_opts_real(options[i].value, 0) == 0 || ls_rule_has(optim->rule, options[i].name)) continue;
        ls_fail(&optim->object.run->errors, LS_ERR_VALUE, "%s: .%s = %g; %s has no such option", who, options[i].name,
                options[i].value, optim->rule->name);
        return false;
    }
    return true;
}

int ls_optim_add_group_sized(ls_optim *optim, const ls_state *parameters, const ls_optim_group_opts *given,
                             size_t opts_size)
{
    if (!optim) return 0;
    ls_run *run = optim->object.run;
    if (ls_failed(run)) return 0;
    ls_optim_group_opts s = LS_OPTS_READ(ls_optim_group_opts, given, opts_size);
    if (!options_apply(optim, &s, "ls_optim_add_group")) return 0;
    complete(&s, &optim->defaults);
    if (!settings_sound(optim, &s) || !add_group(optim, s)) return 0;
    for (int64_t i = 0; i < ls_state_count(parameters); i++) {
        ls_optim_slot *slot = find_slot(optim, parameters->entries[i].tensor);
        if (!slot) slot = add_slot(optim, parameters->entries[i].name, parameters->entries[i].tensor);
        if (!slot) return 0;
        slot->group = optim->group_count - 1;
    }
    return optim->group_count - 1;
}

int64_t ls_optim_group_count(const ls_optim *optim)
{
    return optim ? optim->group_count : 0;
}

static bool group_exists(const ls_optim *optim, int group, const char *who)
{
    if (!optim) return false;
    if (group >= 0 && group < optim->group_count) return true;
    ls_fail(&optim->object.run->errors, LS_ERR_VALUE, "%s: group %d does not exist; the last is %d", who, group,
            optim->group_count - 1);
    return false;
}

ls_group_numbers ls_optim_group(const ls_optim *optim, int group)
{
    if (!group_exists(optim, group, "ls_optim_group")) return (ls_group_numbers){0};
    const ls_optim_group_opts *now = &optim->groups[group].now;
    return (ls_group_numbers){now->lr,    now->weight_decay, now->momentum, now->dampening,
                              now->beta1, now->beta2,        now->epsilon};
}

void ls_optim_set_group_sized(ls_optim *optim, int group, const ls_optim_group_opts *given, size_t opts_size)
{
    if (!group_exists(optim, group, "ls_optim_set_group")) return;
    ls_optim_group_opts values = LS_OPTS_READ(ls_optim_group_opts, given, opts_size);
    if (!options_apply(optim, &values, "ls_optim_set_group")) return;
    complete(&values, &optim->groups[group].now);
    if (settings_sound(optim, &values)) optim->groups[group].now = values;
}

double ls_optim_lr(const ls_optim *optim)
{
    return optim ? optim->groups[0].now.lr : 0;
}

void ls_optim_set_lr(ls_optim *optim, double lr)
{
    for (int i = 0; i < ls_optim_group_count(optim); i++) ls_optim_set_group(optim, i, .lr = lr);
}

/* ---- a step ---- */

/* The updated tensor: the parameter, or its master if the parameter is half precision and the optimiser keeps one. */
static ls_tensor *updated(const ls_optim *optim, ls_optim_slot *slot)
{
    if (!ls_slot_keeps_master(optim, slot)) return slot->parameter;
    return ls_slot_need_master(slot) ? slot->master : NULL;
}

/* The arguments of a call that updates this slot with this gradient: no elements if other processes update them. */
static bool span_of(ls_optim *optim, ls_optim_slot *slot, const ls_tensor *gradient, ls_optim_span *span)
{
    ls_tensor *parameter = updated(optim, slot);
    if (!parameter || !ls_slot_check_home(optim, slot, gradient)) return false;
    *span = (ls_optim_span){.parameter = parameter->view, .gradient = gradient->view, .step = slot->step + 1};
    ls_operand *operands[2 + LS_MAX_MOMENTS] = {&span->parameter, &span->gradient, &span->moments[0], &span->moments[1],
                                                &span->moments[2]};
    if (!ls_slot_need_half(optim, slot)) return false;
    if (slot->half) span->half = slot->half->view;
    int moments = optim->rule->moment_count(&optim->groups[slot->group].now);
    for (int k = 0; k < moments; k++) {
        if (!ls_slot_need_moment(optim, slot, k)) return false;
        if (slot->moments[k]) span->moments[k] = slot->moments[k]->view;
        span->first |= !slot->moments_hold[k];
    }
    /* Blocks are updated as flat memory, and sharded state already is. Outside them a device that compiles gets
     * parameters as they are: their dimensions cost it nothing, but changing them may. */
    bool shared_out = ls_slot_shared_out(optim, slot), flat = slot->block || !ls_device_records(optim->device);
    for (int i = 0; i < 2 + moments && !shared_out; i++) flat = flat && ls_views_match(operands[i], &span->parameter);
    for (int i = 0; i < 2 + moments; i++) {
        operands[i]->derived = NULL;
        if (flat) *operands[i] = ls_operand_flat(operands[i]);
    }
    if (flat && slot->half) span->half = ls_operand_flat(&span->half);
    if (!shared_out) return true;
    span->parameter = ls_operand_part(span->parameter, ls_slot_own(optim, slot));
    span->gradient = ls_operand_part(span->gradient, ls_slot_own(optim, slot));
    return true;
}

static bool alike(const ls_optim_span *a, const ls_optim_span *b, int moments)
{
    ptrdiff_t distance = (const char *)b->parameter.data - (const char *)a->parameter.data;
    if (a->step != b->step || a->first != b->first) return false;
    for (int k = 0; k < moments; k++) /* moments created later are not in the block */
        if ((const char *)b->moments[k].data - (const char *)a->moments[k].data != distance) return false;
    if (!a->half.data || !b->half.data) return !a->half.data == !b->half.data;
    return ((const char *)b->half.data - (const char *)a->half.data) / (ptrdiff_t)ls_dtype_size(a->half.dtype) ==
           distance / (ptrdiff_t)sizeof(float);
}

static void join_spans(ls_optim_span *a, const ls_optim_span *b, int moments)
{
    ls_operand_join(&a->parameter, &b->parameter);
    ls_operand_join(&a->gradient, &b->gradient);
    for (int k = 0; k < moments; k++) ls_operand_join(&a->moments[k], &b->moments[k]);
    a->half.dim[0] = a->parameter.dim[0];
}

/* in: gradient, found?, factor?  out: parameter, moments ..., half? */
static bool submit_span(const ls_optim *optim, const ls_optim_group_opts *settings, const ls_optim_span *span,
                        int moments)
{
    const ls_operand *found = optim->found ? &optim->found->view : NULL;
    ls_call call = {.n_in = 2, .n_out = 1 + moments, .in = {&span->gradient, found}, .out = {&span->parameter}};
    if (optim->owed) call.in[call.n_in++] = &optim->owed->view;
    for (int k = 0; k < moments; k++) call.out[1 + k] = &span->moments[k];
    if (span->half.data) {
        call.out[1 + optim->rule->most_moments] = &span->half;
        call.n_out = 2 + optim->rule->most_moments;
    }
    optim->rule->fill_call(optim, settings, span, &call);
    return ls_submit_live(optim->object.run, optim->device, &call);
}

static bool step_group(ls_optim *optim, int group)
{
    const ls_optim_group_opts *settings = &optim->groups[group].now;
    int moments = optim->rule->moment_count(settings);
    ls_optim_span open;
    const ls_optim_slot *last = NULL; /* in the open span */
    const ls_tensor *last_gradient = NULL;
    for (int64_t i = 0; i < optim->slot_count; i++) {
        ls_optim_slot *slot = &optim->slots[i];
        if (slot->group != group) continue;
        ls_tensor *gradient = ls_requires_grad(slot->parameter) ? ls_leaf_grad(slot->parameter) : NULL;
        slot->due = gradient != NULL;
        if (!slot->due) continue;
        ls_optim_span span;
        if (!ls_is_valid(gradient) || !span_of(optim, slot, gradient, &span)) return false;
        if (ls_view_numel(&span.parameter) == 0) continue;
        if (last && ls_slots_adjoin(last, last_gradient, slot, gradient) && alike(&open, &span, moments)) {
            join_spans(&open, &span, moments);
        } else {
            if (last && !submit_span(optim, settings, &open, moments)) return false;
            open = span;
        }
        last = slot;
        last_gradient = gradient;
    }
    return !last || submit_span(optim, settings, &open, moments);
}

/* Round from the master, and invalidate the device's forms of the parameter. */
static bool finish_slot(ls_optim_slot *slot)
{
    ls_tensor *p = slot->parameter;
    ls_written(p);
    ls_slot_half_written(slot);
    return !slot->master || ls_raw_copy(p, slot->master);
}

/* Distribute what each process updated to all. */
static bool spread_block(ls_optim *optim, int number)
{
    ls_run *run = optim->object.run;
    const ls_optim_block *block = &optim->blocks[number - 1];
    ls_range changed = {block->numel, 0};
    for (int64_t i = 0; i < optim->slot_count; i++) {
        const ls_optim_slot *slot = &optim->slots[i];
        if (slot->block != number || !slot->due) continue;
        if (slot->offset < changed.begin) changed.begin = slot->offset;
        if (slot->offset + slot->room > changed.end) changed.end = slot->offset + slot->room;
    }
    return !block->shared_out || changed.begin >= changed.end ||
           ls_reducer_spread(run->step->reducer, block->parameters, changed);
}

/* The device skips the step if a gradient was not finite; the host does not wait for the result. */
static bool submit_groups(ls_optim *optim)
{
    for (int group = 0; group < optim->group_count; group++)
        if (!step_group(optim, group)) return false;
    for (int number = 1; number <= optim->block_count; number++)
        if (!spread_block(optim, number)) return false;
    for (int64_t i = 0; i < optim->slot_count; i++)
        if (optim->slots[i].due && !finish_slot(&optim->slots[i])) return false;
    return true;
}

/* The factor that this optimiser's gradients are still to be multiplied by is applied in the step, and stays owed to
 * those who read the gradients afterwards. */
static bool submit_step(ls_optim *optim)
{
    ls_run *run = optim->object.run;
    ls_debt own = optim->owed ? run->debt : (ls_debt){0};
    if (optim->owed) run->debt = (ls_debt){0};
    bool ok = submit_groups(optim);
    if (optim->owed) run->debt = own;
    return ok;
}

static void count_step(ls_optim *optim)
{
    optim->steps++;
    for (int64_t i = 0; i < optim->slot_count; i++) {
        ls_optim_slot *slot = &optim->slots[i];
        if (!slot->due) continue;
        slot->step++;
        int moments = optim->rule->moment_count(&optim->groups[slot->group].now);
        for (int k = 0; k < moments; k++) slot->moments_hold[k] = true;
    }
}

bool ls_step(ls_optim *optim)
{
    if (!optim || ls_object_has_ended(optim, "ls_step") || ls_failed(optim->object.run)) return false;
    ls_run *run = optim->object.run;
    optim->asked = run->walk_serial;
    if (!run->step->accumulation.sync) return false;
    if (ls_optim_has_averages(optim)) return false;
    ls_scaler *scaler = ls_scaler_of(run);
    if (run->step->share.world > 1 && !optim->apart) ls_optim_look_for_others(optim);
    ls_mark mark = ls_scope_begin(run);
    bool ok = ls_optim_lay_out(optim) && ls_optim_unscale(optim) && submit_step(optim);
    if (ok) ls_optim_look_for_mistakes(optim);
    optim->used = run->walk_serial;
    ls_scope_end(run, mark, NULL);
    ls_step_mark(run, LS_MARK_STEP_ENDED);
    optim->skipped = ok && optim->found && ls_verdict_read(optim);
    ok = ok && !ls_failed(run);
    if (ok && scaler) ls_scaler_stepped(scaler, !optim->skipped);
    optim->skipped_steps += ok && optim->skipped;
    if (ok && !optim->skipped) count_step(optim);
    return ok && !optim->skipped;
}

bool ls_optim_step_was_skipped(const ls_optim *optim)
{
    return optim && optim->skipped;
}

int64_t ls_optim_steps_taken(const ls_optim *optim)
{
    return optim ? optim->steps : 0;
}

/* Some batches of the group are done, but neither its last batch nor a step: whatever other optimisers did. Passes held
 * until now (ls_set_sync_gradients) are batches of a group if ls_step was called among them, as in a loop body;
 * otherwise the program only inspected their gradients. */
static bool gradients_add_up(const ls_optim *optim)
{
    uint64_t newest = 0;
    for (int64_t i = 0; i < optim->slot_count; i++) {
        uint64_t walk = ls_leaf_walk(optim->slots[i].parameter);
        if (walk > newest) newest = walk;
    }
    const ls_run *run = optim->object.run;
    const ls_accumulation *a = &run->step->accumulation;
    if (a->sync && a->has_held && optim->asked < a->first_walk) return false;
    return newest > optim->used && ls_accumulation_open(run, newest);
}

void ls_zero_grad(ls_optim *optim)
{
    if (!optim || ls_failed(optim->object.run) || gradients_add_up(optim)) return;
    ls_optim_owe_nothing(optim);
    for (int64_t i = 0; i < optim->slot_count; i++) ls_clear_grad(optim->slots[i].parameter);
}
