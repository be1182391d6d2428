/* scaler.h - loss scaling for f16: Accelerate's constants and skip rule.
 *
 * One scaler serves a run. ls_init() makes it, ls_backward() multiplies the loss by ls_scaler_scale(), ls_step() does the
 * rest. */
#ifndef LOCKSTEP_OPTIM_SCALER_H
#define LOCKSTEP_OPTIM_SCALER_H

#include <lockstep/optim.h>

#include "tensor/context.h"

typedef struct ls_scaler {
    ls_object object;
    double scale;
    int64_t good_steps; /* since the scale changed */
} ls_scaler;

/* Make the run's scaler. NULL (and an error) when memory is out. */
ls_scaler *ls_scaler_new(ls_run *run);
ls_scaler *ls_scaler_of(const ls_run *run);      /* NULL where none runs */
double ls_scaler_scale(const ls_scaler *scaler); /* 1 for NULL */

/* After a step that was taken, or was skipped because some were not finite. */
void ls_scaler_update(ls_scaler *scaler, bool finite);

#endif
