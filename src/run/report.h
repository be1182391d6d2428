/* report.h - what a run has to say at its end. */
#ifndef LOCKSTEP_RUN_REPORT_H
#define LOCKSTEP_RUN_REPORT_H

#include <lockstep/run.h>

/* The run ends by itself, not by a signal: the main process warns of what went wrong without an error. */
void ls_run_report(ls_run *run);

#endif
