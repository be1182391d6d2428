/* processes.c - what one process leaves to others: compiled programs in files, but never its client; and libraries that
 * cannot be used. Each part runs in a process of its own, since the library is loaded once. */
#include <lockstep.h>

#include <sys/wait.h>

#include "check.h"
#include "folder.h"

/* Run a part in a child; true if it returned true. */
static bool in_a_child(bool (*part)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        bool done = part();
        fflush(NULL);
        _exit(done ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status == 0;
}

/* The message of a device that cannot be opened; the environment is restored. */
static bool is_refused(const char *library, const char *reason)
{
    setenv("LOCKSTEP_PJRT_LIBRARY", library, 1);
    ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
    bool named = strstr(ls_error_message(run), reason) != NULL;
    if (!named) fprintf(stderr, "\"%s\" does not have \"%s\"\n", ls_error_message(run), reason);
    ls_finish(run);
    return named;
}

static bool refuses_what_is_not_there(void)
{
    return is_refused("no_such_library.so", "LOCKSTEP_PJRT_LIBRARY=no_such_library.so cannot be read");
}

static bool refuses_what_is_no_library_of_pjrt(void)
{
    return is_refused(XLA_DEVICE, "is not a PJRT library");
}

static void libraries_that_cannot_be_used_are_named(void)
{
    CHECK(in_a_child(refuses_what_is_not_there));
    CHECK(in_a_child(refuses_what_is_no_library_of_pjrt));
}

/* ---- programs in files ---- */

#define CACHE "xla_programs"

static ls_device_counts compute(bool *right)
{
    ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
    float x[] = {1, 2, 3, 4}, y[4];
    ls_tensor *t = ls_from(run, LS_F32, LS_SHAPE(4), x);
    *right = ls_read(ls_add(ls_mul(t, t), t), y, sizeof y) && y[0] == 2 && y[3] == 20;
    ls_device_counts counts = ls_device_stats(run);
    *right &= ls_finish(run) == 0;
    return counts;
}

static bool compiles(void)
{
    bool right;
    ls_device_counts counts = compute(&right);
    return right && counts.compiled == 1 && counts.loaded == 0;
}

static bool loads(void)
{
    bool right;
    ls_device_counts counts = compute(&right);
    return right && counts.compiled == 0 && counts.loaded == 1;
}

static void the_second_start_compiles_nothing(void)
{
    folder_fresh(CACHE);
    setenv("LOCKSTEP_XLA_CACHE", CACHE, 1);
    CHECK(in_a_child(compiles));
    CHECK(in_a_child(loads));
    setenv("LOCKSTEP_XLA_CACHE", "off", 1);
    CHECK(in_a_child(compiles));
    folder_remove(CACHE);
}

/* ---- children ---- */

static bool is_told_that_it_was_forked(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
    return strstr(ls_error_message(run), "had started XLA") != NULL;
}

static bool has_a_child_that_is_told(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
    return ls_error(run) == LS_OK && in_a_child(is_told_that_it_was_forked);
}

static void a_child_of_a_process_that_trains_is_refused(void)
{
    CHECK(in_a_child(has_a_child_that_is_told));
}

int main(void)
{
    CHECK_RUN_FORK(libraries_that_cannot_be_used_are_named);
    CHECK_RUN_FORK(the_second_start_compiles_nothing);
    CHECK_RUN_FORK(a_child_of_a_process_that_trains_is_refused);
    return check_done();
}
