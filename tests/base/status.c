/* status.c - the first failure is kept, with path and words; abort on demand. */
#include "base/status.h"

#include "base/capture.h"
#include "check.h"

#include <signal.h>

static void the_first_failure_stays(void)
{
    ls_errors errors = {0};
    CHECK(ls_fail(&errors, LS_ERR_SHAPE, "[%d] and [%d]", 2, 3) == LS_ERR_SHAPE);
    CHECK(ls_fail(&errors, LS_ERR_MEMORY, "later") == LS_ERR_MEMORY);
    CHECK(errors.code == LS_ERR_SHAPE);
    CHECK_TEXT(errors.message, "[2] and [3]");
    ls_errors_clear(&errors);
    CHECK(errors.code == LS_OK && errors.message[0] == '\0');
    strcpy(errors.path, "net/fc1");
    ls_fail(&errors, LS_ERR_VALUE, "p = %g", 1.5);
    CHECK_TEXT(errors.message, "net/fc1: p = 1.5");
    CHECK_TEXT(errors.path, "net/fc1");
}

static void long_words_are_cut(void)
{
    ls_errors errors = {0};
    memset(errors.path, 'p', sizeof errors.path - 1);
    ls_fail(&errors, LS_ERR_IO, "%5000d", 1);
    CHECK(strlen(errors.message) == sizeof errors.message - 1);
    CHECK(memcmp(errors.message + sizeof errors.path - 1, ": ", 2) == 0);
}

static int fails(void)
{
    ls_errors errors = {0};
    ls_fail(&errors, LS_ERR_IO, "no file");
    return 3;
}

static int fails_with_flag(void)
{
    ls_errors errors = {.abort_on_fail = true};
    ls_fail(&errors, LS_ERR_IO, "no file");
    return 3;
}

static void aborts_on_demand(void)
{
    char text[512];
    int status = run_captured("LOCKSTEP_ABORT=1", fails, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_TEXT(text, "lockstep: error: file could not be read or written: no file\n");
    status = run_captured(NULL, fails_with_flag, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    status = run_captured(NULL, fails, text, sizeof text);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(aborts_on_demand);
    CHECK_RUN(the_first_failure_stays);
    CHECK_RUN(long_words_are_cut);
    return check_done();
}
