/* plateau.c - what happens when a number stops improving: a lower rate, the end of training. */
#include <math.h>

#include "optim/schedule.h"

/* ---- reduce the rate ---- */

static ls_rates plateau_at(const ls_schedule *s, int64_t step, int group, double initial)
{
    (void)group;
    return (ls_rates){.lr = fmax(initial * pow(s->gamma, (double)step), fmin(s->low, initial))};
}

ls_schedule *ls_plateau_schedule_new_sized(ls_optim *optim, const ls_plateau_schedule_opts *given, size_t opts_size)
{
    ls_plateau_schedule_opts o = LS_OPTS_READ(ls_plateau_schedule_opts, given, opts_size);
    if (!optim || ls_object_has_ended(optim, "ls_plateau_schedule_new") || ls_failed(optim->object.run)) return NULL;
    bool numbers = o.factor > 0 && o.factor < 1 && o.threshold >= 0 && o.threshold < INFINITY && o.min_lr >= 0;
    if (!numbers || o.patience < 0 || o.cooldown < 0) {
        ls_fail(
            &optim->object.run->errors, LS_ERR_VALUE,
            "ls_plateau_schedule_new: .factor = %g must be between 0 and 1, and .patience = %lld, .cooldown = %lld, "
            ".threshold = %g and .min_lr = %g not negative",
            o.factor, (long long)o.patience, (long long)o.cooldown, o.threshold, o.min_lr);
        return NULL;
    }
    ls_schedule *s = ls_schedule_new(optim, "plateau", plateau_at);
    if (!s) return NULL;
    s->gamma = o.factor;
    s->low = o.min_lr;
    s->plateau = o;
    s->progress = ls_value_progress_none(&s->plateau);
    return ls_schedule_begin(s);
}

static bool is_better(const ls_plateau_schedule_opts *o, double value, double best)
{
    double margin = o->absolute ? o->threshold : isinf(best) ? 0 : o->threshold * best;
    return o->maximize ? value > best + margin : value < best - margin;
}

bool ls_schedule_step_with(ls_schedule *s, double value)
{
    if (!s || ls_failed(s->object.run)) return false;
    if (s->rates_at != plateau_at) {
        ls_fail(&s->object.run->errors, LS_ERR_STATE,
                "ls_schedule_step_with: the schedule (%s) follows steps, not a value; use ls_schedule_step()", s->kind);
        return false;
    }
    ls_value_progress *p = &s->progress;
    bool better = is_better(&s->plateau, value, p->best);
    if (better) p->best = value;
    p->waited = better ? 0 : p->waited + 1;
    if (p->cooling > 0) p->cooling--, p->waited = 0;
    if (p->waited <= s->plateau.patience) return false;
    p->cooling = s->plateau.cooldown;
    p->waited = 0;
    double before = s->lr;
    ls_schedule_set_position(s, s->step + 1);
    return s->lr < before;
}

bool ls_schedule_follows_value(const ls_schedule *s)
{
    return s->rates_at == plateau_at;
}

/* ---- end the training ---- */

bool ls_early_stopping_step(ls_early_stopping *stop, double value)
{
    if (!stop) return false;
    if (stop->patience < 0 || !(stop->min_delta >= 0 && stop->min_delta < INFINITY)) {
        ls_fail(&ls_run_of(NULL)->errors, LS_ERR_VALUE,
                "ls_early_stopping_step: .patience = %lld and .min_delta = %g must be finite and not negative",
                (long long)stop->patience, stop->min_delta);
        return true; /* a loop that looks at nothing else ends as well */
    }
    double gain = stop->maximize ? value - stop->best : stop->best - value;
    stop->improved = stop->seen == 0 ? !isnan(value) : gain > stop->min_delta;
    if (stop->improved || stop->seen == 0) stop->best = value; /* NaN until there is a number */
    stop->seen += !isnan(value) || stop->seen > 0;
    stop->waited = stop->improved ? 0 : stop->waited + 1;
    return stop->waited > stop->patience;
}
