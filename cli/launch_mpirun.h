/* launch_mpirun.h - accelerate's way to use several hosts: one mpirun, which reaches them by ssh. */
#ifndef LOCKSTEP_CLI_LAUNCH_MPIRUN_H
#define LOCKSTEP_CLI_LAUNCH_MPIRUN_H

#include "launch.h"

/* Replace this process by `mpirun ... words` for the given --mpirun_hostfile, with the variables (terminated by NULL).
 * Returns the exit code only if that fails; the reason is printed. */
int launch_mpirun(const command *by, const launch_options *options, const char *const *variables, char *const *words);

#endif
