/* remind.h - warnings about objects that were not passed to ls_prepare() but perhaps should have been. */
#ifndef LOCKSTEP_STEP_REMIND_H
#define LOCKSTEP_STEP_REMIND_H

#include <lockstep/run.h>

typedef enum ls_reminder {
    LS_REMIND_PRECISION = 1, /* a module is trained in f32 although the run has mixed precision */
    LS_REMIND_MODULE = 2,    /* each of several processes trains parameters separately */
    LS_REMIND_LOADER = 4,    /* each of several processes trains on all samples */
    LS_REMIND_UNSAVED = 8,   /* something is trained but not saved in checkpoints */
} ls_reminder;

/* Warn, once per job and reason. The text says what follows; ": it was not passed to ls_prepare()" is appended. */
LS_PRINTF(3, 4) void ls_remind_of_prepare(ls_run *run, ls_reminder reason, const char *format, ...);

#endif
