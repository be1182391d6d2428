/* launched.h - what a worker inherits from the process that launched it. */
#ifndef LOCKSTEP_RUN_LAUNCHED_H
#define LOCKSTEP_RUN_LAUNCHED_H

#include <lockstep/nn.h>

/* The run of the model that this process was launched with, reset except for the model; only once. NULL the next time,
 * and without a model. */
ls_run *ls_launched_run(ls_module **launched);

/* The run is ready: move its model, which may be NULL, to its device and make it available. */
void ls_launched_keep(ls_run *run, ls_module *launched);

#endif
