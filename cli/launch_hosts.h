/* launch_hosts.h - the options of `lockstep launch` about hosts. */
#ifndef LOCKSTEP_CLI_LAUNCH_HOSTS_H
#define LOCKSTEP_CLI_LAUNCH_HOSTS_H

#include "launch_options.h"

/* Fill in the fields of `opts` about hosts and where they connect. False on failure, with the reason in `why`. */
bool launch_hosts(const launch_options *options, ls_launch_opts *opts, char *why, size_t size);

#endif
