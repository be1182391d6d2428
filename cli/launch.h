/* launch.h - shared by commands that start a job. */
#ifndef LOCKSTEP_CLI_LAUNCH_H
#define LOCKSTEP_CLI_LAUNCH_H

#include "command.h"
#include "launch_options.h"

/* Run `words` (terminated by NULL) as the options say and supervise the job; returns its exit code. */
int launch_job(const command *by, const launch_options *options, char *const *words);

/* GPUs that a job is for if its number of processes is not given; 0: it is not for GPUs. The same of TPUs. */
int gpus_for(const launch_options *options);
int tpus_for(const launch_options *options);

/* "lockstep NAME: why" on stderr; returns EXIT_USAGE. */
int refuse_options(const command *of, const char *why);

#endif
