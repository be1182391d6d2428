/* ucx.h - shared by the files of the UCX transport.
 *
 * There is one UCX context per process; every link has its own worker (sockets and queues), so that links of different
 * threads share nothing and messages of different groups cannot be confused. A tag is channel and sender. */
#ifndef LOCKSTEP_COMM_UCX_H
#define LOCKSTEP_COMM_UCX_H

#include <lockstep/link.h>
#include <ucp/api/ucp.h>

/* An internal channel: an empty message that means "I am closing, nothing follows". */
#define BYE ((ls_link_channel)LS_LINK_CHANNELS)

typedef enum peer_state {
    PEER_OPEN,
    PEER_CLOSED, /* it said goodbye; data it sent before can still be received */
    PEER_LOST,   /* the connection to it failed */
} peer_state;

typedef struct peer {
    int name;          /* rank in the job, for messages */
    ucp_ep_h endpoint; /* NULL: not connected yet, or closed */
    const void *address;
    peer_state state;
    ucs_status_t reason; /* why it was lost */
    bool known;          /* messages were exchanged: it waits for a goodbye */
} peer;

struct ls_link_request {
    ls_link *link;
    ls_link_request *next, *previous; /* in the list of the link's requests; next: also in the free list */
    void *handle;                     /* of UCX, until done */
    int peer;                         /* LS_LINK_ANY: any */
    bool receives, done;
    ucs_status_t status;
    size_t bytes; /* size of the buffer; when done, bytes received */
};

struct ls_link {
    ucp_worker_h worker; /* NULL: abandoned */
    int rank, size;
    bool whole; /* the link of the whole job */
    int event;  /* file descriptor that is readable when something happened */
    peer *peers;
    char *addresses; /* [size], each at peers[i].address */
    ls_link_request *active, *free;
    ls_link_request *bye; /* receive for the next goodbye */
};

/* ---- context.c: the one context of the process ---- */

ucp_context_h ucx_context_get(ls_message *why); /* NULL on failure */
void ucx_context_put(void);

/* networks.c: wait briefly for networks that carry traffic but are not reported as running yet. */
void ucx_wait_for_networks(void);

/* ---- endpoint.c: connections to other ranks ---- */

/* Connect if necessary. LS_ERR_PEER: the peer is closed or lost. */
ls_status ucx_endpoint_need(ls_link *link, int rank, ls_message *why);
/* Close the connection; messages on it fail. */
void ucx_endpoint_cut(ls_link *link, int rank);
ls_status ucx_peer_failed(const ls_link *link, int rank, ls_message *why); /* sets `why`; returns LS_ERR_PEER */
/* Wait, for at most `milliseconds`, until everything started on the connections is done, then close them. */
void ucx_endpoints_close(ls_link *link, int milliseconds);

/* ---- message.c ---- */

ls_status ucx_send(ls_link *link, int rank, ls_link_channel channel, const void *data, size_t bytes,
                   ls_link_request **request, ls_message *why);
ls_status ucx_receive(ls_link *link, int rank, ls_link_channel channel, void *data, size_t bytes,
                      ls_link_request **request, ls_message *why);
ls_status ucx_test(ls_link *link, ls_link_request *request, bool *done, size_t *received, ls_message *why);
void ucx_cancel(ls_link *link, ls_link_request *request);
void ucx_sleep(ls_link *link, int milliseconds);
void ucx_progress(ls_link *link);        /* progress everything, goodbyes too */
void ucx_listen_for_byes(ls_link *link); /* from now on */
void ucx_requests_cancel(ls_link *link); /* cancel the remaining receives */
void ucx_requests_free(ls_link *link);   /* only without a worker, which might still complete some */

/* Milliseconds of a monotonic clock. */
int64_t ucx_clock(void);

#endif
