/* caller.c - an error says from where in the program the library was called. Linked with the shared library, as
 * programs are: the other tests have it inside of them. */
#include <lockstep.h>

#include <dlfcn.h>
#include <stdint.h>

#include "base/capture.h"
#include "check.h"

void the_place(ls_run *run);

/* Has a name in the table of dynamic symbols, and calls last so that nothing of it is left out. */
__attribute__((noinline)) void the_place(ls_run *run)
{
    ls_tensor *y = ls_add(ls_zeros(run, LS_F32, 2), ls_zeros(run, LS_F32, 3));
    CHECK(!ls_is_valid(y));
}

static int fails(void)
{
    ls_run *run = ls_init(NULL, NULL);
    the_place(run);
    CHECK(!strstr(ls_error_message(run), "called from")); /* the message is the error's alone */
    ls_relu(NULL);                                        /* later ones are not looked at */
    return ls_finish(run);
}

static void errors_say_where_they_were_made(void)
{
    char said[2048];
    CHECK(WEXITSTATUS(run_captured(NULL, fails, said, sizeof said)) == 1);
    const char *from = strstr(said, " (called from the_place in "), *plus = from ? strrchr(from, '+') : NULL;
    CHECK_MSG(from && plus && strstr(said, "lockstep: error: add: "), "%s", said);
    if (!plus) return;
    Dl_info here;
    CHECK(dladdr((const void *)(uintptr_t)&the_place, &here));
    uintptr_t begin = (uintptr_t)&the_place - (uintptr_t)here.dli_fbase, at = strtoull(plus + 1, NULL, 16);
    CHECK_MSG(at > begin && at < begin + 4096, "%s: not within %#zx", said, (size_t)begin);
}

int main(void)
{
    CHECK_RUN(errors_say_where_they_were_made);
    return check_done();
}
