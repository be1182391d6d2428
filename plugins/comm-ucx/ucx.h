/* ucx.h - what the parts of the UCX transport share.
 *
 * One UCX context serves the process; every link has a worker, that is sockets and queues, of its own, so that links of
 * different threads meet nowhere and messages of different groups cannot be mixed up. A tag is channel and sender. */
#ifndef LOCKSTEP_COMM_UCX_H
#define LOCKSTEP_COMM_UCX_H

#include <lockstep/link.h>
#include <ucp/api/ucp.h>

/* A channel of the transport itself: an empty message that says "I close, nothing follows". */
#define BYE ((ls_link_channel)LS_LINK_CHANNELS)

typedef enum peer_state {
    PEER_OPEN,
    PEER_CLOSED, /* it said goodbye; what it sent before is still there to be received */
    PEER_LOST,   /* the connection to it failed */
} peer_state;

typedef struct peer {
    int name;          /* rank in the job, for messages */
    ucp_ep_h endpoint; /* NULL: not made yet, or given back */
    const void *address;
    peer_state state;
    ucs_status_t reason; /* why it is lost */
    bool known;          /* it sent something, or something was sent to it: it waits for a goodbye */
} peer;

struct ls_link_request {
    ls_link *link;
    ls_link_request *next, *previous; /* of the requests of the link; next: of the free ones */
    void *handle;                     /* UCX's, until it is done */
    int peer;                         /* LS_LINK_ANY: whoever comes */
    bool receives, done;
    ucs_status_t status;
    size_t bytes; /* room; when done, what was received */
};

struct ls_link {
    ucp_worker_h worker; /* NULL: given up */
    int rank, size;
    bool whole; /* of the job */
    int event;  /* file that becomes readable when something happened */
    peer *peers;
    char *addresses; /* [size], each at peers[i].address */
    ls_link_request *active, *free;
    ls_link_request *bye; /* waits for somebody's goodbye */
};

/* ---- context.c: the one context of the process ---- */

ucp_context_h ucx_context_get(ls_message *why); /* NULL: failed */
void ucx_context_put(void);

/* networks.c: wait a moment for networks that already carry traffic, but are not told to be running yet. */
void ucx_wait_for_networks(void);

/* ---- endpoint.c: connections to other ranks ---- */

/* Make sure that there is a connection. LS_ERR_PEER: the other side is closed or lost. */
ls_status ucx_endpoint_need(ls_link *link, int rank, ls_message *why);
/* Cut the connection; messages on it end. */
void ucx_endpoint_cut(ls_link *link, int rank);
ls_status ucx_peer_failed(const ls_link *link, int rank, ls_message *why); /* says why; returns LS_ERR_PEER */
/* Wait, at most so long, until everything that was begun on the connections is done, then close them. */
void ucx_endpoints_close(ls_link *link, int milliseconds);

/* ---- message.c ---- */

ls_status ucx_send(ls_link *link, int rank, ls_link_channel channel, const void *data, size_t bytes,
                   ls_link_request **request, ls_message *why);
ls_status ucx_receive(ls_link *link, int rank, ls_link_channel channel, void *data, size_t bytes,
                      ls_link_request **request, ls_message *why);
ls_status ucx_test(ls_link *link, ls_link_request *request, bool *done, size_t *received, ls_message *why);
void ucx_cancel(ls_link *link, ls_link_request *request);
void ucx_sleep(ls_link *link, int milliseconds);
void ucx_progress(ls_link *link);        /* let everything go on, goodbyes too */
void ucx_listen_for_byes(ls_link *link); /* from now on */
void ucx_requests_cancel(ls_link *link); /* receives that are left */
void ucx_requests_free(ls_link *link);   /* when there is no worker any more, which would still end some */

/* Milliseconds of a clock that never goes back. */
int64_t ucx_clock(void);

#endif
