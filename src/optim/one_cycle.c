/* one_cycle.c - the rate rises and falls once, the momentum inversely. */
#include <math.h>

#include "optim/schedule.h"

/* From the end of the previous phase to `end`. */
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
    const ls_one_cycle_schedule_opts *o = &s->cycle;
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
    double length = phases[i].end - begin, part = length > 0 ? fmin(1, ((double)step - begin) / length) : 1;
    return (ls_rates){.lr = between(o->linear, phases[i].from_lr, phases[i].to_lr, part),
                      .has_momentum = o->cycle_momentum,
                      .momentum = between(o->linear, phases[i].from_momentum, phases[i].to_momentum, part)};
}

/* Set total_steps, or return what is wrong. */
static const char *length_of(ls_one_cycle_schedule_opts *o)
{
    bool counted = o->total_steps != LS_AUTO, in_epochs = o->epochs != LS_AUTO || o->steps_per_epoch != LS_AUTO;
    if (counted && in_epochs) return "its length is given twice";
    if (counted && o->total_steps < 1) return ".total_steps is below 1";
    if (counted) return NULL;
    if (!in_epochs) return "its length is missing";
    if (o->epochs < 1) return o->epochs == LS_AUTO ? ".epochs is missing" : ".epochs is below 1";
    if (o->steps_per_epoch < 1)
        return o->steps_per_epoch == LS_AUTO ? ".steps_per_epoch is missing" : ".steps_per_epoch is below 1";
    if (__builtin_mul_overflow(o->epochs, o->steps_per_epoch, &o->total_steps)) return "it is too long";
    return NULL;
}

static bool positive(double value)
{
    return value > 0 && value < INFINITY;
}

/* The maximum rates, one for each of `groups`; an error, and false, if one is invalid. */
static bool tops_sound(ls_errors *errors, const ls_one_cycle_schedule_opts *o, int groups)
{
    if (!o->max_lrs && o->max_lr == LS_AUTO_REAL)
        ls_fail(errors, LS_ERR_VALUE, "ls_one_cycle_schedule_new: .max_lr is missing, the highest rate");
    else if (o->max_lrs && o->max_lr != LS_AUTO_REAL)
        ls_fail(errors, LS_ERR_VALUE, "ls_one_cycle_schedule_new: .max_lr and .max_lrs are both given; leave one out");
    else if (!o->max_lrs && !positive(o->max_lr))
        ls_fail(errors, LS_ERR_VALUE, "ls_one_cycle_schedule_new: .max_lr = %g; it must be finite and above 0",
                o->max_lr);
    else
        for (int i = 0; o->max_lrs && i < groups; i++)
            if (!positive(o->max_lrs[i]))
                ls_fail(errors, LS_ERR_VALUE,
                        "ls_one_cycle_schedule_new: .max_lrs[%d] = %g; it must be finite and above 0", i,
                        o->max_lrs[i]);
    return errors->code == LS_OK;
}

static bool numbers_sound(ls_errors *errors, const ls_one_cycle_schedule_opts *o)
{
    static const ls_one_cycle_schedule_opts unset = {ls_one_cycle_schedule_opts_defaults};
    if (!positive(o->div_factor) || !positive(o->final_div_factor))
        ls_fail(errors, LS_ERR_VALUE,
                "ls_one_cycle_schedule_new: .div_factor = %g and .final_div_factor = %g divide the rate; they must be "
                "finite and above 0",
                o->div_factor, o->final_div_factor);
    else if (!(o->pct_start >= 0 && o->pct_start <= 1))
        ls_fail(errors, LS_ERR_VALUE, "ls_one_cycle_schedule_new: .pct_start is %g, not in [0, 1]", o->pct_start);
    else if (!(o->base_momentum >= 0 && o->base_momentum < 1 && o->max_momentum >= 0 && o->max_momentum < 1))
        ls_fail(errors, LS_ERR_VALUE,
                "ls_one_cycle_schedule_new: .base_momentum = %g and .max_momentum = %g are not in [0, 1)",
                o->base_momentum, o->max_momentum);
    else if (!o->cycle_momentum && (o->base_momentum != unset.base_momentum || o->max_momentum != unset.max_momentum))
        ls_fail(
            errors, LS_ERR_VALUE,
            "ls_one_cycle_schedule_new: .cycle_momentum = false keeps the momentum constant, so .base_momentum = %g "
            "and .max_momentum = %g have no effect; leave one of them out",
            o->base_momentum, o->max_momentum);
    return errors->code == LS_OK;
}

ls_schedule *ls_one_cycle_schedule_new_sized(ls_optim *optim, const ls_one_cycle_schedule_opts *given, size_t opts_size)
{
    if (!optim || ls_object_has_ended(optim, "ls_one_cycle_schedule_new") || ls_failed(optim->object.run)) return NULL;
    ls_errors *errors = &optim->object.run->errors;
    ls_one_cycle_schedule_opts o = LS_OPTS_READ(ls_one_cycle_schedule_opts, given, opts_size);
    const char *problem = length_of(&o);
    if (problem)
        return ls_fail(errors, LS_ERR_VALUE,
                       "ls_one_cycle_schedule_new: %s; give .total_steps, or .epochs and .steps_per_epoch, "
                       "all at least 1",
                       problem),
               NULL;
    if (o.cycle_momentum && !ls_rule_has(optim->rule, "momentum") && !ls_rule_has(optim->rule, "beta1"))
        return ls_fail(errors, LS_ERR_VALUE,
                       "ls_one_cycle_schedule_new: %s has no momentum; give .cycle_momentum = false",
                       optim->rule->name),
               NULL;
    if (!tops_sound(errors, &o, optim->group_count) || !numbers_sound(errors, &o)) return NULL;
    ls_schedule *s = ls_schedule_new(optim, "one cycle", one_cycle_at);
    if (!s) return NULL;
    s->max_lrs = ls_sys_alloc((size_t)optim->group_count * sizeof *s->max_lrs);
    if (!s->max_lrs) {
        ls_fail(errors, LS_ERR_MEMORY, "ls_one_cycle_schedule_new: no memory");
        ls_schedule_free(s);
        return NULL;
    }
    for (int i = 0; i < optim->group_count; i++) s->max_lrs[i] = o.max_lrs ? o.max_lrs[i] : o.max_lr;
    o.max_lrs = NULL; /* owned by the caller */
    s->cycle = o;
    s->limit = s->end = o.total_steps;
    return ls_schedule_begin(s);
}
