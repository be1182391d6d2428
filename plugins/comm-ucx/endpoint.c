/* endpoint.c - connections between this rank and others, made on first use. */
#include <stdio.h>
#include <time.h>

#include "ucx.h"

int64_t ucx_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* UCX callback: the peer is gone. The endpoint is freed later, because this runs inside UCX. */
static void lost(void *user, ucp_ep_h endpoint, ucs_status_t status)
{
    ls_link *link = user;
    for (int r = 0; r < link->size; r++) {
        peer *p = &link->peers[r];
        if (p->endpoint != endpoint || p->state != PEER_OPEN) continue;
        p->state = PEER_LOST;
        p->reason = status;
    }
}

ls_status ucx_peer_failed(const ls_link *link, int rank, ls_message *why)
{
    const peer *p = &link->peers[rank];
    if (!link->worker)
        snprintf(why->text, sizeof why->text, "UCX: the link of rank %d was abandoned during a message",
                 link->peers[link->rank].name);
    else if (p->state == PEER_CLOSED) snprintf(why->text, sizeof why->text, "rank %d has closed its link", p->name);
    else snprintf(why->text, sizeof why->text, "rank %d is lost: %s", p->name, ucs_status_string(p->reason));
    return LS_ERR_PEER;
}

ls_status ucx_endpoint_need(ls_link *link, int rank, ls_message *why)
{
    peer *p = &link->peers[rank];
    if (!link->worker || p->state != PEER_OPEN) return ucx_peer_failed(link, rank, why);
    if (p->endpoint) return LS_OK;
    const ucp_ep_params_t params = {
        .field_mask =
            UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = p->address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = lost, .arg = link},
    };
    ucs_status_t status = ucp_ep_create(link->worker, &params, &p->endpoint);
    if (status == UCS_OK) {
        p->known = true;
        return LS_OK;
    }
    p->endpoint = NULL;
    snprintf(why->text, sizeof why->text,
             "UCX: cannot connect to rank %d: %s; UCX_NET_DEVICES selects the networks to use", p->name,
             ucs_status_string(status));
    return LS_ERR_PEER;
}

/* Progress until it is done or the deadline passes. */
static void finish(ls_link *link, ucs_status_ptr_t work, int64_t deadline)
{
    if (!UCS_PTR_IS_PTR(work)) return;
    while (ucp_request_check_status(work) == UCS_INPROGRESS && ucx_clock() < deadline) ucx_progress(link);
    ucp_request_free(work);
}

static void close_endpoint(ls_link *link, int rank, uint32_t mode, int64_t deadline)
{
    peer *p = &link->peers[rank];
    if (!p->endpoint) return;
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = p->state == PEER_LOST ? UCP_EP_CLOSE_FLAG_FORCE : mode,
    };
    ucp_ep_h endpoint = p->endpoint;
    p->endpoint = NULL;
    finish(link, ucp_ep_close_nbx(endpoint, &param), deadline);
}

void ucx_endpoint_cut(ls_link *link, int rank)
{
    peer *p = &link->peers[rank];
    if (p->state == PEER_OPEN) {
        p->state = PEER_LOST;
        p->reason = UCS_ERR_CANCELED;
    }
    close_endpoint(link, rank, UCP_EP_CLOSE_FLAG_FORCE, ucx_clock() + 100);
}

void ucx_endpoints_close(ls_link *link, int milliseconds)
{
    int64_t deadline = ucx_clock() + milliseconds;
    uint32_t mode = milliseconds ? 0 : UCP_EP_CLOSE_FLAG_FORCE;
    for (int r = 0; r < link->size; r++) close_endpoint(link, r, mode, deadline);
}
