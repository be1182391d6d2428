/* ucx.c - messages that come by UCX, from anybody: their tags, lengths and fates. UCX itself is played here; the
 * transport is the plug-in's own code. Nine bytes are an event: what happens, and the tag. */
#include "../../plugins/comm-ucx/ucx.h"

#include "fuzz/fuzz.h"

enum { RANKS = 3, REQUESTS = 8 };

/* ---- a UCX that brings what the bytes say ---- */

typedef struct pending {
    ucp_tag_recv_nbx_callback_t done;
    void *user, *handle;
    ucp_tag_t tag, mask;
    size_t room;
    struct pending *next;
} pending;

static pending *first;

static void end(pending **link, ucs_status_t status, ucp_tag_t tag, size_t length)
{
    pending *p = *link;
    *link = p->next;
    ucp_tag_recv_info_t info = {.sender_tag = tag, .length = length};
    p->done(p->handle, length > p->room && !status ? UCS_ERR_MESSAGE_TRUNCATED : status, &info, p->user);
    free(p);
}

ucs_status_ptr_t ucp_tag_recv_nbx(ucp_worker_h worker, void *buffer, size_t count, ucp_tag_t tag, ucp_tag_t tag_mask,
                                  const ucp_request_param_t *param)
{
    (void)worker, (void)buffer;
    pending *p = malloc(sizeof *p), **last = &first;
    FUZZ_CHECK(p);
    *p = (pending){param->cb.recv, param->user_data, malloc(1), tag, tag_mask, count, NULL};
    while (*last) last = &(*last)->next;
    *last = p;
    return p->handle;
}

ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h ep, const void *buffer, size_t count, ucp_tag_t tag,
                                  const ucp_request_param_t *param)
{
    (void)ep, (void)buffer, (void)count, (void)tag, (void)param;
    return NULL;
}

void ucp_request_cancel(ucp_worker_h worker, void *request)
{
    (void)worker;
    for (pending **link = &first; *link; link = &(*link)->next) {
        if ((*link)->handle != request) continue;
        end(link, UCS_ERR_CANCELED, 0, 0);
        return;
    }
}

void ucp_request_free(void *request)
{
    free(request);
}

ucs_status_t ucp_request_check_status(void *request)
{
    (void)request;
    return UCS_OK;
}

unsigned ucp_worker_progress(ucp_worker_h worker)
{
    (void)worker;
    return 0;
}

ucs_status_t ucp_worker_arm(ucp_worker_h worker)
{
    (void)worker;
    return UCS_ERR_BUSY;
}

void ucp_worker_destroy(ucp_worker_h worker)
{
    (void)worker;
    while (first) end(&first, UCS_ERR_CANCELED, 0, 0);
}

ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep)
{
    (void)worker, (void)params;
    *ep = (ucp_ep_h)(uintptr_t)params;
    return UCS_OK;
}

ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
    (void)ep, (void)param;
    return NULL;
}

const char *ucs_status_string(ucs_status_t status)
{
    return status ? "an error" : "success";
}

/* ---- the transport ---- */

static ls_link_request *requests[REQUESTS];

static void test_all(ls_link *link)
{
    for (int i = 0; i < REQUESTS; i++) {
        bool done = false;
        size_t bytes = 0;
        ls_message why;
        if (!requests[i]) continue;
        ls_status status = ucx_test(link, requests[i], &done, &bytes, &why);
        if (!status && done) FUZZ_CHECK(bytes <= 64);
        if (status || done) requests[i] = NULL;
    }
}

static void message_comes(ucp_tag_t tag, unsigned what)
{
    for (pending **link = &first; *link; link = &(*link)->next) {
        if ((tag ^ (*link)->tag) & (*link)->mask) continue;
        end(link, what & 8 ? UCS_ERR_CONNECTION_RESET : UCS_OK, tag, what >> 4 << 3);
        return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    peer peers[RANKS] = {{.name = 0}, {.name = 1}, {.name = 2}};
    ls_link link = {.worker = (ucp_worker_h)(uintptr_t)peers, .size = RANKS, .whole = true, .peers = peers};
    static char room[REQUESTS][64];
    ls_message why;
    ucx_listen_for_byes(&link);
    for (; size >= 9; bytes += 9, size -= 9) {
        ucp_tag_t tag;
        memcpy(&tag, bytes + 1, sizeof tag);
        int i = (int)(tag % REQUESTS), rank = (int)(tag % (RANKS + 1)) - 1;
        switch (bytes[0] % 4) {
        case 0: message_comes(tag, bytes[0]); break;
        case 1:
            if (!requests[i])
                ucx_receive(&link, rank, (bytes[0] >> 2) % LS_LINK_CHANNELS, room[i], 64, &requests[i], &why);
            break;
        case 2: test_all(&link); break;
        default:
            if (requests[i]) ucx_cancel(&link, requests[i]);
            requests[i] = NULL;
        }
        ucx_progress(&link);
    }
    test_all(&link);
    memset(requests, 0, sizeof requests);
    ucx_requests_cancel(&link);
    while (first) end(&first, UCS_ERR_CANCELED, 0, 0);
    ucx_requests_free(&link);
    return 0;
}
