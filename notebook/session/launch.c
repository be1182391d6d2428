/* launch.c - jobs that cells launch: one that fails makes its cell fail, and with it a notebook that runs unattended.
 *
 * Two functions are in the place of the library's: calls of cells find these first. */
#include <lockstep/launch.h>

#include <dlfcn.h>
#include <signal.h>
#include <string.h>

#include "session.h"

static int noted(const char *caller, int code)
{
    if (code == 128 + SIGINT) failure_note("Interrupted", "%s: the job was interrupted, code %d", caller, code);
    else if (code) failure_note("LaunchError", "%s: the job failed with code %d", caller, code);
    return code;
}

int ls_launch_sized(ls_worker_fn *function, void *user, const ls_launch_opts *opts, size_t opts_size)
{
    int (*launch)(ls_worker_fn *, void *, const ls_launch_opts *, size_t);
    void *symbol = dlsym(RTLD_NEXT, "ls_launch_sized");
    memcpy(&launch, &symbol, sizeof launch);
    return noted("ls_launch", launch(function, user, opts, opts_size));
}

int ls_launch_program_sized(char *const *argv, const ls_launch_opts *opts, size_t opts_size)
{
    int (*launch)(char *const *, const ls_launch_opts *, size_t);
    void *symbol = dlsym(RTLD_NEXT, "ls_launch_program_sized");
    memcpy(&launch, &symbol, sizeof launch);
    return noted("ls_launch_program", launch(argv, opts, opts_size));
}
