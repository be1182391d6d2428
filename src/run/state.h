/* state.h - checkpoints as the rest of the run uses them. */
#ifndef LOCKSTEP_RUN_STATE_H
#define LOCKSTEP_RUN_STATE_H

#include "run/session.h"

/* Before the first epoch: restore what --resume_from_checkpoint names, once. With "latest", where there is none yet,
 * the run begins at the beginning. */
void ls_session_resume(ls_run *run);

#endif
