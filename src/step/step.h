/* step.h - a training step: state shared by loaders, tape and optimisers, which do not know each other.
 *
 * A loader reports each batch (loop.h); backward counts it and weights its gradients (accumulate.h); an optimiser asks
 * whether they are complete, and how they were scaled and reduced.
 *
 * Every run that ls_init() returns has one. The stand-ins for a missing or an ended run (tensor/handle.c,
 * tensor/object.c) do not: they have failed already, and calls check that before anything else. */
#ifndef LOCKSTEP_STEP_STEP_H
#define LOCKSTEP_STEP_STEP_H

#include <stdatomic.h>

#include "step/accumulate.h"
#include "step/finite.h"
#include "step/loop.h"
#include "step/share.h"
#include "tensor/context.h"

struct ls_training_step {
    ls_share share; /* this process's part of what all read */
    ls_loop *loop;  /* the innermost running loop over batches; NULL: none */
    ls_accumulation accumulation;
    ls_dtype mixed_precision;     /* of the forward pass of prepared modules: LS_BF16, LS_F16, or LS_F32 */
    bool full_precision_forwards; /* with mixed precision, unprepared modules ran since the last ls_backward() */
    struct ls_scaler *scaler;     /* of the loss: src/optim; NULL: none */
    struct ls_reducer *reducer;   /* of gradients over processes: src/parallel; NULL: none */
    ls_schedule_policy schedule_policy;
    ls_finite finite;
    unsigned reminded;       /* bits of ls_reminder that were reported: remind.h */
    _Atomic int64_t samples; /* that all processes have trained on; other threads read it */
    int averaged;            /* how many averages (ls_ema) are in the place of their parameters now */
    uint64_t exchanges;      /* of averages and parameters so far */
};

#endif
