/* accumulate.c - gradient accumulation as programs see it; the counting is in step/accumulate.c. */
#include "run/session.h"

bool ls_accumulate_begin(ls_run *run)
{
    ls_accumulation_count(run);
    run->step->accumulation.scoped = true;
    return true;
}

bool ls_accumulate_end(ls_run *run)
{
    run->step->accumulation.scoped = false;
    return false;
}

bool ls_sync_gradients(const ls_run *run)
{
    return run->step->accumulation.sync;
}

void ls_set_sync_gradients(ls_run *run, bool on)
{
    ls_accumulation_hold(run, !on);
}

int64_t ls_gradient_accumulation_steps(const ls_run *run)
{
    return run->step->accumulation.steps;
}

void ls_set_gradient_accumulation_steps(ls_run *run, int64_t steps)
{
    if (ls_failed(run)) return;
    if (steps < 1)
        ls_fail(&run->errors, LS_ERR_VALUE, "gradient_accumulation_steps is %lld; it must be at least 1",
                (long long)steps);
    else run->step->accumulation.steps = steps;
}
