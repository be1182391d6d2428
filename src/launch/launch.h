/* launch.h - launch a program or a function from a process without a run (run/launched.c checks that).
 *
 * plan.c turns the options into a plan, supervise/ executes it on every host, and bootstrap/ is how the started
 * processes find each other, whichever launcher started them. Messages between hosts go through control/. */
#ifndef LOCKSTEP_LAUNCH_LAUNCH_H
#define LOCKSTEP_LAUNCH_LAUNCH_H

#include <lockstep/launch.h>

/* Like ls_launch_program() and ls_launch(). `trial`: what workers do first if ACCELERATE_DEBUG_MODE is true. */
int ls_launch_argv(char *const *argv, const ls_launch_opts *opts, size_t opts_size);
int ls_launch_function(ls_worker_fn *function, ls_worker_fn *trial, void *argument, const ls_launch_opts *opts,
                       size_t opts_size);

#endif
