/* prepare.h - the prepared objects, for what is done with all of them: saving, restoring, sharing out. */
#ifndef LOCKSTEP_RUN_PREPARE_H
#define LOCKSTEP_RUN_PREPARE_H

#include "run/session.h"

/* The next prepared object of a kind; *position starts at 0. NULL after the last. */
ls_object *ls_prepared_next(const ls_run *run, ls_object_kind kind, int *position);

#endif
