/* accumulate.h - gradients of several batches make one optimiser step: the counting behind ls_backward() and ls_step().
 *
 * A batch is counted when the first backward pass after ls_next() begins, so that loops without a backward pass
 * (evaluation) do not count, and ls_zero_grad() may be at either end of the loop's body. Batch i of a group contributes
 * its gradient times weight_i / sum of weights, over all processes. While the sum is unknown a plan is used instead:
 * `planned` batches of weight `unit` each; the step corrects the difference, by ls_accumulation_correction(). Processes
 * with different weights must have the same plan, or one number could not correct the mean of their gradients: so the
 * plan does not depend on weights that only one process knows. */
#ifndef LOCKSTEP_STEP_ACCUMULATE_H
#define LOCKSTEP_STEP_ACCUMULATE_H

#include <lockstep/run.h>

typedef struct ls_accumulation {
    int64_t steps;      /* batches for one step of the optimiser, at least 1 */
    bool across_epochs; /* a group may begin in one pass over a loader and end in the next */
    bool sync;          /* the current batch ends its group: ls_step(), ls_zero_grad() and ls_schedule_step() act */
    bool held;          /* ls_set_sync_gradients(run, false): sync stays false, nothing is counted */
    bool scoped;        /* inside ls_accumulate(): the batch has been counted there */
    int64_t step;       /* batches counted since the last one that ended a pass */
    int64_t planned;    /* expected batches of the current group, as known at its first batch */
    double unit;        /* expected weight of each: one process: that of the first; several: `measure` */
    double batches;     /* counted so far */
    double weights;     /* sum, over batches with a backward pass */
    double weight;      /* of the current batch, valid if `weight_known` */
    bool weight_known;  /* the first backward pass of the batch has set `weight` */
    bool weighted;      /* a pass of the group was ls_backward_weighted() */
    bool has_held;      /* passes of the group were held, and are not part of the sum */
    double shared_sum;  /* mean of all processes' sums, once reduced; 0 before */
    double measure;     /* a power of two near the weights of all processes in the last group; 1 if it had none */
    /* Serials of backward walks (ls_run.walk_serial): they tell an optimiser whether its gradients are complete. */
    uint64_t first_walk; /* of the current group: gradients of earlier walks belong to finished groups */
    uint64_t last_batch; /* first walk of the batch that ends the group, if sync is set */
} ls_accumulation;

/* A batch begins: decide whether it ends its group. */
void ls_accumulation_count(ls_run *run);
/* on: let gradients accumulate; off: the next walk ends their group. */
void ls_accumulation_hold(ls_run *run, bool on);
/* Does the walk about to begin start a group? */
bool ls_accumulation_begins(const ls_run *run);
/* Is a gradient whose last contribution came from this walk still waiting for more batches? */
bool ls_accumulation_open(const ls_run *run, uint64_t walk);
/* A backward pass begins, ls_backward_weighted() or one of weight 1: count its batch, unless that has been done.
 * Returns the factor of its loss; 0 (and an error) if the batch has a different weight. */
double ls_accumulation_backward(ls_run *run, double weight, bool weighted);
/* The sum of the weights of the group so far, in this process. */
double ls_accumulation_sum(const ls_run *run);
/* The planned sum, which gradients were divided by: it must be the same in all processes. */
double ls_accumulation_plan(const ls_run *run);
/* All gradients were reduced, to the mean of `processes`; their weights sum to `total`, 0 if no pass was weighted. */
void ls_accumulation_share(ls_run *run, double total, int processes);
/* The factor that corrects the gradients of a complete group. */
double ls_accumulation_correction(const ls_run *run);

#endif
