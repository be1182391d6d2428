/* prepare.h - the prepared objects, for operations on all of them: saving, restoring, synchronising. */
#ifndef LOCKSTEP_RUN_PREPARE_H
#define LOCKSTEP_RUN_PREPARE_H

#include <lockstep/data.h>
#include <lockstep/nn.h>

#include "run/session.h"

/* The next prepared object of a kind; *position starts at 0. NULL after the last. */
ls_object *ls_prepared_next(const ls_run *run, ls_object_kind kind, int *position);

/* After a backward pass with modules that were not prepared although the run has mixed precision: warn, once per job,
 * if they are trained. */
void ls_look_for_full_precision(ls_run *run);

/* checkpoint/unsaved.c: a checkpoint is being saved. Warn, once per job, of trained objects that are not in it. */
void ls_remind_of_unsaved(ls_run *run);

/* ---- data_parallel.c: several processes train as one; with one process these do nothing ---- */

/* Create, early, what the first module would create: for callers that cannot be cancelled while doing so. False (and an
 * error) on failure. */
bool ls_together_begin(ls_run *run);

/* Set the module's tensors to those of rank 0, and average its gradients over processes. False after a failure. */
bool ls_together_module(ls_run *run, ls_module *module);
/* Check that all read the same number of samples in batches of the same size; use the order of rank 0. False after a
 * failure. */
bool ls_together_loader(ls_run *run, ls_loader *loader);
void ls_together_end(ls_run *run);

#endif
