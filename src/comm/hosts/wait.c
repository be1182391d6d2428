/* wait.c - messages in flight, and waiting for them: spin briefly, then sleep; every wait has a limit. */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "comm/hosts/internal.h"

enum {
    SPIN = 50000,              /* ns, not rounds: polling a link costs more than polling memory, and varies */
    SPIN_IN_BACKGROUND = 5000, /* ns */
    YIELDS = 64,
    LISTEN = 128,       /* rounds between polls for notices */
    NAP = 2,            /* ms */
    REASON_WAIT = 1000, /* ms for the reason to arrive why a rank was lost: on a busy host its sender may not have
                         * had a core yet */
    FAREWELL = 2000,    /* ms within which data sent before a farewell must arrive */
};

/* ---- starting ---- */

static ls_link *link_of(const ls_hosts *h, const ls_request_set *set)
{
    return set->on_job_link ? h->job->link : h->link;
}

static void lock(ls_hosts *h, const ls_request_set *set)
{
    pthread_mutex_lock(set->on_job_link ? &h->job->lock : &h->lock);
}

static void unlock(ls_hosts *h, const ls_request_set *set)
{
    pthread_mutex_unlock(set->on_job_link ? &h->job->lock : &h->lock);
}

/* The transport cannot reach a rank. Others may know why, or all were cancelled and it has already moved on; either
 * arrives on another link, perhaps later, so wait a little. */
static ls_status report_lost(ls_hosts *h, const ls_inflight *message, const ls_message *cause, ls_message *why)
{
    char mine[200], last[200] = "nothing heard from it";
    int them = h->job_ranks[message->peer];
    ls_status status = ls_eager_check_lost(h, message->peer, why);
    if (status) return status;
    for (int i = 0; i < REASON_WAIT && !ls_shm_interrupted(h->local); i++) {
        ls_job_listen(h->job);
        usleep(1000);
    }
    if (ls_shm_interrupted(h->local)) {
        status = ls_shm_interruption(h->local);
        *why = h->local->broken;
        return status;
    }
    ls_ring_describe(&h->local->entry, mine, sizeof mine);
    if (h->last[message->peer].number) ls_ring_describe(&h->last[message->peer], last, sizeof last);
    status = ls_shm_report_dead(h->local, them,
                                "rank %d on host %d is gone (%s); rank %d was in %s; last call of rank %d: %s", them,
                                h->job->host[them], cause->text, h->job->rank, mine, them, last);
    *why = h->local->broken;
    return status;
}

static ls_inflight *add(ls_request_set *set)
{
    if (set->count == set->capacity) {
        int capacity = set->capacity ? 2 * set->capacity : 8;
        ls_inflight *grown = ls_sys_realloc(set->inflight, (size_t)capacity * sizeof *grown);
        if (!grown) return NULL;
        set->inflight = grown;
        set->capacity = capacity;
    }
    return &set->inflight[set->count];
}

static ls_status begin(ls_hosts *h, ls_request_set *set, ls_inflight what, void *data, size_t bytes, ls_message *why)
{
    const ls_transport *transport = h->job->transport;
    ls_message cause = {{0}};
    ls_inflight *message = add(set);
    if (!message) return ls_explain(why, LS_ERR_MEMORY, "no memory for messages");
    *message = what;
    ls_link *link = link_of(h, set);
    int peer = set->on_job_link ? h->job_ranks[what.peer] : what.peer;
    lock(h, set);
    ls_status status = what.receiving
                           ? transport->receive(link, peer, LS_LINK_DATA, data, bytes, &message->request, &cause)
                           : transport->send(link, peer, LS_LINK_DATA, data, bytes, &message->request, &cause);
    unlock(h, set);
    if (status) return report_lost(h, &what, &cause, why);
    set->count++;
    return LS_OK;
}

ls_status ls_hosts_send(ls_hosts *h, ls_request_set *set, int peer, const void *data, size_t bytes, ls_message *why)
{
    return begin(h, set, (ls_inflight){.peer = peer}, (void *)(uintptr_t)data, bytes, why);
}

ls_status ls_hosts_receive(ls_hosts *h, ls_request_set *set, int peer, void *data, size_t bytes, ls_message *why)
{
    return begin(h, set, (ls_inflight){.peer = peer, .receiving = true}, data, bytes, why);
}

/* ---- waiting ---- */

/* A rank of this host that has died, or -1: whoever waits for other hosts waits for it, too. */
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

/* Called every few milliseconds of sleep: is there still a rank to wait for? */
static ls_status check_peer(ls_hosts *h, const ls_inflight *message, int64_t began)
{
    ls_shm *local = h->local;
    int them = h->job_ranks[message->peer], me = h->job->rank, dead = dead_neighbour(h);
    int64_t waited = ls_comm_clock() - began;
    char mine[200], last[200] = "nothing heard from it";
    ls_ring_describe(&local->entry, mine, sizeof mine);
    if (dead >= 0) return ls_shm_report_dead_member(local, &h->job->segment->header->member[dead]);
    bool late = local->timeout && waited > local->timeout;
    bool left = message->receiving && h->job->left[them] && waited > (int64_t)FAREWELL * 1000000;
    bool warn = !late && !left && ls_shm_must_warn(local, waited);
    if (!late && !left && !warn) return LS_OK;
    if (h->last[message->peer].number) ls_ring_describe(&h->last[message->peer], last, sizeof last);
    if (warn) return ls_shm_warn(local, waited, them, last), LS_OK;
    if (left)
        return ls_shm_break(local, "rank %d has finished, but rank %d waits for it in %s; last call of rank %d: %s",
                            them, me, mine, them, last);
    return ls_shm_break(local, "rank %d waited %.1f s for rank %d on host %d in %s; last call of rank %d: %s", me,
                        (double)waited / 1e9, them, h->job->host[them], mine, them, last);
}

static void nap(ls_hosts *h, const ls_request_set *set)
{
    const ls_transport *transport = h->job->transport;
    if (!transport->sleep) {
        usleep(100);
        return;
    }
    lock(h, set);
    transport->sleep(link_of(h, set), NAP);
    unlock(h, set);
}

/* Advance *at past completed messages; after a failure *at is the one that failed. */
static ls_status test(ls_hosts *h, ls_request_set *set, int *at, ls_message *cause)
{
    ls_status status = LS_OK;
    lock(h, set);
    while (*at < set->count && !status) {
        ls_inflight *message = &set->inflight[*at];
        bool done = !message->request;
        if (!done) status = h->job->transport->test(link_of(h, set), message->request, &done, NULL, cause);
        if (done || status) message->request = NULL;
        if (!done || status) break; /* a failed one may also be marked done */
        ++*at;
    }
    unlock(h, set);
    return status;
}

ls_status ls_hosts_await(ls_hosts *h, ls_request_set *set, ls_message *why)
{
    int64_t spin = h->comm.background ? SPIN_IN_BACKGROUND : SPIN, began = 0;
    int at = 0, yields = 0;
    for (int turn = 0;; turn++) {
        ls_message cause = {{0}};
        ls_status status = test(h, set, &at, &cause);
        if (status) return report_lost(h, &set->inflight[at], &cause, why);
        if (at == set->count) break;
        if (!began) began = ls_comm_clock();
        if (turn % LISTEN == LISTEN - 1 || yields == YIELDS) ls_job_listen(h->job);
        if (ls_shm_interrupted(h->local)) status = ls_shm_interruption(h->local);
        else if (yields < YIELDS && ls_comm_clock() - began < spin) ls_spin_hint();
        else if (yields < YIELDS) yields++, sched_yield();
        else {
            status = check_peer(h, &set->inflight[at], began);
            if (!status) nap(h, set);
        }
        if (status) {
            *why = h->local->broken;
            return status;
        }
    }
    set->count = 0;
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

static void drop(ls_hosts *h, ls_request_set *set)
{
    lock(h, set);
    for (int i = 0; i < set->count; i++)
        if (set->inflight[i].request) h->job->transport->cancel(link_of(h, set), set->inflight[i].request);
    unlock(h, set);
    set->count = 0;
}

void ls_hosts_drop(ls_hosts *h)
{
    drop(h, &h->eagers);
    drop(h, &h->sent);
    drop(h, &h->addresses);
    for (int i = 0; i < LS_HOSTS_SLOTS; i++) {
        drop(h, &h->in[i]);
        drop(h, &h->out[i]);
    }
}
