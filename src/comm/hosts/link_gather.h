/* link_gather.h - one exchange of a few bytes over a transport that finds the processes of a job by itself: before it
 * is known which of them share a host, there is no communicator yet. */
#ifndef LOCKSTEP_COMM_HOSTS_LINK_GATHER_H
#define LOCKSTEP_COMM_HOSTS_LINK_GATHER_H

#include <lockstep/link.h>

/* Every rank gives `bytes` and gets size x bytes, by rank. All call it. Fails with LS_ERR_PEER when it takes longer
 * than so many seconds (0: for ever). */
ls_status ls_link_gather(const ls_transport *transport, int rank, int size, const void *mine, size_t bytes, void *all,
                         int64_t seconds, ls_message *why);

#endif
