/* checkpoint.h - checkpoints, for the rest of the run. */
#ifndef LOCKSTEP_RUN_CHECKPOINT_CHECKPOINT_H
#define LOCKSTEP_RUN_CHECKPOINT_CHECKPOINT_H

#include "run/session.h"

/* Before the first epoch: restore what --resume_from_checkpoint names, once. With "latest" and no checkpoint yet, the
 * run starts from the beginning. */
void ls_session_resume(ls_run *run);

/* The objects prepared at this position or later, as lists in one block that the caller frees; NULL (and an error) if
 * out of memory. */
void *ls_session_training(ls_run *run, int position, ls_training *t);

#endif
