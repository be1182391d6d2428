/* remind.h - what was not handed to ls_prepare(), and perhaps should have been. */
#ifndef LOCKSTEP_STEP_REMIND_H
#define LOCKSTEP_STEP_REMIND_H

#include <lockstep/run.h>

typedef enum ls_reminder {
    LS_REMIND_PRECISION = 1, /* a module is trained in f32 although the run has mixed precision */
    LS_REMIND_MODULE = 2,    /* each of several processes trains parameters for itself */
    LS_REMIND_LOADER = 4,    /* each of several processes trains on all samples */
    LS_REMIND_UNSAVED = 8,   /* something is trained and in no checkpoint */
} ls_reminder;

/* Warn, once in a job for each reason: what follows from it; that it was not handed to ls_prepare() is added. */
LS_PRINTF(3, 4) void ls_remind_of_prepare(ls_run *run, ls_reminder reason, const char *format, ...);

#endif
