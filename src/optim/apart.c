/* apart.c - several processes that train independently, by mistake or on purpose. */
#include "optim/optim.h"
#include "step/remind.h"

void ls_optim_train_apart(ls_optim *optim)
{
    if (optim) optim->apart = true;
}

bool ls_optim_trains_together(const ls_optim *optim)
{
    for (int64_t i = 0; i < optim->slot_count; i++) {
        const ls_tensor *parameter = optim->slots[i].parameter;
        if (ls_requires_grad(parameter) && ls_leaf_watched(parameter)) return true; /* a frozen parameter has no leaf */
    }
    return false;
}

void ls_optim_look_for_others(ls_optim *optim)
{
    ls_run *run = optim->object.run;
    const ls_optim_slot *alone = NULL;
    int64_t trained = 0;
    for (int64_t i = 0; i < optim->slot_count; i++) {
        const ls_optim_slot *slot = &optim->slots[i];
        if (!ls_requires_grad(slot->parameter) || ls_leaf_walk(slot->parameter) <= optim->used) continue;
        trained++;
        if (!alone && !ls_leaf_watched(slot->parameter)) alone = slot;
    }
    if (!trained) return; /* nothing yet */
    optim->apart = true;
    if (alone)
        ls_remind_of_prepare(run, LS_REMIND_MODULE,
                             "each of %d processes trains the module of %s on its own, and they will differ",
                             run->step->share.world, alone->name);
    if (run->step->loop && run->step->loop->whole)
        ls_remind_of_prepare(run, LS_REMIND_LOADER, "each of %d processes trains on all samples of a loader",
                             run->step->share.world);
}
