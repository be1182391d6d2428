/* exchange.h - processes that mpirun, mpiexec or srun have started tell each other a few bytes each, such as
 * addresses. Processes of one host need only the numbers that opening brings (run/others.c); the bytes are for a
 * transport between hosts, which this release does not have. */
#ifndef LOCKSTEP_LAUNCH_EXCHANGE_H
#define LOCKSTEP_LAUNCH_EXCHANGE_H

#include "launch/identity.h"

typedef struct ls_exchange ls_exchange;

/* By PMI-1 or PMIx, as identity->bootstrap says; any other is refused with LS_ERR_UNSUPPORTED. Fills in the rank and
 * the world size where the environment did not tell them. A process opens one, once: both protocols end for good. */
ls_status ls_exchange_open(ls_exchange **exchange, ls_identity *identity, double seconds, ls_message *why);

/* Every rank gives `size` bytes, the same number everywhere, and gets world x size, by rank. All call it. Fails with
 * LS_ERR_PEER when one of them has not come within `seconds`. */
ls_status ls_exchange_all_gather(ls_exchange *exchange, const void *mine, size_t size, void *all, double seconds,
                                 ls_message *why);

void ls_exchange_close(ls_exchange *exchange); /* NULL is allowed */

#endif
