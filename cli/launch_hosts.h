/* launch_hosts.h - what the options of `lockstep launch` say about hosts. */
#ifndef LOCKSTEP_CLI_LAUNCH_HOSTS_H
#define LOCKSTEP_CLI_LAUNCH_HOSTS_H

#include "launch_options.h"

/* Fill in what `opts` has about hosts and where they meet. False: `why` says what is wrong. */
bool launch_hosts(const launch_options *options, ls_launch_opts *opts, char *why, size_t size);

#endif
