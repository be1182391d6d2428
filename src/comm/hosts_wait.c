/* hosts_wait.c - messages under way, and waiting for them: a moment awake, then asleep, never for ever. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "comm/hosts_inside.h"

enum {
    SPIN = 50000, /* ns; looking at a link costs much more than looking at memory, and not always the same */
    SPIN_IN_BACKGROUND = 5000, /* ns */
    YIELDS = 64,
    LISTEN = 128,     /* turns between looks at the news */
    NAP = 2,          /* ms */
    OWN_WORDS = 50,   /* ms to hear why a rank is gone, from itself */
    MORE_WORDS = 200, /* ms to hear it from others of its host, where there are any */
    FAREWELL = 2000,  /* ms in which what was sent before a farewell must have come */
};

/* ---- begun ---- */

static ls_link *link_of(const ls_hosts *h, const ls_bunch *bunch)
{
    return bunch->by_job ? h->job->link : h->link;
}

static void lock(ls_hosts *h, const ls_bunch *bunch)
{
    pthread_mutex_lock(bunch->by_job ? &h->job->lock : &h->lock);
}

static void unlock(ls_hosts *h, const ls_bunch *bunch)
{
    pthread_mutex_unlock(bunch->by_job ? &h->job->lock : &h->lock);
}

/* The transport cannot reach a rank. Ranks of its host may know better why, or all were called back and it has gone
 * already: that is news on another link, which may come later. */
static ls_status lost(ls_hosts *h, const ls_parcel *parcel, const ls_message *cause, ls_message *why)
{
    char mine[200], last[200] = "nothing said to this rank";
    int them = h->names[parcel->peer];
    int neighbours = 0;
    for (int r = 0; r < h->job->size; r++) neighbours += r != them && h->job->host[r] == h->job->host[them];
    int patience = neighbours ? MORE_WORDS : OWN_WORDS;
    ls_status status = ls_front_of_lost(h, parcel->peer, why);
    if (status) return status;
    for (int i = 0; i < patience && !ls_shm_interrupted(h->local); i++) {
        ls_job_listen(h->job);
        usleep(1000);
    }
    if (ls_shm_interrupted(h->local)) {
        status = ls_shm_interruption(h->local);
        *why = h->local->broken;
        return status;
    }
    ls_ring_tell(&h->local->entry, mine, sizeof mine);
    if (h->last[parcel->peer].number) ls_ring_tell(&h->last[parcel->peer], last, sizeof last);
    status = ls_shm_mourn(h->local, them, "rank %d on host %d is gone (%s); rank %d was in %s; the last of rank %d: %s",
                          them, h->job->host[them], cause->text, h->job->rank, mine, them, last);
    *why = h->local->broken;
    return status;
}

static ls_parcel *add(ls_bunch *bunch)
{
    if (bunch->count == bunch->capacity) {
        int capacity = bunch->capacity ? 2 * bunch->capacity : 8;
        ls_parcel *grown = ls_sys_realloc(bunch->parcels, (size_t)capacity * sizeof *grown);
        if (!grown) return NULL;
        bunch->parcels = grown;
        bunch->capacity = capacity;
    }
    return &bunch->parcels[bunch->count];
}

static ls_status begin(ls_hosts *h, ls_bunch *bunch, ls_parcel what, void *data, size_t bytes, ls_message *why)
{
    const ls_transport *transport = h->job->transport;
    ls_message cause = {{0}};
    ls_parcel *parcel = add(bunch);
    if (!parcel) return snprintf(why->text, sizeof why->text, "no memory for messages"), LS_ERR_MEMORY;
    *parcel = what;
    ls_link *link = link_of(h, bunch);
    int peer = bunch->by_job ? h->names[what.peer] : what.peer;
    lock(h, bunch);
    ls_status status = what.comes ? transport->receive(link, peer, LS_LINK_DATA, data, bytes, &parcel->request, &cause)
                                  : transport->send(link, peer, LS_LINK_DATA, data, bytes, &parcel->request, &cause);
    unlock(h, bunch);
    if (status) return lost(h, &what, &cause, why);
    bunch->count++;
    return LS_OK;
}

ls_status ls_hosts_send(ls_hosts *h, ls_bunch *bunch, int peer, const void *data, size_t bytes, ls_message *why)
{
    return begin(h, bunch, (ls_parcel){.peer = peer}, (void *)(uintptr_t)data, bytes, why);
}

ls_status ls_hosts_receive(ls_hosts *h, ls_bunch *bunch, int peer, void *data, size_t bytes, ls_message *why)
{
    return begin(h, bunch, (ls_parcel){.peer = peer, .comes = true}, data, bytes, why);
}

/* ---- waited for ---- */

/* A rank of this host that will not come any more: whoever waits for others waits for it, too. */
static int dead_neighbour(const ls_hosts *h)
{
    for (int l = 0; l < ls_hosts_width(h); l++) {
        int number = h->local->member[l];
        const ls_member *member = &h->job->segment->header->member[number];
        if (l != h->local->comm.rank && ls_segment_dead(h->job->segment, number) &&
            atomic_load_explicit(&member->state, memory_order_acquire) != LS_MEMBER_LEFT)
            return number;
    }
    return -1;
}

/* Every few milliseconds of sleep: is there anybody left to wait for? */
static ls_status look_around(ls_hosts *h, const ls_parcel *parcel, int64_t began)
{
    ls_shm *local = h->local;
    int them = h->names[parcel->peer], me = h->job->rank, dead = dead_neighbour(h);
    int64_t waited = ls_comm_clock() - began;
    char mine[200], last[200] = "nothing said to this rank";
    ls_ring_tell(&local->entry, mine, sizeof mine);
    if (dead >= 0) return ls_shm_mourn_member(local, &h->job->segment->header->member[dead]);
    bool late = local->timeout && waited > local->timeout;
    bool left = parcel->comes && h->job->left[them] && waited > (int64_t)FAREWELL * 1000000;
    if (!late && !left) return LS_OK;
    if (h->last[parcel->peer].number) ls_ring_tell(&h->last[parcel->peer], last, sizeof last);
    if (left)
        return ls_shm_break(local, "rank %d has finished, and rank %d waits for it in %s; the last of rank %d: %s",
                            them, me, mine, them, last);
    return ls_shm_break(local, "rank %d waited %.1f s for rank %d on host %d in %s; the last heard of rank %d: %s", me,
                        (double)waited / 1e9, them, h->job->host[them], mine, them, last);
}

static void nap(ls_hosts *h, const ls_bunch *bunch)
{
    const ls_transport *transport = h->job->transport;
    if (!transport->sleep) {
        usleep(100);
        return;
    }
    lock(h, bunch);
    transport->sleep(link_of(h, bunch), NAP);
    unlock(h, bunch);
}

/* How many from the first on are done; after a failure, which it was. */
static ls_status test(ls_hosts *h, ls_bunch *bunch, int *at, ls_message *cause)
{
    ls_status status = LS_OK;
    lock(h, bunch);
    while (*at < bunch->count && !status) {
        ls_parcel *parcel = &bunch->parcels[*at];
        bool done = !parcel->request;
        if (!done) status = h->job->transport->test(link_of(h, bunch), parcel->request, &done, NULL, cause);
        if (done || status) parcel->request = NULL;
        if (!done || status) break; /* one that failed may be said to be done, too */
        ++*at;
    }
    unlock(h, bunch);
    return status;
}

ls_status ls_hosts_await(ls_hosts *h, ls_bunch *bunch, ls_message *why)
{
    int64_t spin = h->comm.background ? SPIN_IN_BACKGROUND : SPIN, began = 0;
    int at = 0, yields = 0;
    for (int turn = 0;; turn++) {
        ls_message cause = {{0}};
        ls_status status = test(h, bunch, &at, &cause);
        if (status) return lost(h, &bunch->parcels[at], &cause, why);
        if (at == bunch->count) break;
        if (!began) began = ls_comm_clock();
        if (turn % LISTEN == LISTEN - 1 || yields == YIELDS) ls_job_listen(h->job);
        if (ls_shm_interrupted(h->local)) status = ls_shm_interruption(h->local);
        else if (yields < YIELDS && ls_comm_clock() - began < spin) ls_spin_hint();
        else if (yields < YIELDS) yields++, sched_yield();
        else {
            status = look_around(h, &bunch->parcels[at], began);
            if (!status) nap(h, bunch);
        }
        if (status) {
            *why = h->local->broken;
            return status;
        }
    }
    bunch->count = 0;
    return LS_OK;
}

bool ls_hosts_listen(void *listener)
{
    ls_hosts *h = listener;
    int under_way = h->sent.count;
    for (int i = 0; i < LS_HOSTS_SLOTS; i++) under_way += h->in[i].count + h->out[i].count;
    ls_job_listen(h->job);
    return under_way > 0;
}

static void drop(ls_hosts *h, ls_bunch *bunch)
{
    lock(h, bunch);
    for (int i = 0; i < bunch->count; i++)
        if (bunch->parcels[i].request) h->job->transport->cancel(link_of(h, bunch), bunch->parcels[i].request);
    unlock(h, bunch);
    bunch->count = 0;
}

void ls_hosts_drop(ls_hosts *h)
{
    drop(h, &h->fronts);
    drop(h, &h->sent);
    drop(h, &h->addresses);
    for (int i = 0; i < LS_HOSTS_SLOTS; i++) {
        drop(h, &h->in[i]);
        drop(h, &h->out[i]);
    }
}
