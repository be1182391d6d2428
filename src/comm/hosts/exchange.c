/* exchange.c - the first ranks of all hosts exchange their eager messages.
 *
 * Up to h->job->direct hosts send them to each other directly. More hosts relay what they know: first a host sends its
 * own message to the host before it; then the two it has to the host two before it; then four, and so on. After k
 * rounds each host has 2^k messages, in host order starting with its own, so that 1,024 hosts wait for 10 messages, not
 * 1,023. */
#include <string.h>

#include "comm/hosts/internal.h"

static ls_status exchange_directly(ls_hosts *h, ls_message *why)
{
    ls_eager *mine = &h->eager_to[h->comm.rank];
    ls_status status = LS_OK;
    h->eager_from[h->comm.rank] = mine;
    for (int host = 0; host < h->hosts && !status; host++)
        if (host != h->host) status = ls_eager_expect(h, h->ranks[host][0], why);
    for (int host = 0; host < h->hosts && !status; host++)
        if (host != h->host) status = ls_eager_send(h, h->ranks[host][0], mine->data, mine->bytes, why);
    return status ? status : ls_eagers_await(h, why);
}

/* ---- relaying ---- */

/* Bytes of an eager message packed with others. */
static size_t packed_bytes(const ls_eager *eager)
{
    return (offsetof(ls_eager, data) + eager->bytes + 7) / 8 * 8;
}

/* The first rank of the host `after` places after this one (before it, if negative). */
static int first_rank(const ls_hosts *h, int after)
{
    return h->ranks[(h->host + after + h->hosts) % h->hosts][0];
}

/* `count` eager messages have arrived after the known ones: locate and check each. Adds their bytes to *end. The
 * buffer has room for one full-sized message per host, so *end stays within it. */
static ls_status find_eagers(ls_hosts *h, int known, int count, size_t *end, ls_message *why)
{
    ls_status status = LS_OK;
    for (int i = 0; i < count && !status; i++) {
        int rank = first_rank(h, known + i);
        ls_eager *eager = (ls_eager *)(void *)(h->relayed + *end);
        h->eager_from[rank] = eager;
        if (i) status = ls_eager_check(h, rank, why); /* ls_eagers_await checked the first */
        if (!status && eager->bytes > LS_EAGER_DATA) {
            status =
                ls_shm_break(h->local, "rank %d sent a malformed eager message", h->job_ranks[first_rank(h, known)]);
            *why = h->local->broken;
        }
        *end += packed_bytes(eager);
    }
    return status;
}

/* One round: `known` eager messages take *end bytes; send `count` of them and receive as many. */
static ls_status relay_round(ls_hosts *h, int known, int count, size_t *end, ls_message *why)
{
    int from = first_rank(h, known), to = first_rank(h, -known);
    size_t bytes = 0, room = (size_t)h->hosts * sizeof(ls_eager);
    for (int i = 0; i < count; i++) bytes += packed_bytes((ls_eager *)(void *)(h->relayed + bytes));
    h->eager_from[from] = (ls_eager *)(void *)(h->relayed + *end);
    h->eager_from[from]->what.number = 0;
    ls_status status = ls_hosts_receive(h, &h->eagers, from, h->eager_from[from], room - *end, why);
    if (!status) status = ls_hosts_send(h, &h->sent, to, h->relayed, bytes, why);
    if (!status) status = ls_eagers_await(h, why);
    return status ? status : find_eagers(h, known, count, end, why);
}

static ls_status relay(ls_hosts *h, ls_message *why)
{
    ls_eager *mine = &h->eager_to[h->comm.rank];
    ls_status status = LS_OK;
    mine->what = h->local->entry;
    size_t end = packed_bytes(mine);
    memcpy(h->relayed, mine, end);
    h->eager_from[h->comm.rank] = mine;
    for (int known = 1, count; known < h->hosts && !status; known += count) {
        count = known < h->hosts - known ? known : h->hosts - known;
        status = relay_round(h, known, count, &end, why);
    }
    return status;
}

ls_status ls_hosts_exchange(ls_hosts *h, ls_message *why)
{
    ls_status status = h->relayed ? relay(h, why) : exchange_directly(h, why);
    return status ? status : ls_hosts_await(h, &h->sent, why);
}
