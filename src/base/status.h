/* status.h - sticky errors: the first failure is kept, with its message, until it is cleared. */
#ifndef LOCKSTEP_BASE_STATUS_H
#define LOCKSTEP_BASE_STATUS_H

#include <lockstep/base.h>

/* "1 worker", "2 workers": printf("%d worker%s", n, LS_S(n)) */
#define LS_S(n) ((n) == 1 ? "" : "s")

/* One record, owned by whatever fails as a whole (a run); used by one thread at a time. All zero is a valid start. */
typedef struct ls_errors {
    ls_status code;     /* LS_OK: nothing has failed */
    bool printed;       /* by ls_errors_print() */
    bool abort_on_fail; /* as LOCKSTEP_ABORT=1 does for all: print the first failure and abort() */
    char path[256];     /* set by the owner: the running module, "resnet50d/layer3.2/conv1"; may be empty */
    char message[1024]; /* "path: text" of the first failure */
    char caller[160];   /* the place in the user's program whose call failed (caller.h); may be empty */
} ls_errors;

/* Record a failure; later ones are ignored, since they mostly follow from the first. The text may contain names from
 * files: it passes through ls_printable(). Returns `code`, so that callers can write `return ls_fail(...)`. */
LS_PRINTF(3, 4) ls_status ls_fail(ls_errors *errors, ls_status code, const char *format, ...);

/* Append to the message of the recorded failure what only a caller knows about it. Does nothing if nothing has
 * failed. */
LS_PRINTF(2, 3) void ls_fail_more(ls_errors *errors, const char *format, ...);

/* Print the failure, if there is one and it was not printed yet. `of_job`: all processes of the job have recorded it,
 * and only the first of them prints it. */
void ls_errors_print(ls_errors *errors, bool of_job);

/* Forget the failure; path and abort_on_fail stay. */
void ls_errors_clear(ls_errors *errors);

#endif
