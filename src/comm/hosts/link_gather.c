/* link_gather.c - gather to rank 0, which sends the whole to all. */
#include "comm/hosts/link_gather.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "comm/shm/segment.h"

typedef struct gathering {
    const ls_transport *transport;
    ls_link *link;
    ls_link_request **request; /* [size]; NULL: not started, or done */
    int rank, size;
    int64_t deadline; /* 0: none */
} gathering;

/* Wait for all requests. */
static ls_status await(gathering *g, ls_message *why)
{
    for (int waiting = g->size; waiting > 0;) {
        waiting = 0;
        for (int r = 0; r < g->size; r++) {
            bool done = false;
            if (!g->request[r]) continue;
            ls_status status = g->transport->test(g->link, g->request[r], &done, NULL, why);
            if (done || status) g->request[r] = NULL;
            if (status) return status;
            waiting += !done;
        }
        if (waiting && g->deadline && ls_comm_clock() > g->deadline)
            return ls_explain(why, LS_ERR_PEER, "rank %d of %d: timed out waiting for %d others", g->rank, g->size,
                              waiting);
        if (waiting && g->transport->sleep) g->transport->sleep(g->link, 10);
        else if (waiting) usleep(100);
    }
    return LS_OK;
}

static ls_status collect(gathering *g, char *all, size_t bytes, ls_message *why)
{
    ls_status status = LS_OK;
    for (int r = 1; r < g->size && !status; r++)
        status = g->transport->receive(g->link, r, LS_LINK_DATA, all + (size_t)r * bytes, bytes, &g->request[r], why);
    if (!status) status = await(g, why);
    for (int r = 1; r < g->size && !status; r++)
        status = g->transport->send(g->link, r, LS_LINK_DATA, all, bytes * (size_t)g->size, &g->request[r], why);
    return status ? status : await(g, why);
}

static ls_status contribute(gathering *g, const void *mine, size_t bytes, void *all, ls_message *why)
{
    ls_status status = g->transport->send(g->link, 0, LS_LINK_DATA, mine, bytes, &g->request[0], why);
    if (!status) status = await(g, why);
    if (!status)
        status = g->transport->receive(g->link, 0, LS_LINK_DATA, all, bytes * (size_t)g->size, &g->request[0], why);
    return status ? status : await(g, why);
}

ls_status ls_link_gather(const ls_transport *transport, int rank, int size, const void *mine, size_t bytes, void *all,
                         int64_t seconds, ls_message *why)
{
    gathering g = {.transport = transport,
                   .request = ls_sys_alloc((size_t)size * sizeof(ls_link_request *)),
                   .rank = rank,
                   .size = size,
                   .deadline = seconds ? ls_comm_clock() + seconds * 1000000000 : 0};
    if (!g.request) return ls_explain(why, LS_ERR_MEMORY, "no memory");
    g.link = transport->open(&(ls_link_open_args){.rank = rank, .size = size}, why);
    ls_status status = g.link ? transport->connect(g.link, NULL, 0, why) : LS_ERR_PEER;
    if (!status && rank == 0) {
        memcpy(all, mine, bytes);
        status = collect(&g, all, bytes, why);
    } else if (!status) {
        status = contribute(&g, mine, bytes, all, why);
    }
    for (int r = 0; r < size && g.link; r++)
        if (g.request[r]) transport->cancel(g.link, g.request[r]);
    if (g.link) transport->close(g.link, !status);
    ls_sys_free(g.request);
    return status;
}
