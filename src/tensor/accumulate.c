/* accumulate.c - which batch ends in a step, and how much each weighs. */
#include "tensor/accumulate.h"

#include "tensor/context.h"

void ls_accumulation_count(ls_run *run, double weight)
{
    ls_accumulation *a = &run->accumulation;
    ls_loop *loop = run->loop;
    if (loop) loop->counted = true;
    if (a->held) return;
    bool ends_pass = loop && loop->last && !a->across_epochs;
    if (a->sync) { /* the group before is complete */
        if (run->walk_serial >= a->last_batch) a->first_walk = run->walk_serial + 1;
        bool length_known = loop && loop->left >= 0 && !a->across_epochs;
        a->planned = a->steps - a->step % a->steps;
        if (length_known && loop->left + 1 < a->planned) a->planned = loop->left + 1;
        a->unit = weight;
        a->sum = 0;
    }
    a->sum += weight;
    a->step = ends_pass ? 0 : a->step + 1;
    a->sync = ends_pass || a->step % a->steps == 0;
    if (a->sync) a->last_batch = run->walk_serial + 1;
}

void ls_accumulation_hold(ls_run *run, bool on)
{
    ls_accumulation *a = &run->accumulation;
    if (on && a->sync) a->first_walk = run->walk_serial + 1;
    if (!on && !a->sync) a->last_batch = run->walk_serial + 1;
    a->sync = !on;
    a->held = on;
}

bool ls_accumulation_begins(const ls_run *run)
{
    return run->accumulation.first_walk > run->walk_serial;
}

bool ls_accumulation_open(const ls_run *run, uint64_t walk)
{
    const ls_accumulation *a = &run->accumulation;
    return walk >= a->first_walk && !(a->sync && walk >= a->last_batch);
}

double ls_accumulation_backward(ls_run *run, double weight)
{
    ls_accumulation *a = &run->accumulation;
    if (!a->scoped && !(run->loop && run->loop->counted)) ls_accumulation_count(run, weight);
    if (a->held) return weight / (double)a->steps;
    return a->planned == 1 && weight == a->unit ? 1 : weight / (a->unit * (double)a->planned);
}

double ls_accumulation_correction(const ls_run *run)
{
    const ls_accumulation *a = &run->accumulation;
    return a->sum > 0 ? a->unit * (double)a->planned / a->sum : 1;
}
