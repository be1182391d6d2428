/* report.c - the warnings of a run at its end: problems that did not stop it; and what held the memory that ran out. */
#include "run/report.h"

#include <stdio.h>
#include <string.h>

#include "autograd/tape.h"
#include "base/log.h"
#include "optim/schedule.h"
#include "run/session.h"

static const ls_optim *first_optim(const ls_run *run)
{
    const ls_optim *first = NULL;
    for (const ls_object *o = run->objects; o; o = o->older)
        if (o->kind == LS_OBJECT_OPTIM) first = (const ls_optim *)o;
    return first;
}

int64_t ls_run_step(const ls_run *run)
{
    const ls_optim *optim = first_optim(run);
    return optim ? optim->steps + optim->skipped_steps + 1 : (int64_t)run->walk_serial + 1;
}

void ls_run_look_back(ls_run *run)
{
    if (ls_finite_late(run))
        ls_finite_note(run, "a loss or norm of gradients up to here", ls_run_step(run), run->step->share.rank);
}

/* Over all optimisers. A scaler finds its scale by skipping: 16 steps from 65536 down to 1, and some later. */
static int64_t skipped_steps(const ls_run *run, bool *unusual)
{
    int64_t skipped = 0, taken = 0;
    for (const ls_object *o = run->objects; o; o = o->older) {
        if (o->kind != LS_OBJECT_OPTIM) continue;
        const ls_optim *optim = (const ls_optim *)o;
        skipped += optim->skipped_steps;
        taken += optim->steps;
    }
    *unusual = skipped > 16 + taken / 100;
    return skipped;
}

static void report_finite(const ls_run *run)
{
    const ls_finite *f = &run->step->finite;
    bool unusual;
    int64_t skipped = skipped_steps(run, &unusual);
    char text[160] = "";
    if (f->steps)
        snprintf(text, sizeof text, "steps whose loss or gradient norm was not finite: %lld, the first was step %lld%s",
                 (long long)f->steps, (long long)f->first, skipped ? "; " : "");
    if (skipped)
        snprintf(text + strlen(text), sizeof text - strlen(text), "steps skipped by the loss scaler: %lld",
                 (long long)skipped);
    if (*text) ls_log_line(f->steps || unusual ? LS_LOG_WARN : LS_LOG_INFO, "%s", text);
}

void ls_run_report(ls_run *run, bool told)
{
    ls_run_look_back(run);
    if (ls_failed(run) || !ls_is_main(run)) return;
    for (const ls_object *o = run->objects; o && !told; o = o->older)
        if (o->kind == LS_OBJECT_SCHEDULE) ls_schedule_over((const ls_schedule *)o);
        else if (o->kind == LS_OBJECT_OPTIM) ls_optim_over((const ls_optim *)o);
    report_finite(run);
    if (run->autocast_count > 0)
        ls_log_line(LS_LOG_WARN,
                    "ls_autocast_begin() was not followed by ls_autocast_end(): everything after it ran "
                    "in %s, including losses and metrics",
                    ls_dtype_name(run->autocast[run->autocast_count - 1]));
}

static double mib_of(const ls_tensor *t)
{
    return t ? (double)ls_numel(t) * (double)ls_dtype_size(ls_dtype_of(t)) / 0x1p20 : 0;
}

void ls_run_explain_memory(ls_run *run)
{
    double parameters = 0, gradients = 0, moments = 0;
    if (run->errors.code != LS_ERR_MEMORY) return;
    for (const ls_object *o = run->objects; o; o = o->older) {
        const ls_optim *optim = (const ls_optim *)o;
        for (int64_t i = 0; o->kind == LS_OBJECT_OPTIM && i < optim->slot_count; i++) {
            const ls_optim_slot *slot = &optim->slots[i];
            parameters += mib_of(slot->parameter) + mib_of(slot->half) + mib_of(slot->master);
            gradients += mib_of(slot->grad_memory ? slot->grad_memory : ls_leaf_grad(slot->parameter));
            for (int m = 0; m < LS_MAX_MOMENTS; m++) moments += mib_of(slot->moments[m]);
        }
    }
    if (parameters > 0)
        ls_fail_more(&run->errors,
                     "; trained parameters hold %.1f MiB, their gradients %.1f, moments %.1f, and the rest is for the "
                     "batch",
                     parameters, gradients, moments);
}
