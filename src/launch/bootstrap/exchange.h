/* exchange.h - the processes of a job exchange a few bytes each, such as addresses, before they are connected: at a
 * port of rank 0 (store.h), or through the process manager (pmi.h, pmix.h). */
#ifndef LOCKSTEP_LAUNCH_BOOTSTRAP_EXCHANGE_H
#define LOCKSTEP_LAUNCH_BOOTSTRAP_EXCHANGE_H

#include "comm/fd_watcher.h"
#include "launch/bootstrap/identity.h"

typedef struct ls_exchange ls_exchange;

/* Opens the way that identity->bootstrap names; a process that is alone is refused with LS_ERR_UNSUPPORTED. Fills in
 * the rank and the world size if the environment did not give them. A process has one exchange open at a time. A
 * process manager can be contacted only once: its connection stays open until the process ends, and the next exchange
 * reuses it. */
ls_status ls_exchange_open(ls_exchange **exchange, ls_identity *identity, double seconds, ls_message *why);

/* Every rank gives `size` bytes, the same number everywhere, and gets world x size, by rank. All must call it. Fails
 * with LS_ERR_PEER if one of them does not join within `seconds`. */
ls_status ls_exchange_all_gather(ls_exchange *exchange, const void *mine, size_t size, void *all, double seconds,
                                 ls_message *why);

/* After the last all-gather, on rank 0 if the exchange uses its port: keep the port open and report processes that
 * claim a rank of the job. */
bool ls_exchange_can_watch(const ls_exchange *exchange); /* false for NULL */
void ls_exchange_watch(ls_exchange *exchange, ls_claim_fn *claimed, void *user);

void ls_exchange_close(ls_exchange *exchange); /* NULL is allowed */

#endif
