/* transport.h - transports between hosts (lockstep/link.h), loaded by name. */
#ifndef LOCKSTEP_COMM_HOSTS_TRANSPORT_H
#define LOCKSTEP_COMM_HOSTS_TRANSPORT_H

#include <lockstep/link.h>

/* Load the plug-in liblockstep-comm-<name>.so, or the one at a path. It is never unloaded: the libraries behind
 * transports have threads and signal handlers of their own, and it is unknown when those are done. NULL: not found, or
 * of another version. */
const ls_transport *ls_transport_load(const char *name, ls_message *why);

#endif
