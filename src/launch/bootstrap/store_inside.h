/* store_inside.h - shared by the two halves of the store: store.c, and store_host.c for rank 0. */
#ifndef LOCKSTEP_LAUNCH_BOOTSTRAP_STORE_INSIDE_H
#define LOCKSTEP_LAUNCH_BOOTSTRAP_STORE_INSIDE_H

#include "launch/bootstrap/store.h"
#include "launch/control/token.h"
#include "launch/control/wire.h"

#define LS_STORE_GREETING 5.0 /* seconds in which each side must identify itself */

typedef struct ls_store_host ls_store_host;

struct ls_store {
    char address[256], token[320];
    int port, rank, world, attempt;
    uint64_t self;
    int loop;
    int round;           /* exchanges started */
    ls_store_host *host; /* of rank 0; NULL elsewhere */

    /* On the other ranks: the connection to rank 0 and its state. */
    ls_wire wire;
    char challenge[LS_PROOF];
    bool welcome, lost;
    ls_status status; /* not LS_OK: unusable, see reason */
    ls_message reason;
    char *all; /* destination of the current round */
    size_t size, taken;
    bool answered; /* all bytes have arrived */
};

/* The proof that each side sends. */
void ls_store_prove(const ls_store *store, const char *role, const char *challenge, char proof[LS_PROOF]);

/* store_host.c: the same calls for rank 0. */
ls_status ls_store_host_open(ls_store *store, int64_t deadline, double seconds, ls_message *why);
ls_status ls_store_host_all_gather(ls_store *store, const void *mine, size_t size, char *all, int64_t deadline,
                                   double seconds, ls_message *why);
void ls_store_host_close(ls_store *store);

enum { LS_STORE_VERSION = 2 }; /* protocol version, sent in hello */

#endif
