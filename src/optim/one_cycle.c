/* one_cycle.c - the rate goes up and down once, the momentum the other way. */
#include <math.h>

#include "optim/schedule.h"

/* From the end of the phase before to `end`. */
typedef struct phase {
    double end, from_lr, to_lr, from_momentum, to_momentum;
} phase;

static double between(bool straight, double from, double to, double part)
{
    if (straight) return (to - from) * part + from;
    return to + (from - to) / 2 * (cos(3.14159265358979323846 * part) + 1);
}

static ls_rates one_cycle_at(const ls_schedule *s, int64_t step, int group, double initial_lr)
{
    (void)initial_lr;
    const ls_one_cycle_opts *o = &s->cycle;
    double top = s->max_lrs[group], start = top / o->div_factor, bottom = start / o->final_div_factor;
    double low = o->base_momentum, high = o->max_momentum, total = (double)o->total_steps;
    const phase three[] = {{o->pct_start * total - 1, start, top, high, low},
                           {2 * o->pct_start * total - 2, top, start, low, high},
                           {total - 1, start, bottom, high, high}};
    const phase two[] = {three[0], {total - 1, top, bottom, low, high}};
    const phase *phases = o->three_phase ? three : two;
    int last = o->three_phase ? 2 : 1, i = 0;
    while (i < last && (double)step > phases[i].end) i++;
    double begin = i ? phases[i - 1].end : 0;
    double length = phases[i].end - begin, part = length > 0 ? ((double)step - begin) / length : 1;
    return (ls_rates){.lr = between(o->linear, phases[i].from_lr, phases[i].to_lr, part),
                      .has_momentum = !o->no_momentum_cycle,
                      .momentum = between(o->linear, phases[i].from_momentum, phases[i].to_momentum, part)};
}

/* Set total_steps; or say what is wrong. */
static const char *length_of(ls_one_cycle_opts *o)
{
    bool counted = o->total_steps != LS_AUTO, in_epochs = o->epochs != LS_AUTO || o->steps_per_epoch != LS_AUTO;
    if (counted && o->total_steps < 1) return ".total_steps is below 1";
    if (counted) return NULL;
    if (!in_epochs) return "its length is missing";
    if (o->epochs < 1) return o->epochs == LS_AUTO ? ".epochs is missing" : ".epochs is below 1";
    if (o->steps_per_epoch < 1)
        return o->steps_per_epoch == LS_AUTO ? ".steps_per_epoch is missing" : ".steps_per_epoch is below 1";
    o->total_steps = o->epochs * o->steps_per_epoch;
    return NULL;
}

ls_schedule *ls_one_cycle_new_sized(ls_optim *optim, const ls_one_cycle_opts *given, size_t opts_size)
{
    if (!optim || ls_object_has_ended(optim, "ls_one_cycle_new") || ls_failed(optim->object.run)) return NULL;
    ls_errors *errors = &optim->object.run->errors;
    ls_one_cycle_opts o = LS_OPTS_READ(ls_one_cycle_opts, given, opts_size);
    const char *problem = length_of(&o);
    if (problem)
        return ls_fail(errors, LS_ERR_VALUE,
                       "ls_one_cycle_new: %s; give .total_steps, or .epochs and .steps_per_epoch, "
                       "all at least 1",
                       problem),
               NULL;
    if (!o.max_lrs && o.max_lr == LS_AUTO_REAL)
        return ls_fail(errors, LS_ERR_VALUE, "ls_one_cycle_new: give .max_lr, the rate at the top"), NULL;
    if (!o.max_lrs && !(o.max_lr > 0 && isfinite(o.max_lr)))
        return ls_fail(errors, LS_ERR_VALUE, "ls_one_cycle_new: .max_lr = %g; it must be above 0", o.max_lr), NULL;
    if (!(o.div_factor > 0 && o.final_div_factor > 0))
        return ls_fail(errors, LS_ERR_VALUE,
                       "ls_one_cycle_new: rates are divided by .div_factor = %g and .final_div_factor = %g, which must "
                       "be above 0",
                       o.div_factor, o.final_div_factor),
               NULL;
    if (!(o.pct_start >= 0 && o.pct_start <= 1))
        return ls_fail(errors, LS_ERR_VALUE, "ls_one_cycle_new: .pct_start is %g, not in [0, 1]", o.pct_start), NULL;
    ls_schedule *s = ls_schedule_new(optim, "one cycle", one_cycle_at);
    if (!s) return NULL;
    s->max_lrs = ls_sys_alloc((size_t)optim->group_count * sizeof *s->max_lrs);
    if (!s->max_lrs) {
        ls_fail(errors, LS_ERR_MEMORY, "ls_one_cycle_new: no memory");
        ls_schedule_free(s);
        return NULL;
    }
    for (int i = 0; i < optim->group_count; i++) s->max_lrs[i] = o.max_lrs ? o.max_lrs[i] : o.max_lr;
    o.max_lrs = NULL; /* the caller's */
    s->cycle = o;
    s->limit = s->end = o.total_steps;
    return ls_schedule_begin(s);
}
