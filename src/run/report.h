/* report.h - what a run tells at its end. */
#ifndef LOCKSTEP_RUN_REPORT_H
#define LOCKSTEP_RUN_REPORT_H

#include <lockstep/run.h>

/* The run ends without an error: the main process reports other problems. `told`: the run was asked to end, so
 * schedules are not complete. */
void ls_run_report(ls_run *run, bool told);

/* The run ends because memory ran out: add to its error what the training holds. */
void ls_run_explain_memory(ls_run *run);

/* The current training step, from 1, counted by the optimiser created first. */
int64_t ls_run_step(const ls_run *run);
/* On asynchronous devices: was a loss since the last call not finite? Called where waiting costs little. */
void ls_run_look_back(ls_run *run);

#endif
