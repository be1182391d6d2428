/* link.c - the UCX transport: opening and closing links, and its function table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ucx.h"

/* How long an orderly close waits: for the others to close as well, and for sent messages to leave. */
enum { GOODBYE_MS = 3000, FLUSH_MS = 1000 };

static ls_link *failed(ls_link *link, const char *what, ucs_status_t status, ls_message *why)
{
    snprintf(why->text, sizeof why->text, "UCX: %s: %s", what, ucs_status_string(status));
    if (link->worker) ucp_worker_destroy(link->worker);
    free(link->peers);
    free(link);
    ucx_context_put();
    return NULL;
}

static ls_link *ucx_open(const ls_link_open_args *opts, ls_message *why)
{
    ucp_context_h context = ucx_context_get(why);
    if (!context) return NULL;
    ls_link *link = calloc(1, sizeof *link);
    peer *peers = calloc((size_t)opts->size, sizeof *peers);
    if (!link || !peers) {
        snprintf(why->text, sizeof why->text, "UCX: no memory for a link of %d ranks", opts->size);
        free(link);
        free(peers);
        ucx_context_put();
        return NULL;
    }
    link->rank = opts->rank;
    link->size = opts->size;
    link->whole = !opts->of;
    link->peers = peers;
    for (int r = 0; r < opts->size; r++) peers[r].name = opts->of ? opts->of->peers[opts->ranks[r]].name : r;
    const ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED, /* one thread at a time, not always the same */
    };
    ucs_status_t status = ucp_worker_create(context, &params, &link->worker);
    if (status != UCS_OK) {
        link->worker = NULL;
        return failed(link, "cannot create a worker", status, why);
    }
    status = ucp_worker_get_efd(link->worker, &link->event);
    if (status != UCS_OK) return failed(link, "cannot get an event file descriptor", status, why);
    return link;
}

static size_t ucx_address(ls_link *link, void *to)
{
    ucp_address_t *address = NULL;
    size_t bytes = 0;
    if (ucp_worker_get_address(link->worker, &address, &bytes) != UCS_OK) return 0;
    if (bytes <= LS_LINK_ADDRESS_MOST) memcpy(to, address, bytes);
    ucp_worker_release_address(link->worker, address);
    return bytes <= LS_LINK_ADDRESS_MOST ? bytes : 0;
}

static ls_status ucx_connect(ls_link *link, const void *addresses, size_t each, ls_message *why)
{
    if (each == 0) {
        snprintf(why->text, sizeof why->text,
                 "UCX: addresses of the workers are missing or longer than %zu bytes; "
                 "select fewer networks with UCX_NET_DEVICES",
                 LS_LINK_ADDRESS_MOST);
        return LS_ERR_VALUE;
    }
    link->addresses = malloc((size_t)link->size * each);
    if (!link->addresses) {
        snprintf(why->text, sizeof why->text, "UCX: no memory for %d addresses", link->size);
        return LS_ERR_MEMORY;
    }
    memcpy(link->addresses, addresses, (size_t)link->size * each);
    for (int r = 0; r < link->size; r++) link->peers[r].address = link->addresses + (size_t)r * each;
    ucx_listen_for_byes(link);
    return LS_OK;
}

static bool all_closed(const ls_link *link)
{
    for (int r = 0; r < link->size; r++)
        if (link->peers[r].known && link->peers[r].state == PEER_OPEN) return false;
    return true;
}

static bool is_sending(const ls_link *link)
{
    for (const ls_link_request *r = link->active; r; r = r->next)
        if (!r->receives && !r->done) return true;
    return false;
}

/* Exchange goodbyes with all ranks that know this one: a connection that one side closes while the other still writes
 * to it is reset, and data in flight to the other side is lost. */
static void say_goodbye(ls_link *link)
{
    ls_message why;
    int64_t deadline = ucx_clock() + GOODBYE_MS;
    for (int r = 0; r < link->size; r++) {
        ls_link_request *request;
        if (!link->peers[r].known || link->peers[r].state == PEER_LOST) continue;
        peer_state state = link->peers[r].state;
        link->peers[r].state = PEER_OPEN; /* a peer that has closed already still waits for our goodbye */
        (void)ucx_send(link, r, BYE, NULL, 0, &request, &why);
        if (link->peers[r].state == PEER_OPEN) link->peers[r].state = state;
    }
    while (link->worker && ucx_clock() < deadline && (!all_closed(link) || is_sending(link))) {
        ucx_progress(link);
        ucx_sleep(link, 1);
    }
}

static void ucx_close(ls_link *link, bool orderly)
{
    if (!link) return;
    if (link->worker && link->addresses) {
        if (orderly) say_goodbye(link);
        ucx_endpoints_close(link, orderly ? FLUSH_MS : 0);
    }
    if (link->worker) {
        ucx_requests_cancel(link);
        ucp_worker_destroy(link->worker);
    }
    ucx_requests_free(link);
    free(link->addresses);
    free(link->peers);
    free(link);
    ucx_context_put();
}

const ls_transport *ls_transport_v1(void);

__attribute__((visibility("default"))) const ls_transport *ls_transport_v1(void)
{
    static ls_transport table = {
        .abi = LS_TRANSPORT_ABI,
        .size = sizeof(ls_transport),
        .name = "ucx",
        .open = ucx_open,
        .address = ucx_address,
        .connect = ucx_connect,
        .send = ucx_send,
        .receive = ucx_receive,
        .test = ucx_test,
        .cancel = ucx_cancel,
        .sleep = ucx_sleep,
        .progress = ucx_progress,
        .close = ucx_close,
    };
    table.version = ucp_get_version_string();
    return &table;
}
