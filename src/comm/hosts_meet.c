/* hosts_meet.c - the first ranks of all hosts learn which call the others are in, and the few bytes they have for it.
 *
 * A few hosts tell each other directly. Among many, a host passes on what it knows: first its own front to the host
 * before it; then the two that it knows to the one two before it; then four. After k rounds everybody knows 2^k, in
 * the order of hosts from its own on, so that 1,024 hosts have 10 messages to wait for instead of 1,023. */
#include <string.h>

#include "comm/hosts_inside.h"

static ls_status tell_directly(ls_hosts *h, ls_message *why)
{
    ls_front *mine = &h->front_to[h->comm.rank];
    ls_status status = LS_OK;
    h->came[h->comm.rank] = mine;
    for (int host = 0; host < h->hosts && !status; host++)
        if (host != h->host) status = ls_front_expect(h, h->ranks[host][0], why);
    for (int host = 0; host < h->hosts && !status; host++)
        if (host != h->host) status = ls_front_send(h, h->ranks[host][0], mine->data, mine->bytes, why);
    return status ? status : ls_fronts_await(h, why);
}

/* ---- passed on ---- */

/* Bytes of a front on its way with others. */
static size_t length_of(const ls_front *front)
{
    return (offsetof(ls_front, data) + front->bytes + 7) / 8 * 8;
}

/* The first rank of the host so many after this one; before it, if fewer than none. */
static int first_of(const ls_hosts *h, int after)
{
    return h->ranks[(h->host + after + h->hosts) % h->hosts][0];
}

/* So many fronts have come, behind those that are known: find each. Adds their bytes to *end; there is room for as many
 * whole fronts as there are hosts, so that it stays within. */
static ls_status find_fronts(ls_hosts *h, int known, int count, size_t *end, ls_message *why)
{
    ls_status status = LS_OK;
    for (int i = 0; i < count && !status; i++) {
        int rank = first_of(h, known + i);
        ls_front *front = (ls_front *)(void *)(h->passed_on + *end);
        h->came[rank] = front;
        if (i) status = ls_front_judge(h, rank, why); /* the first one was when it came */
        if (!status && front->bytes > LS_FRONT_DATA) {
            status = ls_shm_break(h->local, "rank %d sent what is no front", h->names[first_of(h, known)]);
            *why = h->local->broken;
        }
        *end += length_of(front);
    }
    return status;
}

/* One round: `known` fronts have `end` bytes. */
static ls_status pass(ls_hosts *h, int known, int count, size_t *end, ls_message *why)
{
    int from = first_of(h, known), to = first_of(h, -known);
    size_t bytes = 0, room = (size_t)h->hosts * sizeof(ls_front);
    for (int i = 0; i < count; i++) bytes += length_of((ls_front *)(void *)(h->passed_on + bytes));
    h->came[from] = (ls_front *)(void *)(h->passed_on + *end);
    h->came[from]->what.number = 0;
    ls_status status = ls_hosts_receive(h, &h->fronts, from, h->came[from], room - *end, why);
    if (!status) status = ls_hosts_send(h, &h->sent, to, h->passed_on, bytes, why);
    if (!status) status = ls_fronts_await(h, why);
    return status ? status : find_fronts(h, known, count, end, why);
}

static ls_status pass_on(ls_hosts *h, ls_message *why)
{
    ls_front *mine = &h->front_to[h->comm.rank];
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
