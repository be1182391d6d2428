/* launched.h - what a launched process has of the one that launched it. */
#ifndef LOCKSTEP_RUN_LAUNCHED_H
#define LOCKSTEP_RUN_LAUNCHED_H

#include <lockstep/nn.h>

/* The run of the model that this process was launched with, as good as new but for the model in it, once; then, and
 * without a model, NULL. */
ls_run *ls_launched_run(ls_module **launched);

/* The run is ready: its model, which may be NULL, follows to its device, and can be asked for. */
void ls_launched_keep(ls_run *run, ls_module *launched);

#endif
