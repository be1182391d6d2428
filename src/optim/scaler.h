/* scaler.h - loss scaling for f16: PyTorch's constants, Accelerate's skip rule.
 *
 * One scaler serves all optimisers of a run. ls_init() makes it, ls_backward() multiplies the loss by the scale,
 * ls_step() divides the gradients by it and reports what it found. The scale waits for the next ls_backward() to
 * change: optimisers that step between two of them hold gradients of one scale, and count as one step. */
#ifndef LOCKSTEP_OPTIM_SCALER_H
#define LOCKSTEP_OPTIM_SCALER_H

#include <lockstep/optim.h>

#include "tensor/context.h"

typedef struct ls_scaler {
    ls_object object;
    ls_loss_scale now;      /* of the gradients there are */
    bool stepped, overflow; /* since the last walk back: some optimiser did; one of their gradients was not finite */
} ls_scaler;

/* Make the run's scaler. NULL (and an error) when memory is out. */
ls_scaler *ls_scaler_new(ls_run *run);
ls_scaler *ls_scaler_of(const ls_run *run);      /* NULL where none runs */
double ls_scaler_scale(const ls_scaler *scaler); /* of the gradients there are; 1 for NULL */

/* Before a walk back: settles the steps since the last one, and returns what to multiply the loss by (1 for NULL). */
double ls_scaler_begin_walk(ls_scaler *scaler);
/* After a step that was taken, or was skipped because some gradients were not finite. */
void ls_scaler_stepped(ls_scaler *scaler, bool finite);

#endif
