/* report.h - what a run has to say at its end. */
#ifndef LOCKSTEP_RUN_REPORT_H
#define LOCKSTEP_RUN_REPORT_H

#include <lockstep/run.h>

/* The run ends without an error: the main process warns of what went wrong all the same. `told`: it was asked to end,
 * so schedules have not come to theirs. */
void ls_run_report(ls_run *run, bool told);

/* The step that training is at, from 1: by the optimiser made first. */
int64_t ls_run_step(const ls_run *run);
/* On devices that nobody waits for: was a loss since the last call not finite? Where waiting costs little. */
void ls_run_look_back(ls_run *run);

#endif
