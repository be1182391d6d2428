/* eager.c - eager messages: the header of a call, sent to ranks of other hosts before any data. */
#include <string.h>

#include "comm/hosts/internal.h"

ls_status ls_eager_send(ls_hosts *h, int peer, const void *data, size_t bytes, ls_message *why)
{
    ls_eager *eager = &h->eager_to[peer];
    size_t with = bytes <= LS_EAGER_DATA ? bytes : 0;
    eager->what = h->local->entry;
    eager->bytes = bytes;
    if (with && data != eager->data) memcpy(eager->data, data, with);
    return ls_hosts_send(h, &h->sent, peer, eager, offsetof(ls_eager, data) + with, why);
}

ls_status ls_eager_expect(ls_hosts *h, int peer, ls_message *why)
{
    h->eager_from[peer] = &h->eagers_in[peer];
    h->eager_from[peer]->what.number = 0; /* not arrived yet */
    return ls_hosts_receive(h, &h->eagers, peer, h->eager_from[peer], sizeof(ls_eager), why);
}

static bool matches(const ls_hosts *h, const ls_ring_entry *mine, const ls_ring_entry *theirs)
{
    if (mine->kind == LS_COMM_RECEIVE)
        return theirs->kind == LS_COMM_SEND && theirs->peer == h->comm.rank && theirs->dtype == mine->dtype &&
               theirs->count == mine->count;
    return theirs->number == mine->number && ls_headers_agree(mine, theirs);
}

ls_status ls_eager_check(ls_hosts *h, int peer, ls_message *why)
{
    const ls_ring_entry *mine = &h->local->entry, *theirs = &h->eager_from[peer]->what;
    int me = h->comm.rank;
    h->last[peer] = *theirs;
    if (matches(h, mine, theirs)) return LS_OK;
    bool first = me < peer; /* both sides report it in the same words */
    ls_status status = ls_shm_disagree(h->local, h->job_ranks[first ? me : peer], first ? mine : theirs,
                                       h->job_ranks[first ? peer : me], first ? theirs : mine);
    *why = h->local->broken;
    return status;
}

ls_status ls_eagers_await(ls_hosts *h, ls_message *why)
{
    int count = h->eagers.count;
    ls_status status = ls_hosts_await(h, &h->eagers, why);
    for (int i = 0; i < count && !status; i++) status = ls_eager_check(h, h->eagers.inflight[i].peer, why);
    return status;
}

ls_status ls_eager_check_lost(ls_hosts *h, int peer, ls_message *why)
{
    for (int i = 0; i < h->eagers.count; i++) {
        ls_inflight *message = &h->eagers.inflight[i];
        bool done = !message->request;
        ls_message ignored;
        if (message->peer != peer) continue;
        pthread_mutex_lock(&h->lock);
        ls_status status = done ? LS_OK : h->job->transport->test(h->link, message->request, &done, NULL, &ignored);
        pthread_mutex_unlock(&h->lock);
        if (done || status) message->request = NULL;
        return done && h->eager_from[peer]->what.number ? ls_eager_check(h, peer, why) : LS_OK;
    }
    return LS_OK;
}
