/* pairs.c - collectives in which each pair of ranks exchanges its own data, and send and receive.
 *
 * Everything travels on the link, also between ranks of a host, except for send and receive there. */
#include <string.h>

#include "comm/hosts/internal.h"

typedef struct exchange {
    ls_hosts *h;
    const ls_comm_call *call;
    size_t element;
} exchange;

static int64_t part_count(const int64_t *counts, int64_t count, int rank)
{
    return counts ? counts[rank] : count;
}

static int64_t part_offset(const int64_t *counts, int64_t count, int rank)
{
    int64_t sum = 0;
    for (int r = 0; r < rank; r++) sum += part_count(counts, count, r);
    return sum;
}

/* The data for rank `to`, or expected from rank `from`. False: the two ranks exchange no message at all. */
static bool outgoing(const exchange *x, int to, const char **data, size_t *bytes)
{
    const ls_comm_call *call = x->call;
    bool parts = call->kind == LS_COMM_ALL_TO_ALL || call->kind == LS_COMM_SCATTER;
    size_t at = parts ? (size_t)part_offset(call->counts, call->count, to) * x->element : 0;
    *data = call->in ? (const char *)call->in + at : NULL;
    *bytes = (size_t)(parts ? part_count(call->counts, call->count, to) : call->count) * x->element;
    switch (call->kind) {
    case LS_COMM_ALL_TO_ALL: return true;
    case LS_COMM_SCATTER: return x->h->comm.rank == call->peer;
    case LS_COMM_RECEIVE: return false;
    default: return to == call->peer; /* gather, send */
    }
}

static bool incoming(const exchange *x, int from, char **data, size_t *bytes)
{
    const ls_comm_call *call = x->call;
    const int64_t *counts = call->kind == LS_COMM_GATHER ? call->counts : call->out_counts;
    bool parts = call->kind == LS_COMM_ALL_TO_ALL || call->kind == LS_COMM_GATHER;
    size_t at = parts ? (size_t)part_offset(counts, call->count, from) * x->element : 0;
    *data = call->out ? (char *)call->out + at : NULL;
    *bytes = (size_t)(parts ? part_count(counts, call->count, from) : call->count) * x->element;
    switch (call->kind) {
    case LS_COMM_ALL_TO_ALL: return true;
    case LS_COMM_GATHER: return x->h->comm.rank == call->peer;
    case LS_COMM_SEND: return false;
    default: return from == call->peer; /* scatter, receive */
    }
}

/* Data too long for an eager message, in messages of one piece each. */
static ls_status send_rest(ls_hosts *h, int peer, const char *data, size_t bytes, ls_message *why)
{
    ls_status status = LS_OK;
    for (size_t at = 0; bytes > LS_EAGER_DATA && at < bytes && !status; at += h->piece) {
        size_t piece = bytes - at < h->piece ? bytes - at : h->piece;
        status = ls_hosts_send(h, &h->sent, peer, data + at, piece, why);
    }
    return status;
}

static ls_status receive_rest(ls_hosts *h, int peer, char *data, size_t bytes, ls_message *why)
{
    const ls_eager *eager = h->eager_from[peer];
    ls_status status = LS_OK;
    if (eager->bytes != bytes) {
        status = ls_shm_wrong_size(h->local, h->job_ranks[peer], eager->bytes, bytes);
        *why = h->local->broken;
        return status;
    }
    if (bytes && bytes <= LS_EAGER_DATA) memcpy(data, eager->data, bytes);
    for (size_t at = 0; bytes > LS_EAGER_DATA && at < bytes && !status; at += h->piece) {
        size_t piece = bytes - at < h->piece ? bytes - at : h->piece;
        status = ls_hosts_receive(h, &h->in[0], peer, data + at, piece, why);
    }
    return status;
}

static ls_status exchange_all(const exchange *x, ls_message *why)
{
    ls_hosts *h = x->h;
    int me = h->comm.rank, size = h->comm.size;
    const char *from;
    char *to;
    size_t bytes, wanted;
    ls_status status = LS_OK;
    for (int r = 0; r < size && !status; r++)
        if (r != me && incoming(x, r, &to, &bytes)) status = ls_eager_expect(h, r, why);
    for (int i = 1; i < size && !status; i++) {
        int r = (me + i) % size;
        if (!outgoing(x, r, &from, &bytes)) continue;
        status = ls_eager_send(h, r, from, bytes, why);
        if (!status) status = send_rest(h, r, from, bytes, why);
    }
    if (!status && outgoing(x, me, &from, &bytes) && incoming(x, me, &to, &wanted)) {
        if (bytes != wanted) {
            status = ls_shm_wrong_size(h->local, h->job_ranks[me], bytes, wanted);
            *why = h->local->broken;
        } else if (bytes) memmove(to, from, bytes);
    }
    if (!status) status = ls_eagers_await(h, why);
    for (int r = 0; r < size && !status; r++)
        if (r != me && incoming(x, r, &to, &bytes)) status = receive_rest(h, r, to, bytes, why);
    if (!status) status = ls_hosts_await(h, &h->in[0], why);
    return status ? status : ls_hosts_await(h, &h->sent, why);
}

ls_status ls_hosts_pairs(ls_hosts *h, const ls_comm_call *call, ls_message *why)
{
    exchange x = {h, call, ls_dtype_size(call->dtype)};
    ls_status status = LS_OK;
    if (h->local->comm.rank == 0 && call->kind != LS_COMM_ALL_TO_ALL) {
        /* Hosts that exchange no data in this call also check that they are in the same call; first of all, or ranks in
         * different calls would wait for each other. */
        h->eager_to[h->comm.rank].bytes = 0;
        status = ls_hosts_exchange(h, why);
    }
    return status ? status : exchange_all(&x, why);
}

ls_status ls_hosts_message(ls_hosts *h, const ls_comm_call *call, ls_message *why)
{
    if (h->place[call->peer].host == h->host) {
        ls_comm_call here = *call;
        here.peer = h->place[call->peer].local;
        return ls_shm_message(h->local, &here, why);
    }
    exchange x = {h, call, ls_dtype_size(call->dtype)};
    return exchange_all(&x, why);
}
