/* transport.h - transports between hosts (lockstep/link.h), found by name. */
#ifndef LOCKSTEP_COMM_HOSTS_TRANSPORT_H
#define LOCKSTEP_COMM_HOSTS_TRANSPORT_H

#include <lockstep/link.h>

/* Load the plug-in liblockstep-comm-<name>.so, or one at a path. It stays loaded: the libraries behind transports have
 * threads and signal handlers of their own, and nobody knows when they are done. NULL: not found, or of another
 * version. */
const ls_transport *ls_transport_load(const char *name, ls_message *why);

#endif
