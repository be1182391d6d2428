/* scaler.h - loss scaling for f16: PyTorch's constants, Accelerate's skip rule.
 *
 * One scaler serves all optimisers of a run. ls_init() makes it, ls_backward() multiplies the loss by the scale,
 * ls_step() divides the gradients by it and reports what it found. The scale waits for the next group of batches
 * to change: gradients that add up are of one scale, and the steps of several optimisers count as one. */
#ifndef LOCKSTEP_OPTIM_SCALER_H
#define LOCKSTEP_OPTIM_SCALER_H

#include <lockstep/optim.h>

#include "step/step.h"

typedef struct ls_scaler {
    ls_object object;
    ls_loss_scaler_state now; /* of the gradients there are */
    bool stepped, overflow;   /* since it was settled: some optimiser did; one of their gradients was not finite */
    bool told;                /* that it fell below 1 */
} ls_scaler;

/* Make the run's scaler. NULL (and an error) when memory is out. */
ls_scaler *ls_scaler_new(ls_run *run);
ls_scaler *ls_scaler_of(const ls_run *run);      /* NULL where none runs */
double ls_scaler_scale(const ls_scaler *scaler); /* of the gradients there are; 1 for NULL */

/* A group of batches begins: let the scale follow the steps of the last. NULL is accepted. */
void ls_scaler_settle(ls_scaler *scaler);
/* After a step that was taken, or was skipped because some gradients were not finite. */
void ls_scaler_stepped(ls_scaler *scaler, bool finite);

#endif
