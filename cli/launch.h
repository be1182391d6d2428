/* launch.h - shared by commands that start a job. */
#ifndef LOCKSTEP_CLI_LAUNCH_H
#define LOCKSTEP_CLI_LAUNCH_H

#include "command.h"
#include "launch_options.h"

/* Run `words` (terminated by NULL) as the options say and supervise the job; returns its exit code. */
int launch_job(const command *by, const launch_options *options, char *const *words);

/* "lockstep NAME: why" on stderr; returns EXIT_USAGE. */
int refuse_options(const command *of, const char *why);

#endif
