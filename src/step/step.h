/* step.h - a step of training: what loaders, tape and optimisers agree on.
 *
 * They know nothing of each other. A loader reports which batch it hands out (loop.h); backward counts it and weighs
 * its gradients (accumulate.h); an optimiser asks whether they are complete, and what scaled and reduced them.
 *
 * Every run that ls_init() returns has one. The runs that stand in for a missing or an ended one (tensor/handle.c,
 * tensor/object.c) do not: they have failed already, and calls check that before anything else. */
#ifndef LOCKSTEP_STEP_STEP_H
#define LOCKSTEP_STEP_STEP_H

#include "step/accumulate.h"
#include "step/finite.h"
#include "step/loop.h"
#include "step/share.h"
#include "tensor/context.h"

struct ls_training_step {
    ls_share share; /* this process's part of what all read */
    ls_loop *loop;  /* the loop over batches at work; NULL outside of all */
    ls_accumulation accumulation;
    ls_dtype mixed_precision;     /* of the forward pass of prepared modules: LS_BF16, LS_F16, or LS_F32 */
    bool full_precision_forwards; /* modules that were not prepared ran although there is one, since ls_backward() */
    struct ls_scaler *scaler;     /* of the loss: src/optim; NULL where none runs */
    struct ls_reducer *reducer;   /* what processes train together: src/parallel; NULL: nothing */
    ls_schedule_policy schedule_policy;
    ls_finite finite;
    unsigned reminded; /* of ls_prepare(), for which reasons: remind.h */
};

#endif
