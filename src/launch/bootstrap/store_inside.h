/* store_inside.h - what the two halves of the store share: store.c, and store_host.c for rank 0. */
#ifndef LOCKSTEP_LAUNCH_BOOTSTRAP_STORE_INSIDE_H
#define LOCKSTEP_LAUNCH_BOOTSTRAP_STORE_INSIDE_H

#include "launch/bootstrap/store.h"
#include "launch/control/token.h"
#include "launch/control/wire.h"

#define LS_STORE_GREETING 5.0 /* seconds for either side to say who it is */

typedef struct ls_store_host ls_store_host;

struct ls_store {
    char address[256], token[320];
    int port, rank, world, attempt;
    uint64_t self;
    int loop;
    int round;           /* exchanges begun */
    ls_store_host *host; /* of rank 0; NULL elsewhere */

    /* Of the others: the connection to rank 0, and how far things are with it. */
    ls_wire wire;
    char challenge[LS_PROOF];
    bool welcome, lost;
    ls_status status; /* not LS_OK: it is of no more use, for the reason */
    ls_message reason;
    char *all; /* where bytes of the round at hand go */
    size_t size, taken;
    bool answered; /* they are all there */
};

/* What both sides prove, each for itself. */
void ls_store_prove(const ls_store *store, const char *role, const char *challenge, char proof[LS_PROOF]);

/* store_host.c: the same calls for rank 0. */
ls_status ls_store_host_open(ls_store *store, int64_t deadline, double seconds, ls_message *why);
ls_status ls_store_host_all_gather(ls_store *store, const void *mine, size_t size, char *all, int64_t deadline,
                                   double seconds, ls_message *why);
void ls_store_host_close(ls_store *store);

enum { LS_STORE_VERSION = 2 }; /* of what hello says */

#endif
