/* accumulate.c - which batch ends in a step, and the weight of each. */
#include "step/accumulate.h"

#include <math.h>

#include "step/step.h"

void ls_accumulation_count(ls_run *run)
{
    ls_accumulation *a = &run->step->accumulation;
    ls_loop *loop = run->step->loop;
    if (loop) {
        int64_t rows = loop->real_rows >= 0 ? loop->real_rows : loop->rows * run->step->share.world;
        loop->counted = true;
        atomic_fetch_add_explicit(&run->step->samples, rows, memory_order_relaxed);
    }
    if (a->held) return;
    bool ends_pass = loop && loop->last && !a->across_epochs;
    if (a->sync) { /* the previous group is complete */
        if (run->walk_serial >= a->last_batch) {
            a->first_walk = run->walk_serial + 1;
            a->has_held = false;
        }
        bool length_known = loop && loop->left >= 0 && !a->across_epochs;
        a->planned = a->steps - a->step % a->steps;
        if (length_known && loop->left + 1 < a->planned) a->planned = loop->left + 1;
        a->unit = a->measure;
        a->batches = a->weights = 0;
        a->weighted = false;
    }
    a->batches++;
    a->weight_known = false;
    a->shared_sum = 0;
    a->step = ends_pass ? 0 : a->step + 1;
    a->sync = ends_pass || a->step % a->steps == 0;
    if (a->sync) a->last_batch = run->walk_serial + 1;
}

void ls_accumulation_hold(ls_run *run, bool on)
{
    ls_accumulation *a = &run->step->accumulation;
    if (on && a->sync) a->first_walk = run->walk_serial + 1;
    if (!on && !a->sync) a->last_batch = run->walk_serial + 1;
    a->sync = !on;
    a->held = on;
}

bool ls_accumulation_begins(const ls_run *run)
{
    return run->step->accumulation.first_walk > run->walk_serial;
}

bool ls_accumulation_open(const ls_run *run, uint64_t walk)
{
    const ls_accumulation *a = &run->step->accumulation;
    return walk >= a->first_walk && !(a->sync && walk >= a->last_batch);
}

/* The first pass of a batch sets the weight of the batch; the first pass of a group sets the plan. */
static void take_weight(ls_run *run, double weight, bool weighted)
{
    ls_accumulation *a = &run->step->accumulation;
    if (weighted && a->weights == 0) {
        if (run->step->share.world > 1) a->planned = a->steps; /* their passes may have different lengths */
        else a->unit = weight;
    }
    a->weight = weight;
    a->weights += weight;
    a->weight_known = true;
}

static bool weight_fits(ls_run *run, double weight, bool weighted)
{
    const ls_accumulation *a = &run->step->accumulation;
    if (weighted && a->has_held)
        ls_fail(&run->errors, LS_ERR_STATE,
                "ls_backward_weighted: gradients held by ls_set_sync_gradients() have no weights; use "
                ".gradient_accumulation_steps or ls_accumulate() for the group, or ls_backward()");
    else if (!a->held && weight != a->weight)
        ls_fail(
            &run->errors, LS_ERR_VALUE,
            "%s: the weight is %g, and an earlier backward pass of the same batch had %g; give all losses of a batch "
            "the same weight, and multiply a loss that should count more",
            weighted ? "ls_backward_weighted" : "ls_backward", weight, a->weight);
    return !ls_failed(run);
}

double ls_accumulation_backward(ls_run *run, double weight, bool weighted)
{
    ls_accumulation *a = &run->step->accumulation;
    if (!a->scoped && !(run->step->loop && run->step->loop->counted)) ls_accumulation_count(run);
    if (a->held) a->has_held = true;
    else if (!a->weight_known) take_weight(run, weight, weighted);
    if (!weight_fits(run, weight, weighted)) return 0;
    a->weighted |= weighted;
    return a->held ? 1 / (double)a->steps : weight / ls_accumulation_plan(run);
}

double ls_accumulation_sum(const ls_run *run)
{
    const ls_accumulation *a = &run->step->accumulation;
    return a->weighted ? a->weights : a->batches;
}

double ls_accumulation_plan(const ls_run *run)
{
    return run->step->accumulation.unit * (double)run->step->accumulation.planned;
}

void ls_accumulation_share(ls_run *run, double total, int processes)
{
    ls_accumulation *a = &run->step->accumulation;
    a->shared_sum = total / processes;
    a->measure = total > 0 ? exp2(floor(log2(a->shared_sum / (double)a->steps))) : 1;
}

double ls_accumulation_correction(const ls_run *run)
{
    const ls_accumulation *a = &run->step->accumulation;
    double sum = a->shared_sum > 0 ? a->shared_sum : ls_accumulation_sum(run);
    return sum > 0 ? ls_accumulation_plan(run) / sum : 1;
}
