/* follow.c - an optimiser that has taken fewer steps than those of other processes copies the state of one of them. */
#include "base/memory.h"
#include "optim/schedule.h"
#include "tensor/exchange.h"

static const char who[] = "ls_join_uneven_inputs";

/* The state of a parameter apart from its moments. */
typedef struct progress {
    int64_t step;
    bool moments_hold[LS_MAX_MOMENTS], has_master;
} progress;

/* Have all taken the same number of steps? */
static bool compare_steps(ls_optim *optim, bool *some)
{
    ls_run *run = optim->object.run;
    int64_t most[2] = {optim->steps, -optim->steps};
    bool ok = ls_exchange_reduce(run, most, 2, LS_I64, LS_REDUCE_MAX, who);
    *some = ok && most[0] != -most[1];
    return ok;
}

/* Counts and settings. `slots` [slot_count] is a buffer for sending. */
static bool follow_counts(ls_optim *optim, int from, progress *slots)
{
    ls_run *run = optim->object.run;
    for (int64_t i = 0; i < optim->slot_count; i++) {
        const ls_optim_slot *slot = &optim->slots[i];
        slots[i] = (progress){.step = slot->step, .has_master = slot->master != NULL};
        for (int k = 0; k < LS_MAX_MOMENTS; k++) slots[i].moments_hold[k] = slot->moments_hold[k];
    }
    if (!ls_exchange_broadcast(run, &optim->steps, sizeof optim->steps, from, who) ||
        !ls_exchange_broadcast(run, slots, (size_t)optim->slot_count * sizeof *slots, from, who))
        return false;
    for (int group = 0; group < optim->group_count; group++)
        if (!ls_exchange_broadcast(run, &optim->groups[group].now, sizeof optim->groups[group].now, from, who))
            return false;
    for (int64_t i = 0; i < optim->slot_count; i++) optim->slots[i].step = slots[i].step;
    return true;
}

/* Masters and moments, one after the other: those of rank `from`. */
static bool follow_tensors(ls_optim *optim, int from, const progress *slots)
{
    ls_reducer *reducer = optim->object.run->step->reducer;
    for (int64_t i = 0; i < optim->slot_count; i++) {
        ls_optim_slot *slot = &optim->slots[i];
        if (slots[i].has_master &&
            (!ls_slot_need_master(slot) || !ls_reducer_send(reducer, &slot->master, 1, from, who)))
            return false;
        for (int k = 0; k < LS_MAX_MOMENTS; k++) {
            slot->moments_hold[k] = slots[i].moments_hold[k];
            if (!slot->moments_hold[k]) continue;
            if (!ls_slot_need_moment(optim, slot, k) || !ls_reducer_send(reducer, &slot->moments[k], 1, from, who))
                return false;
        }
    }
    return true;
}

bool ls_optim_follow(ls_optim *optim, int from)
{
    ls_run *run = optim->object.run;
    bool some;
    if (!ls_optim_trains_together(optim)) return true;
    if (!compare_steps(optim, &some) || !some) return !ls_failed(run);
    progress *slots = ls_sys_alloc((size_t)optim->slot_count * sizeof *slots);
    if (!slots) return ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory", who), false;
    ls_mark mark = ls_scope_begin(run);
    bool ok = follow_counts(optim, from, slots) && follow_tensors(optim, from, slots);
    ls_scope_end(run, mark, NULL);
    ls_sys_free(slots);
    return ok;
}

bool ls_schedule_follow(ls_schedule *schedule, int from)
{
    struct {
        int64_t step, followed;
        double lr;
        ls_value_progress progress;
    } now = {schedule->step, schedule->followed, schedule->lr, schedule->progress};
    if (!ls_optim_trains_together(schedule->optim)) return true;
    if (!ls_exchange_broadcast(schedule->object.run, &now, sizeof now, from, who)) return false;
    schedule->step = now.step;
    schedule->followed = now.followed;
    schedule->lr = now.lr;
    schedule->progress = now.progress;
    return true;
}
