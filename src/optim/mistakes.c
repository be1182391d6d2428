/* mistakes.c - loops that run but do not train as intended: each mistake is reported once, with what is missing. */
#include <stdio.h>

#include "base/log.h"
#include "optim/optim.h"

/* A single process of a job may make a mistake, so each reports its own. */
LS_PRINTF(2, 3) static void tell(const ls_optim *optim, const char *format, ...)
{
    const ls_run *run = optim->object.run;
    char origin[48] = "lockstep: ";
    if (!ls_log_shows(LS_LOG_WARN)) return;
    if (run->step->share.world > 1) snprintf(origin, sizeof origin, "lockstep: process %d: ", run->step->share.rank);
    va_list args;
    va_start(args, format);
    ls_log_from(origin, LS_LOG_WARN, format, args);
    va_end(args);
}

static const ls_optim_slot *first_due(const ls_optim *optim)
{
    for (int64_t i = 0; i < optim->slot_count; i++)
        if (optim->slots[i].due) return &optim->slots[i];
    return NULL;
}

/* Steps that never find a gradient train nothing: wrong module, or no ls_backward(). All parameters may be frozen for a
 * while. */
static void no_gradients(ls_optim *optim)
{
    bool wanted = false;
    for (int64_t i = 0; i < optim->slot_count; i++) wanted = wanted || ls_requires_grad(optim->slots[i].parameter);
    if (optim->had_gradients || !wanted) return;
    optim->had_gradients = true; /* warn once */
    tell(optim,
         "ls_step: no parameter of this %s has a gradient (\"%s\" is the first): was it created for the module "
         "that is trained, and was ls_backward() called?",
         optim->rule->name, optim->slots[0].name);
}

/* An earlier step used the gradient, and no pass has added to any since. */
static void used_again(ls_optim *optim, const ls_optim_slot *slot)
{
    if (optim->warned_again) return;
    optim->warned_again = true;
    tell(optim,
         "ls_step: no ls_backward() since the last step of this %s, which used the same gradients "
         "(\"%s\" is the first)",
         optim->rule->name, slot->name);
}

/* An earlier step used the gradient, and a later pass has added to it. */
static void not_cleared(ls_optim *optim, const ls_optim_slot *slot)
{
    if (optim->warned_stale) return;
    optim->warned_stale = true;
    tell(optim,
         "ls_step: gradients already used by an earlier step of this %s are included again (\"%s\" is the "
         "first); call ls_zero_grad() after each ls_step()",
         optim->rule->name, slot->name);
}

/* ---- two optimisers of one parameter ---- */

static const ls_optim_slot *shared_slot(const ls_optim *a, const ls_optim *b)
{
    for (int64_t i = 0; i < a->slot_count; i++)
        for (int64_t k = 0; k < b->slot_count; k++)
            if (a->slots[i].parameter == b->slots[k].parameter) return &a->slots[i];
    return NULL;
}

/* Checked at the second step: another optimiser stepped since the first one, so this one did not simply replace it. */
static void check_shared_parameters(ls_optim *optim)
{
    for (const ls_object *o = optim->object.run->objects; o && !optim->warned_shared; o = o->older) {
        const ls_optim *other = (const ls_optim *)o;
        if (o->kind != LS_OBJECT_OPTIM || other == optim || other->used < optim->used || other->warned_shared) continue;
        const ls_optim_slot *slot = shared_slot(optim, other);
        if (!slot) continue;
        optim->warned_shared = true;
        tell(optim,
             "ls_step: two optimisers, %s and %s, take turns updating \"%s\"; give each its own parameters "
             "(.parameters), or create one optimiser with groups (ls_optim_add_group)",
             other->rule->name, optim->rule->name, slot->name);
    }
}

/* ---- called by others ---- */

bool ls_optim_has_averages(ls_optim *optim)
{
    const ls_training_step *step = optim->object.run->step;
    if (!step->averaged || optim->own_values == step->exchanges) return false;
    for (ls_object *o = optim->object.run->objects; o; o = o->older) {
        const ls_state *replaced = o->kind == LS_OBJECT_EMA ? ls_object_parameters(o) : NULL;
        for (int64_t i = 0; i < ls_state_count(replaced); i++)
            for (int64_t k = 0; k < optim->slot_count; k++) {
                if (optim->slots[k].parameter != replaced->entries[i].tensor) continue;
                ls_fail(&optim->object.run->errors, LS_ERR_STATE,
                        "ls_step: \"%s\" has its average now, which the step would change; step outside "
                        "ls_ema_apply()",
                        optim->slots[k].name);
                return true;
            }
    }
    optim->own_values = step->exchanges;
    return false;
}

void ls_optim_look_for_mistakes(ls_optim *optim)
{
    const ls_optim_slot *slot = first_due(optim);
    if (slot) optim->had_gradients = true;
    else if (!optim->had_gradients) no_gradients(optim);
    if (!slot || !optim->used) return;
    if (optim->object.run->walk_serial == optim->used) used_again(optim, slot);
    else if (ls_leaf_since(slot->parameter) <= optim->used) not_cleared(optim, slot);
    if (optim->steps == 1) check_shared_parameters(optim);
}

/* Has another optimiser taken steps with one of its parameters? */
static bool others_step(const ls_optim *optim)
{
    for (const ls_object *o = optim->object.run->objects; o; o = o->older) {
        const ls_optim *other = (const ls_optim *)o;
        if (o->kind == LS_OBJECT_OPTIM && other->used && shared_slot(optim, other)) return true;
    }
    return false;
}

void ls_optim_over(const ls_optim *optim)
{
    const ls_run *run = optim->object.run;
    const ls_optim_slot *trained = NULL;
    for (int64_t i = 0; i < optim->slot_count && !trained && !optim->used; i++)
        if (ls_leaf_walk(optim->slots[i].parameter)) trained = &optim->slots[i];
    if (!trained || others_step(optim)) return;
    if (run->step->accumulation.steps > 1)
        tell(optim,
             "ls_backward() was called, but no ls_step() of %s took effect, and \"%s\" is unchanged: no group of "
             "%lld batches (gradient_accumulation_steps) was completed and followed by ls_step()",
             optim->rule->name, trained->name, (long long)run->step->accumulation.steps);
    else
        tell(optim, "ls_backward() was called, but ls_step() of %s was not: \"%s\" is unchanged", optim->rule->name,
             trained->name);
}
