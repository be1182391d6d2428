/* small.c - collectives of few bytes: the first rank of each host sends what its host has to all others'.
 *
 * Every rank puts its share into its stage; the first makes one of them, exchanges it and leaves the result in its
 * stage, from where the others take what they want. A rank that is alone on its host needs no stage. */
#include <string.h>

#include "comm/hosts/inside.h"

typedef struct small {
    ls_hosts *h;
    const ls_comm_call *call;
    size_t element, total; /* bytes of the array that all have alike, or the result */
    ls_dtype wire;         /* of what a host sends, where it is a sum */
} small;

static small understand(const ls_hosts *h, const ls_comm_call *call)
{
    small s = {.h = (ls_hosts *)(uintptr_t)h, .call = call, .element = ls_dtype_size(call->dtype), .wire = call->dtype};
    bool parts = call->kind == LS_COMM_ALL_GATHER || call->kind == LS_COMM_REDUCE_SCATTER;
    s.total = (size_t)(parts ? ls_comm_before(call, h->comm.size) : call->count) * s.element;
    s.wire = ls_hosts_wire(h, call);
    return s;
}

/* Bytes that a host sends. */
static size_t bytes_of_host(const small *s, int host)
{
    const ls_hosts *h = s->h;
    size_t bytes = 0;
    switch (s->call->kind) {
    case LS_COMM_BROADCAST: return h->seat[s->call->peer].host == host ? s->total : 0;
    case LS_COMM_ALL_GATHER:
        for (int l = 0; l < h->width[host]; l++) bytes += (size_t)ls_comm_part(s->call, h->ranks[host][l]) * s->element;
        return bytes;
    default: return s->total / s->element * ls_dtype_size(s->wire);
    }
}

bool ls_hosts_is_small(const ls_hosts *h, const ls_comm_call *call)
{
    small s = understand(h, call);
    for (int host = 0; host < h->hosts; host++)
        if (bytes_of_host(&s, host) > LS_EAGER_DATA) return false;
    return s.total <= h->piece;
}

/* What this rank brings. */
static const char *brings(const small *s, size_t *bytes)
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
    small s = understand(h, call);
    size_t bytes;
    const char *mine = brings(&s, &bytes);
    if (ls_hosts_width(h) > 1 && bytes) memcpy(ls_hosts_stage(h, h->local->comm.rank, h->turn), mine, bytes);
}

/* What a rank of this host has put. */
static const char *share_of(const small *s, int local)
{
    size_t bytes;
    return ls_hosts_width(s->h) > 1 ? ls_hosts_stage(s->h, local, s->h->turn) : brings(s, &bytes);
}

/* Of this host, into the eager message. */
static void gather_host(const small *s, ls_eager *eager)
{
    ls_hosts *h = s->h;
    const void *rows[LS_SEGMENT_MOST];
    char *at = eager->data;
    eager->bytes = bytes_of_host(s, h->host);
    if (ls_comm_reduces(s->call->kind)) {
        for (int l = 0; l < ls_hosts_width(h); l++) rows[l] = share_of(s, l);
        ls_combine_kernels()->fold_rows(s->call->dtype, s->wire, ls_comm_fold(s->call->op), 1, (void *[]){at}, 1, rows,
                                        ls_hosts_width(h), (int64_t)(s->total / s->element));
    } else if (s->call->kind == LS_COMM_BROADCAST && eager->bytes) {
        memcpy(at, share_of(s, h->seat[s->call->peer].local), s->total);
    } else if (s->call->kind == LS_COMM_ALL_GATHER) {
        for (int l = 0; l < ls_hosts_width(h); l++) {
            size_t bytes = (size_t)ls_comm_part(s->call, h->ranks[h->host][l]) * s->element;
            if (bytes) memcpy(at, share_of(s, l), bytes);
            at += bytes;
        }
    }
}

/* Of all hosts, in the order of the result. */
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
        memcpy(result, eagers[h->seat[s->call->peer].host]->data, s->total);
    } else if (s->call->kind == LS_COMM_ALL_GATHER) {
        for (int host = 0; host < h->hosts; host++) {
            const char *at = eagers[host]->data;
            for (int l = 0; l < h->width[host]; l++) {
                int rank = h->ranks[host][l];
                size_t bytes = (size_t)ls_comm_part(s->call, rank) * s->element;
                if (bytes) memcpy(result + (size_t)ls_comm_before(s->call, rank) * s->element, at, bytes);
                at += bytes;
            }
        }
    }
}

/* What this rank wants of the result. */
static void take(const small *s, const char *result)
{
    const ls_hosts *h = s->h;
    size_t bytes = s->total;
    if (s->call->kind == LS_COMM_REDUCE && h->comm.rank != s->call->peer) return;
    if (s->call->kind == LS_COMM_REDUCE_SCATTER) {
        bytes = (size_t)s->call->count * s->element;
        result += (size_t)ls_comm_before(s->call, h->comm.rank) * s->element;
    }
    if (bytes && s->call->out != result) memmove(s->call->out, result, bytes);
}

static ls_status exchange(const small *s, char *result, ls_message *why)
{
    ls_hosts *h = s->h;
    const ls_eager *eagers[LS_HOSTS_MOST];
    gather_host(s, &h->eager_to[h->comm.rank]);
    ls_status status = ls_hosts_meet(h, why);
    for (int host = 0; host < h->hosts && !status; host++) {
        int rank = h->ranks[host][0];
        size_t wanted = bytes_of_host(s, host);
        eagers[host] = h->came[rank];
        if (eagers[host]->bytes == wanted) continue;
        status = ls_shm_wrong_size(h->local, h->names[rank], eagers[host]->bytes, wanted);
        *why = h->local->broken;
    }
    if (!status) join_hosts(s, eagers, result);
    return status;
}

ls_status ls_hosts_small(ls_hosts *h, const ls_comm_call *call, ls_message *why)
{
    small s = understand(h, call);
    bool alone = ls_hosts_width(h) == 1;
    char *result = alone ? h->scratch : ls_hosts_stage(h, 0, h->turn);
    ls_status status = h->local->comm.rank == 0 ? exchange(&s, result, why) : LS_OK;
    if (!status && !alone) status = ls_shm_step(h->local, why);
    if (!status) take(&s, result);
    h->turn++;
    return status;
}
