/* message.c - messages in flight: start, progress, cancel. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "ucx.h"

/* ---- requests ---- */

static ls_link_request *new_request(ls_link *link, int rank, bool receives, size_t bytes)
{
    ls_link_request *request = link->free;
    if (request) link->free = request->next;
    else if (!(request = malloc(sizeof *request))) return NULL;
    *request = (ls_link_request){.link = link,
                                 .next = link->active,
                                 .peer = rank,
                                 .receives = receives,
                                 .status = UCS_INPROGRESS,
                                 .bytes = bytes};
    if (link->active) link->active->previous = request;
    link->active = request;
    return request;
}

static void free_request(ls_link_request *request)
{
    ls_link *link = request->link;
    if (request->next) request->next->previous = request->previous;
    if (request->previous) request->previous->next = request->next;
    else link->active = request->next;
    request->next = link->free;
    link->free = request;
}

void ucx_requests_cancel(ls_link *link)
{
    for (ls_link_request *r = link->active; r; r = r->next)
        if (r->receives && !r->done) ucp_request_cancel(link->worker, r->handle);
}

void ucx_requests_free(ls_link *link)
{
    while (link->active) free_request(link->active);
    for (ls_link_request *next; link->free; link->free = next) {
        next = link->free->next;
        free(link->free);
    }
}

static ls_status no_memory(ls_message *why)
{
    snprintf(why->text, sizeof why->text, "UCX: no memory for a message");
    return LS_ERR_MEMORY;
}

static void finished(ls_link_request *request, ucs_status_t status)
{
    request->handle = NULL;
    request->done = true;
    request->status = status;
}

static void sent(void *handle, ucs_status_t status, void *user)
{
    finished(user, status);
    ucp_request_free(handle);
}

/* ---- tags: 32 bits of channel, 32 of sender ---- */

static ucp_tag_t tag_of(ls_link_channel channel, int rank)
{
    return (ucp_tag_t)channel << 32 | (uint32_t)rank;
}

/* The sender in a tag, which comes from outside: LS_LINK_ANY if it is not a rank of the link. */
static int sender_of(const ls_link *link, ucp_tag_t tag)
{
    return (uint32_t)tag < (uint32_t)link->size ? (int)(uint32_t)tag : LS_LINK_ANY;
}

static void received(void *handle, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user)
{
    ls_link_request *request = user;
    int sender = status == UCS_OK ? sender_of(request->link, info->sender_tag) : LS_LINK_ANY;
    finished(request, status == UCS_OK && sender == LS_LINK_ANY ? UCS_ERR_REJECTED : status);
    if (sender != LS_LINK_ANY) {
        request->bytes = info->length;
        request->peer = sender;
        request->link->peers[sender].known = true;
    }
    ucp_request_free(handle); /* `info` is part of it */
}

/* ---- starting ---- */

ls_status ucx_send(ls_link *link, int rank, ls_link_channel channel, const void *data, size_t bytes,
                   ls_link_request **request, ls_message *why)
{
    ls_status ready = ucx_endpoint_need(link, rank, why);
    if (ready != LS_OK) return ready;
    ls_link_request *r = new_request(link, rank, false, bytes);
    if (!r) return no_memory(why);
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = sent,
        .user_data = r,
    };
    ucs_status_ptr_t handle =
        ucp_tag_send_nbx(link->peers[rank].endpoint, data, bytes, tag_of(channel, link->rank), &param);
    if (UCS_PTR_IS_PTR(handle)) {
        if (!r->done) r->handle = handle;
        *request = r;
        return LS_OK;
    }
    free_request(r);
    *request = NULL;
    if (!UCS_PTR_IS_ERR(handle)) return LS_OK;
    peer *p = &link->peers[rank];
    if (p->state == PEER_OPEN) {
        p->state = PEER_LOST;
        p->reason = UCS_PTR_STATUS(handle);
    }
    return ucx_peer_failed(link, rank, why);
}

/* Always returns a request: only test() reports the number of bytes received. */
ls_status ucx_receive(ls_link *link, int rank, ls_link_channel channel, void *data, size_t bytes,
                      ls_link_request **request, ls_message *why)
{
    if (!link->worker) return ucx_peer_failed(link, link->rank, why);
    /* A rank that only receives needs a connection to learn that its peer is dead. */
    if (rank != LS_LINK_ANY && link->peers[rank].state == PEER_OPEN) {
        ls_status ready = ucx_endpoint_need(link, rank, why);
        if (ready != LS_OK) return ready;
    }
    ls_link_request *r = new_request(link, rank, true, bytes);
    if (!r) return no_memory(why);
    /* Only the callback gets the number of bytes: force it to be called for data that is already here. */
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv = received,
        .user_data = r,
    };
    ucp_tag_t mask = rank == LS_LINK_ANY ? tag_of((ls_link_channel)-1, 0) : (ucp_tag_t)-1;
    ucp_tag_t tag = tag_of(channel, rank == LS_LINK_ANY ? 0 : rank);
    ucs_status_ptr_t handle = ucp_tag_recv_nbx(link->worker, data, bytes, tag, mask, &param);
    if (UCS_PTR_IS_ERR(handle)) finished(r, UCS_PTR_STATUS(handle));
    else if (!r->done) r->handle = handle;
    *request = r;
    return LS_OK;
}

/* ---- progress ---- */

void ucx_listen_for_byes(ls_link *link)
{
    ls_message why;
    if (ucx_receive(link, LS_LINK_ANY, BYE, NULL, 0, &link->bye, &why) != LS_OK) link->bye = NULL;
}

static void receive_byes(ls_link *link)
{
    while (link->bye && link->bye->done) {
        if (link->bye->status == UCS_OK && link->peers[link->bye->peer].state == PEER_OPEN)
            link->peers[link->bye->peer].state = PEER_CLOSED;
        free_request(link->bye);
        ucx_listen_for_byes(link);
    }
}

void ucx_progress(ls_link *link)
{
    if (!link->worker) return;
    ucp_worker_progress(link->worker);
    receive_byes(link);
}

/* UCX must not touch this link any more; everything in flight fails. */
static void give_up(ls_link *link)
{
    ucx_endpoints_close(link, 0);
    ucp_worker_destroy(link->worker);
    link->worker = NULL;
    for (ls_link_request *r = link->active; r; r = r->next)
        if (!r->done) finished(r, UCS_ERR_CANCELED);
}

/* A receive from a rank that is gone: its data is already here or will never come, and UCX would not complete it. */
static void end_orphan(ls_link *link, ls_link_request *request)
{
    if (request->peer == LS_LINK_ANY || link->peers[request->peer].state == PEER_OPEN) return;
    if (request->receives) ucp_request_cancel(link->worker, request->handle);
    if (!request->done && link->peers[request->peer].state == PEER_LOST) ucx_endpoint_cut(link, request->peer);
}

static ls_status failure(ls_link *link, const ls_link_request *request, ls_message *why)
{
    if (request->status == UCS_ERR_MESSAGE_TRUNCATED) {
        snprintf(why->text, sizeof why->text, "a message is longer than the %zu bytes there is room for",
                 request->bytes);
        return LS_ERR_VALUE;
    }
    if (request->status == UCS_ERR_REJECTED) {
        snprintf(why->text, sizeof why->text, "UCX: received a message that no rank of this group has sent");
        return LS_ERR_PEER;
    }
    int rank = request->peer == LS_LINK_ANY ? link->rank : request->peer;
    if (link->peers[rank].state == PEER_OPEN && link->worker) {
        snprintf(why->text, sizeof why->text, "rank %d: %s", link->peers[rank].name,
                 ucs_status_string(request->status));
        return LS_ERR_PEER;
    }
    return ucx_peer_failed(link, rank, why);
}

ls_status ucx_test(ls_link *link, ls_link_request *request, bool *done, size_t *received_bytes, ls_message *why)
{
    if (!request->done) ucx_progress(link);
    if (!request->done) end_orphan(link, request);
    *done = request->done;
    if (!request->done) return LS_OK;
    ls_status status = request->status == UCS_OK ? LS_OK : failure(link, request, why);
    if (received_bytes) *received_bytes = request->bytes;
    free_request(request);
    return status;
}

static void progress_until(const bool *done, ls_link *link, int milliseconds)
{
    for (int64_t end = ucx_clock() + milliseconds; !*done && ucx_clock() < end;) ucx_progress(link);
}

/* Unmatched receives are cancelled. A message in transfer either ends within a short time or the link is abandoned,
 * since its memory must be free. The link of the whole job is needed for other messages: only the connection is cut, if
 * that helps. (It may not help while both ranks are still connecting: a worker that has closed its end answers the
 * other with a new one, and UCX 1.13 aborts a process that sees two.) */
void ucx_cancel(ls_link *link, ls_link_request *request)
{
    if (!request->done && request->receives) ucp_request_cancel(link->worker, request->handle);
    progress_until(&request->done, link, 20);
    if (!request->done && link->whole && request->peer != LS_LINK_ANY) {
        ucx_endpoint_cut(link, request->peer);
        progress_until(&request->done, link, 100); /* closing takes UCX a few rounds */
    }
    if (!request->done) give_up(link);
    free_request(request);
}

void ucx_sleep(ls_link *link, int milliseconds)
{
    if (!link->worker || ucp_worker_arm(link->worker) != UCS_OK) return;
    struct pollfd event = {.fd = link->event, .events = POLLIN};
    (void)poll(&event, 1, milliseconds);
}
