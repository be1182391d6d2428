/* launch.h - the two ways to launch, for a process that is fit for it: no run lives in it (run/launched.c looks).
 *
 * plan.c makes a plan of the options, supervise/ carries it out on every host, and bootstrap/ is how the processes that
 * were started, by us or by anybody else, find each other. What both say to other hosts goes through control/. */
#ifndef LOCKSTEP_LAUNCH_LAUNCH_H
#define LOCKSTEP_LAUNCH_LAUNCH_H

#include <lockstep/launch.h>

/* As ls_launch_program() and ls_launch(). */
int ls_launch_argv(char *const *argv, const ls_launch_opts *opts, size_t opts_size);
int ls_launch_function(ls_worker_fn *function, void *argument, const ls_launch_opts *opts, size_t opts_size);

#endif
