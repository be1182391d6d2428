/* link_gather.h - one all-gather of a few bytes over a transport that finds the processes of a job by itself; used
 * before it is known which of them share a host, when there is no communicator yet. */
#ifndef LOCKSTEP_COMM_HOSTS_LINK_GATHER_H
#define LOCKSTEP_COMM_HOSTS_LINK_GATHER_H

#include <lockstep/link.h>

/* Called by all ranks: each passes `bytes` and receives size x bytes, in rank order. LS_ERR_PEER if it takes longer
 * than `seconds` (0: no limit). */
ls_status ls_link_gather(const ls_transport *transport, int rank, int size, const void *mine, size_t bytes, void *all,
                         int64_t seconds, ls_message *why);

#endif
