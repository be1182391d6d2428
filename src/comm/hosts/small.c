/* small.c - collectives of few bytes: the first rank of each host exchanges its host's share with those of others.
 *
 * Every rank copies its share into its stage; the first rank combines them, exchanges the result and leaves the total
 * in its stage, from which the others copy what they need. A rank that is alone on its host needs no stage. */
#include <string.h>

#include "comm/hosts/internal.h"

typedef struct small {
    ls_hosts *h;
    const ls_comm_call *call;
    size_t element, total; /* element: bytes of one; total: bytes of the full array, or of the result */
    ls_dtype wire;         /* type of a host's sum */
} small;

static small make_small(const ls_hosts *h, const ls_comm_call *call)
{
    small s = {.h = (ls_hosts *)(uintptr_t)h, .call = call, .element = ls_dtype_size(call->dtype), .wire = call->dtype};
    bool parts = call->kind == LS_COMM_ALL_GATHER || call->kind == LS_COMM_REDUCE_SCATTER;
    s.total = (size_t)(parts ? ls_comm_offset(call, h->comm.size) : call->count) * s.element;
    s.wire = ls_hosts_wire(h, call);
    return s;
}

/* Bytes of a host's share. */
static size_t host_bytes(const small *s, int host)
{
    const ls_hosts *h = s->h;
    size_t bytes = 0;
    switch (s->call->kind) {
    case LS_COMM_BROADCAST: return h->place[s->call->peer].host == host ? s->total : 0;
    case LS_COMM_ALL_GATHER:
        for (int l = 0; l < h->width[host]; l++) bytes += (size_t)ls_comm_part(s->call, h->ranks[host][l]) * s->element;
        return bytes;
    default: return s->total / s->element * ls_dtype_size(s->wire);
    }
}

bool ls_hosts_is_small(const ls_hosts *h, const ls_comm_call *call)
{
    small s = make_small(h, call);
    for (int host = 0; host < h->hosts; host++)
        if (host_bytes(&s, host) > LS_EAGER_DATA) return false;
    return s.total <= h->piece;
}

/* The input of this rank. */
static const char *own_share(const small *s, size_t *bytes)
{
    bool root = s->h->comm.rank == s->call->peer;
    *bytes = (size_t)s->call->count * s->element;
    switch (s->call->kind) {
    case LS_COMM_BROADCAST: *bytes = root ? s->total : 0; return s->call->out;
    case LS_COMM_REDUCE_SCATTER: *bytes = s->total; break;
    case LS_COMM_BARRIER: *bytes = 0; break;
    default: break;
    }
    return s->call->in;
}

void ls_hosts_small_put(ls_hosts *h, const ls_comm_call *call)
{
    small s = make_small(h, call);
    size_t bytes;
    const char *mine = own_share(&s, &bytes);
    if (ls_hosts_width(h) > 1 && bytes) memcpy(ls_hosts_stage(h, h->local->comm.rank, h->turn), mine, bytes);
}

/* The share that a rank of this host has put. */
static const char *share_of(const small *s, int local)
{
    size_t bytes;
    return ls_hosts_width(s->h) > 1 ? ls_hosts_stage(s->h, local, s->h->turn) : own_share(s, &bytes);
}

/* Combine the shares of this host into the eager message. */
static void gather_host(const small *s, ls_eager *eager)
{
    ls_hosts *h = s->h;
    const void *rows[LS_SEGMENT_MOST];
    char *at = eager->data;
    eager->bytes = host_bytes(s, h->host);
    if (ls_comm_reduces(s->call->kind)) {
        for (int l = 0; l < ls_hosts_width(h); l++) rows[l] = share_of(s, l);
        ls_combine_kernels()->fold_rows(s->call->dtype, s->wire, ls_comm_fold(s->call->op), 1, (void *[]){at}, 1, rows,
                                        ls_hosts_width(h), (int64_t)(s->total / s->element));
    } else if (s->call->kind == LS_COMM_BROADCAST && eager->bytes) {
        memcpy(at, share_of(s, h->place[s->call->peer].local), s->total);
    } else if (s->call->kind == LS_COMM_ALL_GATHER) {
        for (int l = 0; l < ls_hosts_width(h); l++) {
            size_t bytes = (size_t)ls_comm_part(s->call, h->ranks[h->host][l]) * s->element;
            if (bytes) memcpy(at, share_of(s, l), bytes);
            at += bytes;
        }
    }
}

/* Combine the shares of all hosts into the result. */
static void join_hosts(const small *s, const ls_eager *const *eagers, char *result)
{
    ls_hosts *h = s->h;
    const void *rows[LS_HOSTS_MOST];
    if (ls_comm_reduces(s->call->kind)) {
        double scale = s->call->op == LS_REDUCE_MEAN ? 1.0 / h->comm.size : 1.0;
        for (int host = 0; host < h->hosts; host++) rows[host] = eagers[host]->data;
        ls_combine_kernels()->fold_rows(s->wire, s->call->dtype, ls_comm_fold(s->call->op), scale, (void *[]){result},
                                        1, rows, h->hosts, (int64_t)(s->total / s->element));
    } else if (s->call->kind == LS_COMM_BROADCAST && s->total) {
        memcpy(result, eagers[h->place[s->call->peer].host]->data, s->total);
    } else if (s->call->kind == LS_COMM_ALL_GATHER) {
        for (int host = 0; host < h->hosts; host++) {
            const char *at = eagers[host]->data;
            for (int l = 0; l < h->width[host]; l++) {
                int rank = h->ranks[host][l];
                size_t bytes = (size_t)ls_comm_part(s->call, rank) * s->element;
                if (bytes) memcpy(result + (size_t)ls_comm_offset(s->call, rank) * s->element, at, bytes);
                at += bytes;
            }
        }
    }
}

/* Copy what this rank needs of the result. */
static void copy_result(const small *s, const char *result)
{
    const ls_hosts *h = s->h;
    size_t bytes = s->total;
    if (s->call->kind == LS_COMM_REDUCE && h->comm.rank != s->call->peer) return;
    if (s->call->kind == LS_COMM_REDUCE_SCATTER) {
        bytes = (size_t)s->call->count * s->element;
        result += (size_t)ls_comm_offset(s->call, h->comm.rank) * s->element;
    }
    if (bytes && s->call->out != result) memmove(s->call->out, result, bytes);
}

static ls_status exchange(const small *s, char *result, ls_message *why)
{
    ls_hosts *h = s->h;
    const ls_eager *eagers[LS_HOSTS_MOST];
    gather_host(s, &h->eager_to[h->comm.rank]);
    ls_status status = ls_hosts_exchange(h, why);
    for (int host = 0; host < h->hosts && !status; host++) {
        int rank = h->ranks[host][0];
        size_t wanted = host_bytes(s, host);
        eagers[host] = h->eager_from[rank];
        if (eagers[host]->bytes == wanted) continue;
        status = ls_shm_wrong_size(h->local, h->job_ranks[rank], eagers[host]->bytes, wanted);
        *why = h->local->broken;
    }
    if (!status) join_hosts(s, eagers, result);
    return status;
}

ls_status ls_hosts_small(ls_hosts *h, const ls_comm_call *call, ls_message *why)
{
    small s = make_small(h, call);
    bool alone = ls_hosts_width(h) == 1;
    char *result = alone ? h->scratch : ls_hosts_stage(h, 0, h->turn);
    ls_status status = h->local->comm.rank == 0 ? exchange(&s, result, why) : LS_OK;
    if (!status && !alone) status = ls_shm_step(h->local, why);
    if (!status) copy_result(&s, result);
    h->turn++;
    return status;
}
