/* scaler.h - loss scaling for f16: PyTorch's constants, Accelerate's skip rule.
 *
 * One scaler serves all optimisers of a run. ls_init() creates it, ls_backward() multiplies the loss by the scale,
 * ls_step() divides the gradients by it and reports whether they are finite. The scale changes only between groups of
 * batches: accumulated gradients must have one scale, and the steps of several optimisers count as one. */
#ifndef LOCKSTEP_OPTIM_SCALER_H
#define LOCKSTEP_OPTIM_SCALER_H

#include <lockstep/optim.h>

#include "step/step.h"

typedef struct ls_scaler {
    ls_object object;
    ls_loss_scaler_state now; /* of the existing gradients */
    ls_loss_scaling_opts rule;
    bool stepped, overflow; /* since the scale was set: an optimiser stepped; a gradient was not finite */
    bool told;              /* warned that it fell below 1 */
} ls_scaler;

/* Create the run's scaler. NULL (and an error) if out of memory. */
ls_scaler *ls_scaler_new(ls_run *run);
ls_scaler *ls_scaler_of(const ls_run *run);      /* NULL: none */
double ls_scaler_scale(const ls_scaler *scaler); /* of the existing gradients; 1 for NULL */

/* A group of batches begins: adjust the scale to the last steps. NULL is accepted. */
void ls_scaler_settle(ls_scaler *scaler);
/* After a step that was taken, or skipped because gradients were not finite. */
void ls_scaler_stepped(ls_scaler *scaler, bool finite);

#endif
