/* store.h - processes that know where rank 0 is to be reached, and nothing else, tell each other a few bytes.
 *
 * Rank 0 listens at the job's port, the others connect, in any order; names that cannot be resolved yet and hosts that
 * do not answer yet are tried again. Both sides prove that they know the job's token, in the attempt at hand: strangers
 * and workers of an earlier attempt are refused, with words, and so is one of another number of processes. A rank that
 * two processes claim ends the meeting for all: they may be of two jobs with one port, and nobody can say which of them
 * belongs here. Messages are JSON objects (wire.h); the first member names them. To rank 0:
 *
 *     hello     who I am, with a proof
 *     give      my bytes of round n
 *
 * From rank 0:
 *
 *     store     a challenge, the first thing a new connection hears
 *     welcome   you belong to the job, with a proof that rank 0 does      refused   you do not, and why
 *     take      some of the bytes of all of round n                       failed    nobody gets them, and why */
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
    const char *token; /* what processes of the job, and no others, know */
    int attempt;       /* restarts before this one */
    uint64_t self;     /* another for every process that may claim a rank */
} ls_store_opts;

/* Come together: rank 0 returns when all are there, the others when rank 0 knows them. LS_ERR_PEER: not all came within
 * so many seconds, they are named; or this one was refused. LS_ERR_IO: the port cannot be had. */
ls_status ls_store_open(ls_store **store, const ls_store_opts *opts, double seconds, ls_message *why);

/* Every rank gives `size` bytes, the same number everywhere, at most LS_STORE_MOST, and gets world x size, by rank. All
 * call it. After a failure the store is of no more use. */
ls_status ls_store_all_gather(ls_store *store, const void *mine, size_t size, void *all, double seconds,
                              ls_message *why);

/* Rank 0, after the last round: keep the port, refuse who comes, and tell of those who claim a rank. */
void ls_store_watch(ls_store *store, ls_claim_fn *claimed, void *user);

void ls_store_close(ls_store *store); /* NULL is allowed */

#endif
