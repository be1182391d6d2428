/* schedule.h - the internals of a learning rate schedule. */
#ifndef LOCKSTEP_OPTIM_SCHEDULE_H
#define LOCKSTEP_OPTIM_SCHEDULE_H

#include <math.h>

#include "optim/optim.h"

typedef struct ls_rates {
    double lr;
    bool has_momentum;
    double momentum; /* or beta1 */
} ls_rates;

/* The rates of a group with this initial rate, at a step. */
typedef ls_rates ls_rates_fn(const ls_schedule *schedule, int64_t step, int group, double initial_lr);

/* Of a schedule that follows a value. */
typedef struct ls_value_progress {
    double best;
    int64_t waited, cooling; /* calls since the best; calls left of the cooldown */
} ls_value_progress;

struct ls_schedule {
    ls_object object;
    ls_optim *optim;
    const char *kind; /* "cosine" */
    int group_count;  /* when it was created */
    ls_rates_fn *rates_at;
    int64_t step, limit; /* limit: the last valid step; 0: none */
    int64_t followed;    /* optimiser steps it has followed */
    int64_t end;         /* the step at which its formula ends; 0: no end */
    bool inner;          /* part of another schedule, which advances it */
    double lr;           /* the last rate it set, of group 0 */

    /* parameters of the formulas; rates_at determines which are used */
    int64_t period, warmup;
    double gamma, low;
    ls_factor_fn *factor;
    void *user;
    int part_count;
    ls_schedule **parts;
    int64_t *milestones;
    ls_one_cycle_schedule_opts cycle;
    double *max_lrs; /* of each group */
    ls_plateau_schedule_opts plateau;
    ls_value_progress progress;
};

/* Before the first value: worse than any. */
static inline ls_value_progress ls_value_progress_none(const ls_plateau_schedule_opts *plateau)
{
    return (ls_value_progress){.best = plateau->maximize ? -INFINITY : INFINITY};
}

/* plateau.c: is it moved by ls_schedule_step_with(), so that its progress belongs to its state? */
bool ls_schedule_follows_value(const ls_schedule *schedule);

/* "cosine over 21 steps": kind and length, if it has one. */
enum { LS_SCHEDULE_TEXT = 128 };
char *ls_schedule_describe(const ls_schedule *schedule, char text[LS_SCHEDULE_TEXT]);

/* A schedule at step 0; set the parameters of its formula, then begin, which sets the rates of step 0. Both accept
 * NULL. */
ls_schedule *ls_schedule_new(ls_optim *optim, const char *kind, ls_rates_fn *rates_at);
ls_schedule *ls_schedule_begin(ls_schedule *schedule);

/* follow.c: continue from the step of rank `from`, after the same was done for the optimiser. */
bool ls_schedule_follow(ls_schedule *schedule, int from);

/* Training is over: warn if the schedule was created for another number of steps. */
void ls_schedule_over(const ls_schedule *schedule);

#endif
