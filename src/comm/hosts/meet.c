/* meet.c - the first ranks of all hosts learn which call the others are in, and the few bytes they have for it.
 *
 * A few hosts tell each other directly. Among many, a host passes on what it knows: first its own eager message to the
 * host before it; then the two that it knows to the one two before it; then four. After k rounds everybody knows 2^k,
 * in the order of hosts from its own on, so that 1,024 hosts have 10 messages to wait for instead of 1,023. */
#include <string.h>

#include "comm/hosts/inside.h"

static ls_status tell_directly(ls_hosts *h, ls_message *why)
{
    ls_eager *mine = &h->eager_to[h->comm.rank];
    ls_status status = LS_OK;
    h->came[h->comm.rank] = mine;
    for (int host = 0; host < h->hosts && !status; host++)
        if (host != h->host) status = ls_eager_expect(h, h->ranks[host][0], why);
    for (int host = 0; host < h->hosts && !status; host++)
        if (host != h->host) status = ls_eager_send(h, h->ranks[host][0], mine->data, mine->bytes, why);
    return status ? status : ls_eagers_await(h, why);
}

/* ---- passed on ---- */

/* Bytes of an eager message on its way with others. */
static size_t length_of(const ls_eager *eager)
{
    return (offsetof(ls_eager, data) + eager->bytes + 7) / 8 * 8;
}

/* The first rank of the host so many after this one; before it, if fewer than none. */
static int first_of(const ls_hosts *h, int after)
{
    return h->ranks[(h->host + after + h->hosts) % h->hosts][0];
}

/* So many eager messages have come, behind those that are known: find each. Adds their bytes to *end; there is room for
 * as many whole ones as there are hosts, so that it stays within. */
static ls_status find_eagers(ls_hosts *h, int known, int count, size_t *end, ls_message *why)
{
    ls_status status = LS_OK;
    for (int i = 0; i < count && !status; i++) {
        int rank = first_of(h, known + i);
        ls_eager *eager = (ls_eager *)(void *)(h->passed_on + *end);
        h->came[rank] = eager;
        if (i) status = ls_eager_judge(h, rank, why); /* the first one was when it came */
        if (!status && eager->bytes > LS_EAGER_DATA) {
            status = ls_shm_break(h->local, "rank %d sent what is no eager message", h->names[first_of(h, known)]);
            *why = h->local->broken;
        }
        *end += length_of(eager);
    }
    return status;
}

/* One round: `known` eager messages have `end` bytes. */
static ls_status pass(ls_hosts *h, int known, int count, size_t *end, ls_message *why)
{
    int from = first_of(h, known), to = first_of(h, -known);
    size_t bytes = 0, room = (size_t)h->hosts * sizeof(ls_eager);
    for (int i = 0; i < count; i++) bytes += length_of((ls_eager *)(void *)(h->passed_on + bytes));
    h->came[from] = (ls_eager *)(void *)(h->passed_on + *end);
    h->came[from]->what.number = 0;
    ls_status status = ls_hosts_receive(h, &h->eagers, from, h->came[from], room - *end, why);
    if (!status) status = ls_hosts_send(h, &h->sent, to, h->passed_on, bytes, why);
    if (!status) status = ls_eagers_await(h, why);
    return status ? status : find_eagers(h, known, count, end, why);
}

static ls_status pass_on(ls_hosts *h, ls_message *why)
{
    ls_eager *mine = &h->eager_to[h->comm.rank];
    ls_status status = LS_OK;
    mine->what = h->local->entry;
    size_t end = length_of(mine);
    memcpy(h->passed_on, mine, end);
    h->came[h->comm.rank] = mine;
    for (int known = 1, count; known < h->hosts && !status; known += count) {
        count = known < h->hosts - known ? known : h->hosts - known;
        status = pass(h, known, count, &end, why);
    }
    return status;
}

ls_status ls_hosts_meet(ls_hosts *h, ls_message *why)
{
    ls_status status = h->passed_on ? pass_on(h, why) : tell_directly(h, why);
    return status ? status : ls_hosts_await(h, &h->sent, why);
}
