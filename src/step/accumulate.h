/* accumulate.h - gradients of several batches make one optimiser step: the counting behind ls_backward() and ls_step().
 *
 * A batch is counted when the first backward pass after ls_next() begins, so that loops without a backward pass
 * (evaluation) do not count, and ls_zero_grad() may stand at either end of the loop's body. Batch i of a group
 * contributes its gradient times weight_i / sum of weights, of all processes. While the sum is unknown the plan is
 * used: `planned` batches that weigh a `unit` each; what the plan got wrong is put right at the step, by
 * ls_accumulation_correction(). Processes whose weights differ must have one plan, or the mean of their gradients could
 * not be put right by one number: theirs does not depend on weights that only one of them knows. */
#ifndef LOCKSTEP_STEP_ACCUMULATE_H
#define LOCKSTEP_STEP_ACCUMULATE_H

#include <lockstep/run.h>

typedef struct ls_accumulation {
    int64_t steps;      /* batches for one step of the optimiser, at least 1 */
    bool across_epochs; /* a group may begin in one pass over a loader and end in the next */
    bool sync;          /* the batch at hand ends its group: ls_step(), ls_zero_grad() and ls_schedule_step() act */
    bool held;          /* ls_set_sync_gradients(run, false): sync stays false, nothing is counted */
    bool scoped;        /* inside ls_accumulate(): the batch has been counted there */
    int64_t step;       /* batches counted since the last one that ended a pass */
    int64_t planned;    /* batches of the group at hand, as far as could be known at its first */
    double unit;        /* what each is expected to weigh: alone, as much as the first; together, `measure` */
    double batches;     /* counted so far */
    double weights;     /* of those with a backward pass */
    double weight;      /* of the batch at hand, once its first pass has told */
    bool told;          /* it has */
    bool weighted;      /* a pass of the group was ls_backward_weighted() */
    bool loose;         /* passes of the group were held, and are no part of the sum */
    double shared_sum;  /* the mean of all processes' sums, once a reduction has told it; 0 before */
    double measure;     /* a power of two near the weights of all in the last group; 1 where they had none */
    /* Walks back, by ls_run.walk_serial. An optimiser tells from them whether its gradients are complete. */
    uint64_t first_walk; /* of the group at hand: gradients of earlier ones belong to groups that are over */
    uint64_t last_batch; /* first walk of the batch that ends the group, where sync is set */
} ls_accumulation;

/* A batch begins: decide whether it ends its group. */
void ls_accumulation_count(ls_run *run);
/* Let the gradients at hand add up; let the next walk end their group. */
void ls_accumulation_hold(ls_run *run, bool on);
/* Does the walk about to begin start a group? */
bool ls_accumulation_begins(const ls_run *run);
/* Are gradients that were added to by this walk, and no later one, still waiting for more batches? */
bool ls_accumulation_open(const ls_run *run, uint64_t walk);
/* A backward pass begins, ls_backward_weighted() or one of weight 1: count its batch, unless that has been done.
 * Returns the factor of its loss; 0 (and an error) where the batch has another weight. */
double ls_accumulation_backward(ls_run *run, double weight, bool weighted);
/* What the batches of the group weigh, so far and here. */
double ls_accumulation_sum(const ls_run *run);
/* What they were expected to, and were divided by: it must be the same in all processes. */
double ls_accumulation_plan(const ls_run *run);
/* All gradients were reduced, to the mean of `processes`; their weights are `total`, 0 where no pass was weighted. */
void ls_accumulation_share(ls_run *run, double total, int processes);
/* What gradients of a complete group must still be multiplied by. */
double ls_accumulation_correction(const ls_run *run);

#endif
