/* link.h - carrying bytes between hosts: the contract between the library and transports such as UCX and MPI.
 *
 * A transport is a shared object liblockstep-comm-<name>.so that exports `ls_transport_v1`, a function that returns a
 * table. It includes this header and nothing else of the library. It moves bytes between two processes and knows
 * nothing of numbers: collectives are built on top, so that sums do not depend on the transport.
 *
 * A link is one rank's end of a group of processes. Links are made by all ranks of the group, belong to one thread at a
 * time, and do not see each other's messages; another group, or another thread, has links of its own. Between two ranks
 * and on one channel messages arrive in the order in which they were sent. Nothing blocks unless it says so: a caller
 * that waits polls test(), and can give up at any time. */
#ifndef LOCKSTEP_LINK_H
#define LOCKSTEP_LINK_H

#include <lockstep/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LS_TRANSPORT_ABI 1u
#define LS_LINK_ANY (-1)                    /* as peer of receive(): any sender */
#define LS_LINK_MOST ((size_t)1 << 30)      /* largest message, in bytes */
#define LS_LINK_ADDRESS_MOST ((size_t)4096) /* largest address, in bytes */

typedef struct ls_link ls_link;                 /* the transport's own */
typedef struct ls_link_request ls_link_request; /* likewise: a message in flight */

typedef enum ls_link_channel {
    LS_LINK_DATA,   /* collectives and messages */
    LS_LINK_URGENT, /* short messages that end everything; received from LS_LINK_ANY */
    LS_LINK_CHANNELS
} ls_link_channel;

typedef struct ls_link_open_args {
    int rank, size;   /* of this process in the group */
    ls_link *of;      /* the group that this one is part of; NULL: the whole job */
    const int *ranks; /* [size] ranks of the members in `of`; NULL for the whole job */
} ls_link_open_args;

typedef struct ls_transport {
    uint32_t abi, size;  /* LS_TRANSPORT_ABI, sizeof(ls_transport) */
    const char *name;    /* "ucx" */
    const char *version; /* of the library behind it, for `lockstep env` */

    /* Make this rank's end; NULL on failure. Its address is what the others need to reach it; lengths may differ
     * between ranks; 0 bytes: this transport finds the others by itself. */
    ls_link *(*open)(const ls_link_open_args *opts, ls_message *why);
    size_t (*address)(ls_link *link, void *to); /* writes at most LS_LINK_ADDRESS_MOST, returns how many */
    /* Called by all ranks with all addresses, `each` bytes apart, in the order of ranks. May block until all have
     * called it if the transport finds the others by itself. */
    ls_status (*connect)(ls_link *link, const void *addresses, size_t each, ls_message *why);

    /* Start. The memory must stay unchanged until the message is done. *request NULL: already sent; receive always
     * makes a request. receive accepts up to `bytes` and fails on more. Empty messages are delivered too. */
    ls_status (*send)(ls_link *link, int peer, ls_link_channel channel, const void *data, size_t bytes,
                      ls_link_request **request, ls_message *why);
    ls_status (*receive)(ls_link *link, int peer, ls_link_channel channel, void *data, size_t bytes,
                         ls_link_request **request, ls_message *why);
    /* Make progress on this link, and report whether this message is done. After *done, or a failure, the request is
     * freed. *received (may be NULL): how many bytes were received. LS_ERR_PEER: the peer is gone. */
    ls_status (*test)(ls_link *link, ls_link_request *request, bool *done, size_t *received, ls_message *why);
    void (*cancel)(ls_link *link, ls_link_request *request); /* frees the request; its memory may be reused */
    /* Sleep until something may have happened on this link, or the time is over. NULL: not supported. */
    void (*sleep)(ls_link *link, int milliseconds);
    /* Make progress on this link: messages that are done for their sender may still be in flight. Called by other
     * threads too, one at a time. NULL: not needed, or a call on any link of the process serves all. */
    void (*progress)(ls_link *link);

    /* `orderly`: deliver what was sent; otherwise the job has failed and close must not wait for anyone. */
    void (*close)(ls_link *link, bool orderly);

    bool finds_others; /* it connects the ranks itself, as MPI does: its addresses have 0 bytes */
} ls_transport;

typedef const ls_transport *ls_transport_entry(void);

#ifdef __cplusplus
}
#endif
#endif
