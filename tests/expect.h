/* expect.h - calls that must fail. For test files whose run is called `run`. */
#ifndef LOCKSTEP_TESTS_EXPECT_H
#define LOCKSTEP_TESTS_EXPECT_H

#include <lockstep/run.h>

#include "check.h"

/* The run has failed with this status (LS_OK: any), and its message has this in it. Clears it. */
static inline void expect_error(const char *file, int line, ls_run *run, ls_status status, const char *part)
{
    ls_status got = ls_error(run);
    if (!got || (status && got != status) || !strstr(ls_error_message(run), part))
        check_fail(file, line, "got %s \"%s\", expected %s with \"%s\"", ls_status_name(got), ls_error_message(run),
                   status ? ls_status_name(status) : "an error", part);
    ls_clear_error(run);
}

#define FAILS(call, status, part)                                                                                      \
    do {                                                                                                               \
        call;                                                                                                          \
        expect_error(__FILE__, __LINE__, run, status, part);                                                           \
    } while (0)
/* With whatever status. */
#define FAILS_SAYING(call, part) FAILS((void)(call), LS_OK, part)

#endif
