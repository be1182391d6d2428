/* schedule.c - learning rates over time.
 *
 * A schedule is a pure function of the step, the group and the group's initial rate, so its state is only the step,
 * and one schedule can run inside another. */
#include "optim/schedule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"

#define PI 3.14159265358979323846

/* ---- common parts ---- */

static void clear(void *object)
{
    ls_schedule *schedule = object;
    ls_sys_free(schedule->parts);
    ls_sys_free(schedule->milestones);
    ls_sys_free(schedule->max_lrs);
}

static void apply(ls_schedule *schedule)
{
    ls_optim *optim = schedule->optim;
    for (int i = 0; i < schedule->group_count && i < optim->group_count; i++) {
        ls_optim_group_opts *now = &optim->groups[i].now;
        ls_rates rates = schedule->rates_at(schedule, schedule->step, i, optim->groups[i].initial_lr);
        if (!(rates.lr >= 0 && rates.lr < INFINITY)) {
            ls_fail(&schedule->object.run->errors, LS_ERR_VALUE,
                    "learning rate schedule (%s): the rate of group %d at step %lld is %g; it must be finite and not "
                    "negative",
                    schedule->kind, i, (long long)schedule->step, rates.lr);
            return;
        }
        now->lr = rates.lr;
        if (i == 0) schedule->lr = rates.lr;
        if (!rates.has_momentum) continue;
        if (ls_rule_has(optim->rule, "beta1")) now->beta1 = rates.momentum;
        else now->momentum = rates.momentum;
    }
}

ls_schedule *ls_schedule_new(ls_optim *optim, const char *kind, ls_rates_fn *rates_at)
{
    if (!optim || ls_object_has_ended(optim, "ls_schedule_new") || ls_failed(optim->object.run)) return NULL;
    ls_schedule *schedule = ls_object_new(optim->object.run, LS_OBJECT_SCHEDULE, sizeof *schedule, clear);
    if (!schedule) return NULL;
    schedule->optim = optim;
    schedule->kind = kind;
    schedule->group_count = optim->group_count;
    schedule->followed = optim->steps;
    schedule->rates_at = rates_at;
    for (int i = 0; i < optim->group_count; i++) {
        ls_group *group = &optim->groups[i];
        if (!group->scheduled) group->initial_lr = group->now.lr;
        group->scheduled = true;
    }
    return schedule;
}

ls_schedule *ls_schedule_begin(ls_schedule *schedule)
{
    if (schedule) apply(schedule);
    return schedule;
}

/* Two schedules in sequence are fine; of two that take turns, each overwrites the other's rate. */
static void check_turns(const ls_schedule *schedule)
{
    ls_optim *optim = schedule->optim;
    if (optim->follows == schedule) return;
    optim->follows = schedule;
    if (++optim->followed != 3) return; /* the first, another, the first again */
    ls_log_of_job(LS_LOG_WARN,
                  "ls_schedule_step: two schedules of one %s take turns, and only the last one's rate is used; "
                  "ls_lambda_schedule_new() can multiply, ls_sequential_schedule_new() runs one after the other",
                  optim->rule->name);
}

void ls_schedule_step(ls_schedule *schedule)
{
    if (!schedule || ls_failed(schedule->object.run)) return;
    ls_run *run = schedule->object.run;
    if (ls_schedule_follows_value(schedule)) {
        ls_fail(&run->errors, LS_ERR_STATE,
                "ls_schedule_step: a plateau schedule follows a value; use ls_schedule_step_with(schedule, value)");
        return;
    }
    bool stepped = schedule->optim->steps != schedule->followed;
    if (!stepped && run->step->schedule_policy != LS_SCHEDULE_PER_CALL) return;
    int64_t step = schedule->step + 1;
    if (run->step->schedule_policy == LS_SCHEDULE_PER_PROCESS) {
        step = schedule->step + run->step->share.world;
        if (schedule->limit && step > schedule->limit) step = schedule->limit;
    }
    check_turns(schedule);
    ls_schedule_set_position(schedule, step);
}

double ls_schedule_lr(const ls_schedule *schedule)
{
    return schedule ? schedule->lr : 0;
}

int64_t ls_schedule_position(const ls_schedule *schedule)
{
    return schedule ? schedule->step : 0;
}

void ls_schedule_set_position(ls_schedule *schedule, int64_t step)
{
    if (!schedule || ls_failed(schedule->object.run)) return;
    if (step < 0) {
        ls_fail(&schedule->object.run->errors, LS_ERR_VALUE,
                "ls_schedule_set_position: step %lld; steps are counted from 0", (long long)step);
        return;
    }
    if (schedule->limit && step > schedule->limit) {
        ls_fail(
            &schedule->object.run->errors, LS_ERR_STATE,
            "ls_schedule_step: step %lld of a schedule made for %lld; ls_steps_per_epoch(loader) counts those of an "
            "epoch",
            (long long)step, (long long)schedule->limit);
        return;
    }
    schedule->step = step;
    schedule->followed = schedule->optim->steps;
    apply(schedule);
}

char *ls_schedule_describe(const ls_schedule *s, char text[LS_SCHEDULE_TEXT])
{
    int used = snprintf(text, LS_SCHEDULE_TEXT, "%s", s->kind);
    if (s->part_count) used += snprintf(text + used, (size_t)(LS_SCHEDULE_TEXT - used), " of %d", s->part_count);
    if (s->end) used += snprintf(text + used, (size_t)(LS_SCHEDULE_TEXT - used), " over %lld steps", (long long)s->end);
    else if (s->period > 1)
        used += snprintf(text + used, (size_t)(LS_SCHEDULE_TEXT - used), " every %lld steps", (long long)s->period);
    if (s->warmup)
        snprintf(text + used, (size_t)(LS_SCHEDULE_TEXT - used), ", %lld of them warm-up", (long long)s->warmup);
    return text;
}

/* Steps skipped by a loss scaler, and a missing last ls_schedule_step(), are not mistakes. */
void ls_schedule_over(const ls_schedule *s)
{
    if (!s->end || s->inner || !s->optim->steps) return;
    int64_t each =
        s->object.run->step->schedule_policy == LS_SCHEDULE_PER_PROCESS ? s->object.run->step->share.world : 1;
    int64_t tolerance = s->end / 100 + each * (1 + s->optim->skipped_steps);
    bool early = s->step + tolerance < s->end;
    bool late = s->step - tolerance > s->end;
    if (!early && !late) return;
    ls_log_of_job(LS_LOG_WARN,
                  "a learning rate schedule created for %lld steps %s step %lld, at a rate of %g; "
                  "ls_steps_per_epoch(loader) counts the steps of an epoch",
                  (long long)s->end, early ? "ended at" : "continued to", (long long)s->step, s->lr);
}

void ls_schedule_free(ls_schedule *schedule)
{
    ls_object_free(schedule);
}

/* A schedule needs at least one of its units. */
static bool sound(const ls_optim *optim, const char *who, const char *unit, int64_t count)
{
    if (!optim || ls_object_has_ended(optim, who) || ls_failed(optim->object.run)) return false;
    if (count > 0) return true;
    ls_fail(&optim->object.run->errors, LS_ERR_VALUE, "%s needs at least one %s, not %lld", who, unit,
            (long long)count);
    return false;
}

/* A rate, or a factor of one, must not make rates NaN, infinite or negative. */
static bool number_sound(const ls_optim *optim, const char *who, const char *name, double value)
{
    if (value >= 0 && value < INFINITY) return true;
    ls_fail(&optim->object.run->errors, LS_ERR_VALUE, "%s: %s = %g; it must be finite and not negative", who, name,
            value);
    return false;
}

/* ---- formulas ---- */

static ls_rates cosine_at(const ls_schedule *s, int64_t step, int group, double initial)
{
    (void)group;
    return (ls_rates){.lr = s->low + (initial - s->low) * (1 + cos(PI * (double)step / (double)s->period)) / 2};
}

ls_schedule *ls_cosine_schedule_new(ls_optim *optim, int64_t period, double eta_min)
{
    if (!sound(optim, "ls_cosine_schedule_new", "step", period) ||
        !number_sound(optim, "ls_cosine_schedule_new", "eta_min", eta_min))
        return NULL;
    ls_schedule *s = ls_schedule_new(optim, "cosine", cosine_at);
    if (!s) return NULL;
    s->period = s->end = period;
    s->low = eta_min;
    return ls_schedule_begin(s);
}

static ls_rates step_at(const ls_schedule *s, int64_t step, int group, double initial)
{
    (void)group;
    return (ls_rates){.lr = initial * pow(s->gamma, (double)(step / s->period))};
}

static ls_schedule *decay_new(ls_optim *optim, const char *who, int64_t period, double gamma)
{
    if (!sound(optim, who, "step", period) || !number_sound(optim, who, "gamma", gamma)) return NULL;
    ls_schedule *s = ls_schedule_new(optim, period > 1 ? "step decay" : "exponential decay", step_at);
    if (!s) return NULL;
    s->period = period;
    s->gamma = gamma;
    return ls_schedule_begin(s);
}

ls_schedule *ls_step_schedule_new(ls_optim *optim, int64_t period, double gamma)
{
    return decay_new(optim, "ls_step_schedule_new", period, gamma);
}

ls_schedule *ls_exponential_schedule_new(ls_optim *optim, double gamma)
{
    return decay_new(optim, "ls_exponential_schedule_new", 1, gamma);
}

static double warmup_progress(const ls_schedule *s, int64_t step)
{
    int64_t rest = s->period - s->warmup;
    return (double)(step - s->warmup) / (double)(rest > 1 ? rest : 1);
}

/* The rate when `part` of the way down is left. A group whose initial rate is lower than the lowest keeps it. */
static double above_low(const ls_schedule *s, double initial, double part)
{
    double low = fmin(s->low, initial);
    return low + (initial - low) * fmax(0, part);
}

static ls_rates warmup_linear_at(const ls_schedule *s, int64_t step, int group, double initial)
{
    (void)group;
    if (step < s->warmup) return (ls_rates){.lr = initial * ((double)step / (double)s->warmup)};
    int64_t rest = s->period - s->warmup;
    return (ls_rates){.lr = above_low(s, initial, (double)(s->period - step) / (double)(rest > 1 ? rest : 1))};
}

static ls_rates warmup_cosine_at(const ls_schedule *s, int64_t step, int group, double initial)
{
    (void)group;
    if (step < s->warmup) return (ls_rates){.lr = initial * ((double)step / (double)s->warmup)};
    double part = step >= s->period ? 0 : 0.5 * (1 + cos(PI * warmup_progress(s, step)));
    return (ls_rates){.lr = above_low(s, initial, part)};
}

static ls_schedule *warmup_new(ls_optim *optim, int64_t warmup, int64_t total, ls_warmup_schedule_opts opts,
                               const char *who, const char *kind, ls_rates_fn *rates_at)
{
    if (!sound(optim, who, "step", total) || !number_sound(optim, who, ".min_lr", opts.min_lr)) return NULL;
    if (warmup < 0 || warmup > total)
        return ls_fail(&optim->object.run->errors, LS_ERR_VALUE,
                       "%s: %lld warm-up steps of %lld in all; the warm-up must be from 0 to the total", who,
                       (long long)warmup, (long long)total),
               NULL;
    ls_schedule *s = ls_schedule_new(optim, kind, rates_at);
    if (!s) return NULL;
    s->period = s->end = total;
    s->warmup = warmup;
    s->low = opts.min_lr;
    return ls_schedule_begin(s);
}

ls_schedule *ls_warmup_linear_schedule_new_sized(ls_optim *optim, int64_t warmup, int64_t total,
                                                 const ls_warmup_schedule_opts *opts, size_t opts_size)
{
    return warmup_new(optim, warmup, total, LS_OPTS_READ(ls_warmup_schedule_opts, opts, opts_size),
                      "ls_warmup_linear_schedule_new", "linear", warmup_linear_at);
}

ls_schedule *ls_warmup_cosine_schedule_new_sized(ls_optim *optim, int64_t warmup, int64_t total,
                                                 const ls_warmup_schedule_opts *opts, size_t opts_size)
{
    return warmup_new(optim, warmup, total, LS_OPTS_READ(ls_warmup_schedule_opts, opts, opts_size),
                      "ls_warmup_cosine_schedule_new", "cosine", warmup_cosine_at);
}

static ls_rates lambda_at(const ls_schedule *s, int64_t step, int group, double initial)
{
    (void)group;
    return (ls_rates){.lr = initial * s->factor(step, s->user)};
}

ls_schedule *ls_lambda_schedule_new(ls_optim *optim, ls_factor_fn *factor, void *user)
{
    if (!optim || ls_object_has_ended(optim, "ls_lambda_schedule_new") || ls_failed(optim->object.run)) return NULL;
    if (!factor) return ls_fail(&optim->object.run->errors, LS_ERR_VALUE, "ls_lambda_schedule_new: no function"), NULL;
    ls_schedule *s = ls_schedule_new(optim, "function of the program", lambda_at);
    if (!s) return NULL;
    s->factor = factor;
    s->user = user;
    return ls_schedule_begin(s);
}

/* ---- sequences ---- */

static ls_rates sequential_at(const ls_schedule *s, int64_t step, int group, double initial)
{
    int i = 0;
    while (i + 1 < s->part_count && step >= s->milestones[i]) i++;
    const ls_schedule *part = s->parts[i];
    return part->rates_at(part, i ? step - s->milestones[i - 1] : step, group, initial);
}

ls_schedule *ls_sequential_schedule_new(ls_optim *optim, ls_schedule *const *schedules, int64_t count,
                                        const int64_t *milestones)
{
    static const char who[] = "ls_sequential_schedule_new";
    if (!sound(optim, who, "schedule", count)) return NULL;
    ls_run *run = optim->object.run;
    if (!ls_list_is_sound(&run->errors, who, "schedules", schedules, count) ||
        !ls_list_is_sound(&run->errors, who, "milestones", milestones, count - 1))
        return NULL;
    for (int64_t i = 0; i < count; i++) {
        const char *why = !schedules[i]                  ? "is NULL"
                          : schedules[i]->optim != optim ? "belongs to another optimiser"
                          : ls_schedule_follows_value(schedules[i])
                              ? "follows a value, not steps: a plateau schedule runs on its own"
                          : i > 1 && milestones[i - 1] < milestones[i - 2] ? "begins before the previous one"
                                                                           : NULL;
        if (why) return ls_fail(&run->errors, LS_ERR_VALUE, "%s: schedule %d %s", who, (int)i, why), NULL;
    }
    ls_schedule *s = ls_schedule_new(optim, "sequence", sequential_at);
    if (!s) return NULL;
    s->part_count = (int)count;
    s->parts = ls_sys_alloc((size_t)count * sizeof *s->parts);
    s->milestones = ls_sys_alloc((size_t)count * sizeof *s->milestones);
    if (!s->parts || !s->milestones) {
        ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory", who);
        ls_object_free(s);
        return NULL;
    }
    memcpy(s->parts, schedules, (size_t)count * sizeof *s->parts);
    if (count > 1) memcpy(s->milestones, milestones, (size_t)(count - 1) * sizeof *s->milestones);
    for (int64_t i = 0; i < count; i++) schedules[i]->inner = true;
    if (schedules[count - 1]->end) s->end = schedules[count - 1]->end + (count > 1 ? milestones[count - 2] : 0);
    return ls_schedule_begin(s);
}
