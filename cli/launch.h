/* launch.h - what commands that start a job share. */
#ifndef LOCKSTEP_CLI_LAUNCH_H
#define LOCKSTEP_CLI_LAUNCH_H

#include "command.h"
#include "launch_options.h"

/* Start `words` (ends with NULL) as the options say, watch over the job; its exit code. */
int launch_job(const command *by, const launch_options *options, char *const *words);

/* "lockstep NAME: why" on stderr; returns EXIT_USAGE. */
int refuse_options(const command *of, const char *why);

#endif
