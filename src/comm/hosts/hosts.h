/* hosts.h - the communicator between processes of several hosts.
 *
 * Inside a host ranks meet in shared memory (shm.h); between hosts bytes are carried by a transport (lockstep/link.h).
 * Every part of an array has an owner among all ranks, and a holder on each host: the holder sums the part over its
 * host and sends that to the owner, which sums over hosts, in their order, and sends the result back. So all ranks work
 * and all network headers are used, and sums depend on ranks and numbers alone. */
#ifndef LOCKSTEP_COMM_HOSTS_HOSTS_H
#define LOCKSTEP_COMM_HOSTS_HOSTS_H

#include <lockstep/link.h>

#include "comm/shm/segment.h"

typedef struct ls_hosts_opts {
    const ls_transport *transport; /* of ls_transport_load() */
    int rank, size;                /* of the job */
    const int *host;               /* [size] number of the host of each rank; equal numbers: same host */
    ls_segment *segment;           /* memory of this host's ranks, whose members are in the order of ranks */
    /* Every rank gives `bytes`, gets size x bytes by rank; for addresses. NULL: the transport finds the others by
     * itself. */
    ls_status (*all_gather)(void *user, const void *mine, size_t bytes, void *all, ls_message *why);
    void *user;
    int few; /* hosts that tell each other directly what they do; more of them pass it on. 0: as many as is best */
} ls_hosts_opts;

/* All ranks of the job. Waits for all of them. The segment is held until it is closed. NULL: failed. */
ls_comm *ls_hosts_join(const ls_hosts_opts *opts, ls_message *why);

#endif
