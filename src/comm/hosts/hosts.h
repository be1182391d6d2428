/* hosts.h - the communicator between processes of several hosts.
 *
 * Ranks of a host use shared memory (shm.h); between hosts a transport carries bytes (lockstep/link.h). Every part of
 * an array has one owner among all ranks, and one holder on each host. The holder sums the part over its host and sends
 * the sum to the owner, which sums over hosts, in host order, and sends the result back. All ranks share the work, all
 * network cards are used, and sums depend on ranks and values only. */
#ifndef LOCKSTEP_COMM_HOSTS_HOSTS_H
#define LOCKSTEP_COMM_HOSTS_HOSTS_H

#include <lockstep/link.h>

#include "comm/shm/segment.h"

typedef struct ls_hosts_opts {
    const ls_transport *transport; /* from ls_transport_load() */
    int rank, size;                /* in the job */
    const int *host;               /* [size] host number of each rank; equal numbers mean the same host */
    ls_segment *segment;           /* shared memory of this host's ranks; its members are in rank order */
    /* Every rank passes `bytes` and receives size x bytes, in rank order; for addresses. NULL: the transport finds the
     * other ranks by itself. */
    ls_status (*all_gather)(void *user, const void *mine, size_t bytes, void *all, ls_message *why);
    void *user;
    int direct; /* up to this many hosts exchange eager messages directly, more of them relay; 0: default */
} ls_hosts_opts;

/* The communicator of all ranks of the job. Blocks until all of them have joined, and holds the segment until closed.
 * NULL on failure. */
ls_comm *ls_hosts_join(const ls_hosts_opts *opts, ls_message *why);

#endif
