/* launched.h - what a launched process has of the one that launched it. */
#ifndef LOCKSTEP_RUN_LAUNCHED_H
#define LOCKSTEP_RUN_LAUNCHED_H

#include "tensor/context.h"

/* The run of the model that this process was launched with, as good as new but for the model in it, once; then, and
 * without a model, NULL. */
ls_run *ls_launched_run(void);

/* Its model follows to the device of the run. */
void ls_launched_move(ls_run *run);

#endif
