/* schedule.h - the inside of a learning rate schedule. */
#ifndef LOCKSTEP_OPTIM_SCHEDULE_H
#define LOCKSTEP_OPTIM_SCHEDULE_H

#include "optim/optim.h"

typedef struct ls_rates {
    double lr;
    bool has_momentum;
    double momentum; /* or beta1 */
} ls_rates;

/* The rates of a group, whose initial rate is given, at a step. */
typedef ls_rates ls_rates_fn(const ls_schedule *schedule, int64_t step, int group, double initial_lr);

struct ls_schedule {
    ls_object object;
    ls_optim *optim;
    const char *kind; /* "cosine" */
    int group_count;  /* when it was made */
    ls_rates_fn *rates_at;
    int64_t step, limit; /* limit: the last step it can be asked for; 0: none */
    int64_t followed;    /* steps of the optimiser that it has followed */
    int64_t end;         /* the step at which its formula has run its course; 0: it has no end */
    bool inner;          /* a part of another, which moves for it */
    double lr;           /* that it set last, of group 0 */

    /* what the formulas need; which of them, says rates_at */
    int64_t period, warmup;
    double gamma, low;
    ls_factor_fn *factor;
    void *user;
    int part_count;
    ls_schedule **parts;
    int64_t *milestones;
    ls_one_cycle_schedule_opts cycle;
    double *max_lrs; /* of each group */
};

/* "cosine over 21 steps": kind and length, as far as it has one. */
enum { LS_SCHEDULE_TEXT = 128 };
char *ls_schedule_describe(const ls_schedule *schedule, char text[LS_SCHEDULE_TEXT]);

/* A schedule at step 0; set what its formula needs, then begin: the rates of step 0 are set. Both accept NULL. */
ls_schedule *ls_schedule_new(ls_optim *optim, const char *kind, ls_rates_fn *rates_at);
ls_schedule *ls_schedule_begin(ls_schedule *schedule);

/* follow.c: go on from the step that rank `from` is at, after the same was done for the optimiser. */
bool ls_schedule_follow(ls_schedule *schedule, int from);

/* Training is over: warn where the schedule was made for another number of steps. */
void ls_schedule_over(const ls_schedule *schedule);

#endif
