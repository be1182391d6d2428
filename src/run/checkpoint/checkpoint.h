/* checkpoint.h - checkpoints as the rest of the run uses them. */
#ifndef LOCKSTEP_RUN_CHECKPOINT_CHECKPOINT_H
#define LOCKSTEP_RUN_CHECKPOINT_CHECKPOINT_H

#include "run/session.h"

/* Before the first epoch: restore what --resume_from_checkpoint names, once. With "latest", where there is none yet,
 * the run begins at the beginning. */
void ls_session_resume(ls_run *run);

/* What was prepared, at this position or later, as lists in one block that the caller frees; NULL (and an error) when
 * memory is out. */
void *ls_session_training(ls_run *run, int position, ls_training *t);

#endif
