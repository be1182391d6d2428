/* refusals.h - whoever is turned away is told of in the log, but cannot fill it. */
#ifndef LOCKSTEP_LAUNCH_CONTROL_REFUSALS_H
#define LOCKSTEP_LAUNCH_CONTROL_REFUSALS_H

#include <lockstep/base.h>

/* All zero is a valid start. */
typedef struct ls_refusals {
    int64_t since; /* when the present window began; 0: never */
    int shown;     /* lines of it */
    long hidden;   /* refusals that got none */
} ls_refusals;

/* One more: a line of its own, or, after some within a few seconds, a place in the next summary. */
LS_PRINTF(2, 3) void ls_refusals_tell(ls_refusals *refusals, const char *format, ...);
/* The summary that is due, if there is one; with `now` also one that is not. */
void ls_refusals_sum_up(ls_refusals *refusals, bool now);

#endif
