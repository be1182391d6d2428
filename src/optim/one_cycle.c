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

ls_schedule *ls_one_cycle_sized(ls_optim *optim, const ls_one_cycle_opts *given, size_t opts_size)
{
    if (!optim || ls_failed(optim->object.run)) return NULL;
    ls_errors *errors = &optim->object.run->errors;
    ls_one_cycle_opts o;
    ls_opts_read(&o, sizeof o, given, opts_size);
    if (!o.total_steps) o.total_steps = o.epochs * o.steps_per_epoch;
    o.pct_start = ls_opts_number(o.pct_start, 0.3);
    o.div_factor = ls_opts_number(o.div_factor, 25);
    o.final_div_factor = ls_opts_number(o.final_div_factor, 1e4);
    o.base_momentum = ls_opts_number(o.base_momentum, 0.85);
    o.max_momentum = ls_opts_number(o.max_momentum, 0.95);
    if (o.total_steps <= 0)
        return ls_fail(
                   errors, LS_ERR_VALUE,
                   "ls_one_cycle_new: .epochs = %lld with .steps_per_epoch = %lld are no steps; both must be at least "
                   "1, or .total_steps given",
                   (long long)o.epochs, (long long)o.steps_per_epoch),
               NULL;
    if (!(o.max_lr > 0 && isfinite(o.max_lr)) && !o.max_lrs)
        return ls_fail(errors, LS_ERR_VALUE, "ls_one_cycle_new: .max_lr = %g; it must be above 0", o.max_lr), NULL;
    if (!(o.pct_start >= 0 && o.pct_start <= 1))
        return ls_fail(errors, LS_ERR_VALUE, "ls_one_cycle_new: .pct_start is %g, not in [0, 1]", o.pct_start), NULL;
    ls_schedule *s = ls_schedule_new(optim, one_cycle_at);
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
