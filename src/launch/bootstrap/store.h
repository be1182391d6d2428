/* store.h - processes that know only the address of rank 0 exchange a few bytes.
 *
 * Rank 0 listens at the job's port, and the others connect in any order; they retry names that do not resolve yet and
 * hosts that do not answer yet. Both sides prove that they know the job's token, for the current attempt: strangers and
 * workers of an earlier attempt are refused with a reason, and so is a process with another world size. If two
 * processes claim one rank, all fail: they may belong to two jobs with one port, and it is unknown which of them
 * belongs here. Messages are JSON objects (wire.h); the first member names them. To rank 0:
 *
 *     hello     who I am, with a proof
 *     give      my bytes of round n
 *
 * From rank 0:
 *
 *     store     a challenge, the first message on a new connection
 *     welcome   you belong to the job, with a proof that rank 0 does      refused   you do not, and why
 *     take      some of the bytes of all of round n                       failed    the round failed, and why */
#ifndef LOCKSTEP_LAUNCH_BOOTSTRAP_STORE_H
#define LOCKSTEP_LAUNCH_BOOTSTRAP_STORE_H

#include "base/message.h"
#include "comm/fd_watcher.h"

enum { LS_STORE_MOST = 24 << 10 }; /* bytes of a rank in a round */

typedef struct ls_store ls_store;

typedef struct ls_store_opts {
    const char *host; /* where rank 0 is */
    int port;
    int rank, world;
    const char *token; /* the secret of the job */
    int attempt;       /* restarts before this one */
    uint64_t self;     /* unique to this process */
} ls_store_opts;

/* Connect: rank 0 returns when all have joined, the others when rank 0 has accepted them. LS_ERR_PEER: not all joined
 * within `seconds`, with the missing ones named, or this one was refused. LS_ERR_IO: the port is unavailable. */
ls_status ls_store_open(ls_store **store, const ls_store_opts *opts, double seconds, ls_message *why);

/* Every rank gives `size` bytes, the same number everywhere, at most LS_STORE_MOST, and gets world x size, by rank. All
 * must call it. After a failure the store is unusable. */
ls_status ls_store_all_gather(ls_store *store, const void *mine, size_t size, void *all, double seconds,
                              ls_message *why);

/* Rank 0, after the last round: keep the port, refuse newcomers, and report those that claim a rank. */
void ls_store_watch(ls_store *store, ls_claim_fn *claimed, void *user);

void ls_store_close(ls_store *store); /* NULL is allowed */

#endif
