/* launch_mpirun.h - accelerate's way to several hosts: one mpirun, which reaches them by ssh. */
#ifndef LOCKSTEP_CLI_LAUNCH_MPIRUN_H
#define LOCKSTEP_CLI_LAUNCH_MPIRUN_H

#include "launch.h"

/* Become `mpirun ... words` for the given --mpirun_hostfile, with the variables (a list that ends with NULL). Returns
 * the exit code only where that fails; the reason is printed. */
int launch_mpirun(const command *by, const launch_options *options, const char *const *variables, char *const *words);

#endif
