/* accumulate.h - gradients of several batches make one optimiser step: the counting behind ls_backward() and ls_step().
 *
 * A batch is counted when the first backward pass after ls_next() begins, so that loops without a backward pass
 * (evaluation) do not count, and ls_zero_grad() may stand at either end of the loop's body. Batch i of a group
 * contributes its gradient times weight_i / sum of weights. While the sum is unknown the plan is used: `planned`
 * batches that weigh as much as the first; what the plan got wrong is put right by ls_accumulation_correction()
 * at the step. */
#ifndef LOCKSTEP_TENSOR_ACCUMULATE_H
#define LOCKSTEP_TENSOR_ACCUMULATE_H

#include <lockstep/run.h>

typedef struct ls_accumulation {
    int64_t steps;      /* batches for one step of the optimiser, at least 1 */
    bool across_epochs; /* a group may begin in one pass over a loader and end in the next */
    bool sync;          /* the batch at hand ends its group: ls_step(), ls_zero_grad() and ls_schedule_step() act */
    bool held;          /* ls_set_sync_gradients(run, false): sync stays false, nothing is counted */
    bool scoped;        /* inside ls_accumulate(): the batch has been counted there */
    int64_t step;       /* batches counted since the last one that ended a pass */
    int64_t planned;    /* batches of the group at hand, as far as could be known at its first */
    double unit;        /* weight of the first */
    double sum;         /* weights so far */
    /* Walks back, by ls_run.walk_serial. An optimiser tells from them whether its gradients are complete. */
    uint64_t first_walk; /* of the group at hand: gradients of earlier ones belong to groups that are over */
    uint64_t last_batch; /* first walk of the batch that ends the group, where sync is set */
} ls_accumulation;

/* A batch begins: decide whether it ends its group. */
void ls_accumulation_count(ls_run *run, double weight);
/* Let the gradients at hand add up; let the next walk end their group. */
void ls_accumulation_hold(ls_run *run, bool on);
/* Does the walk about to begin start a group? */
bool ls_accumulation_begins(const ls_run *run);
/* Are gradients that were added to by this walk, and no later one, still waiting for more batches? */
bool ls_accumulation_open(const ls_run *run, uint64_t walk);
/* A backward pass begins: count its batch, unless that has been done. Returns the factor of its loss. */
double ls_accumulation_backward(ls_run *run, double weight);
/* What gradients of a complete group must still be multiplied by. */
double ls_accumulation_correction(const ls_run *run);

#endif
