/* refusals.h - log refused connections without letting them fill the log. */
#ifndef LOCKSTEP_LAUNCH_CONTROL_REFUSALS_H
#define LOCKSTEP_LAUNCH_CONTROL_REFUSALS_H

#include <lockstep/base.h>

/* All zero is a valid initial state. */
typedef struct ls_refusals {
    int64_t since; /* start of the current window; 0: none yet */
    int shown;     /* lines logged in it */
    long hidden;   /* refusals not logged */
} ls_refusals;

/* Log one more refusal, or, after several within a few seconds, count it in the next summary. */
LS_PRINTF(2, 3) void ls_refusals_tell(ls_refusals *refusals, const char *format, ...);
/* Log the summary if it is due; with `now`, even if not. */
void ls_refusals_sum_up(ls_refusals *refusals, bool now);

#endif
