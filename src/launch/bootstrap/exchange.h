/* exchange.h - processes of a job tell each other a few bytes each, such as addresses, however they were started: at a
 * port of rank 0 (store.h), or by the process manager (pmi.h, pmix.h). */
#ifndef LOCKSTEP_LAUNCH_BOOTSTRAP_EXCHANGE_H
#define LOCKSTEP_LAUNCH_BOOTSTRAP_EXCHANGE_H

#include "comm/fd_watcher.h"
#include "launch/bootstrap/identity.h"

typedef struct ls_exchange ls_exchange;

/* As identity->bootstrap says; one that is alone is refused with LS_ERR_UNSUPPORTED. Fills in the rank and the world
 * size where the environment did not tell them. A process has one open at a time. What a process manager offers can be
 * begun only once: it stays open until the process ends, and the next exchange goes on with it. */
ls_status ls_exchange_open(ls_exchange **exchange, ls_identity *identity, double seconds, ls_message *why);

/* Every rank gives `size` bytes, the same number everywhere, and gets world x size, by rank. All call it. Fails with
 * LS_ERR_PEER when one of them has not come within `seconds`. */
ls_status ls_exchange_all_gather(ls_exchange *exchange, const void *mine, size_t size, void *all, double seconds,
                                 ls_message *why);

/* After the last all-gather, on rank 0 of those who meet at its port: stay there, and tell of processes that claim a
 * rank of the job. */
bool ls_exchange_can_watch(const ls_exchange *exchange); /* false for NULL */
void ls_exchange_watch(ls_exchange *exchange, ls_claim_fn *claimed, void *user);

void ls_exchange_close(ls_exchange *exchange); /* NULL is allowed */

#endif
