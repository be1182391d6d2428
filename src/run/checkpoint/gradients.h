/* gradients.h - partially accumulated gradients, for checkpoints. */
#ifndef LOCKSTEP_RUN_CHECKPOINT_GRADIENTS_H
#define LOCKSTEP_RUN_CHECKPOINT_GRADIENTS_H

#include "run/session.h"

/* Between the batches of an accumulation nothing has been reduced: every process has its own gradients. On the main
 * process *parts becomes a list of those of each rank ("0.fc.weight": of module 0), on the others an empty list; NULL
 * if no group of batches is open. All must call it. False (and an error) on failure. */
bool ls_gradients_collect(ls_run *run, ls_state ***parts);
void ls_gradients_collect_end(ls_run *run, ls_state **parts); /* NULL is accepted */

#endif
