/* prepare.h - the prepared objects, for what is done with all of them: saving, restoring, sharing out. */
#ifndef LOCKSTEP_RUN_PREPARE_H
#define LOCKSTEP_RUN_PREPARE_H

#include <lockstep/data.h>
#include <lockstep/nn.h>

#include "run/session.h"

/* The next prepared object of a kind; *position starts at 0. NULL after the last. */
ls_object *ls_prepared_next(const ls_run *run, ls_object_kind kind, int *position);

/* After a backward pass in which modules that were not prepared took part, although the run has mixed precision: say
 * so, once in a job, where they are trained. */
void ls_look_for_full_precision(ls_run *run);

/* checkpoint/unsaved.c: a checkpoint is saved. Say, once in a job, what has been trained by now and is not in it. */
void ls_remind_of_unsaved(ls_run *run);

/* ---- data_parallel.c: several processes train as one; with one process these do nothing ---- */

/* What the first module would begin: made earlier by those who cannot be called back from it. False (and an error) on
 * failure. */
bool ls_together_begin(ls_run *run);

/* The module's tensors become those of rank 0, its gradients the mean over processes. False after a failure. */
bool ls_together_module(ls_run *run, ls_module *module);
/* All read the same number of samples in batches of the same size; the order becomes that of rank 0. False after a
 * failure. */
bool ls_together_loader(ls_run *run, ls_loader *loader);
/* Prepared optimisers get memory for gradients that processes share. */
void ls_together_optims(ls_run *run);
void ls_together_end(ls_run *run);

#endif
