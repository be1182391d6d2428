/* launch.h - the two ways to launch, for a process that is fit for it: no run lives in it (run/launched.c looks). */
#ifndef LOCKSTEP_LAUNCH_LAUNCH_H
#define LOCKSTEP_LAUNCH_LAUNCH_H

#include <lockstep/launch.h>

/* As ls_launch_program() and ls_launch(). */
int ls_launch_argv(char *const *argv, const ls_launch_opts *opts, size_t opts_size);
int ls_launch_function(ls_worker_fn *function, void *argument, const ls_launch_opts *opts, size_t opts_size);

#endif
