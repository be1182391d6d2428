/* deadlock.c - ranks that wait for each other in calls of different communicators.
 *
 * Calls of one communicator are numbered, so ranks that make different ones notice when they meet. A rank that calls
 * ls_save_state() alone meets nobody: the others are in a backward pass, on the communicator of the gradients, where
 * they wait for that rank.
 *
 * A rank whose program is blocked until another rank makes a call publishes that rank in its member record. Ranks
 * that wait for each other in a circle wait forever. There is no false alarm: a wait is published only while nothing
 * else is under way in the background of its process, by which it could make the awaited call after all. Each published
 * wait differs from all earlier ones. If all waits of a circle are the same when read again, and each rank has
 * meanwhile found that its own is not over, they existed at the same time, and then none of them ends. Communicators of
 * the program do not count, and neither do those between hosts. */
#include <unistd.h>

#include "comm/queue.h"
#include "comm/shm/shm.h"

enum {
    PATIENCE = 300000000 /* ns before a wait is published */,
    MEMBER_BITS = 16,
    POLLS = 50,
    POLL = 1000 /* microseconds */
};

static ls_member *member_of(const ls_shm *shm, int rank)
{
    return &shm->segment->header->member[shm->member[rank]];
}

static uint64_t wait_for(const ls_shm *shm, int peer, int64_t began)
{
    return (uint64_t)began << MEMBER_BITS | (uint64_t)(shm->member[peer] + 1);
}

static int awaited(uint64_t wait)
{
    return (int)(wait & ((1 << MEMBER_BITS) - 1)) - 1;
}

/* Messages are left out, since they concern two ranks only; so are calls that outlive a cancel, which ends the waits of
 * others. */
static bool counts(const ls_shm *shm)
{
    return !shm->comm.user && !shm->comm.ignores_cancel && !shm->listen && shm->entry.kind != LS_COMM_SEND &&
           shm->entry.kind != LS_COMM_RECEIVE;
}

/* Follow the waits that begin at member `start`. Returns how many lead back to it; 0: they do not. */
static int follow(const ls_segment_header *header, int start, uint64_t waits[LS_SEGMENT_MOST])
{
    int at = start, length = 0;
    do {
        waits[length] = atomic_load(&header->member[at].wait);
        if (!waits[length]) return 0;
        at = awaited(waits[length++]);
    } while (at != start && length < (int)header->size);
    return at == start ? length : 0;
}

/* The last call of a member, which waits in it. */
static const ls_ring_entry *last_call(const ls_member *member)
{
    return &member->ring[(atomic_load(&member->next) - 1) % LS_RING];
}

/* The first member of a circle that is in a call of another communicator than this rank. */
static const ls_member *other_side(const ls_shm *shm, const uint64_t *waits, int length)
{
    const ls_member *members = shm->segment->header->member;
    for (int i = 0; i < length - 1; i++)
        if (last_call(&members[awaited(waits[i])])->group != shm->group) return &members[awaited(waits[i])];
    return &members[awaited(waits[0])];
}

/* Has every other member of a circle looked twice since? Of two looks the second began after the first was counted. */
static bool all_look_again(const ls_segment_header *header, const uint64_t *waits, int length)
{
    uint32_t before[LS_SEGMENT_MOST];
    int at = 0;
    for (int i = 0; i < length - 1; i++) before[i] = atomic_load(&header->member[awaited(waits[i])].looks);
    for (int poll = 0; poll < POLLS && at < length - 1; poll++) {
        while (at < length - 1 && atomic_load(&header->member[awaited(waits[at])].looks) - before[at] >= 2) at++;
        if (at < length - 1) usleep(POLL);
    }
    return at == length - 1;
}

ls_status ls_shm_check_deadlock(ls_shm *shm, ls_line *line, uint32_t count, int peer, int64_t began)
{
    ls_member *me = member_of(shm, shm->comm.rank);
    uint64_t mine = wait_for(shm, peer, began), waits[LS_SEGMENT_MOST], again[LS_SEGMENT_MOST];
    if (!counts(shm) || ls_comm_clock() - began < PATIENCE) return LS_OK;
    if (atomic_load(&me->wait) != mine) {
        if (!ls_comm_holds_up_program(&shm->comm)) return LS_OK;
        atomic_store(&me->wait, mine);
    }
    atomic_fetch_add(&me->looks, 1);
    int start = shm->member[shm->comm.rank], length = follow(shm->segment->header, start, waits);
    for (int i = 0; i < length; i++)
        if (awaited(waits[i]) < start) return LS_OK; /* the lowest member of a circle checks it */
    if (!length || ls_shm_interrupted(shm) || !all_look_again(shm->segment->header, waits, length)) return LS_OK;
    if (ls_shm_interrupted(shm) || follow(shm->segment->header, start, again) != length) return LS_OK;
    for (int i = 0; i < length; i++)
        if (waits[i] != again[i]) return LS_OK;
    if (ls_line_reached(line, count)) return LS_OK;
    const ls_member *other = other_side(shm, waits, length);
    const ls_ring_entry *theirs = last_call(other);
    if (me->rank < other->rank) return ls_shm_disagree(shm, me->rank, &shm->entry, other->rank, theirs);
    return ls_shm_disagree(shm, other->rank, theirs, me->rank, &shm->entry);
}

void ls_shm_end_wait(ls_shm *shm, int peer, int64_t began)
{
    ls_member *me = member_of(shm, shm->comm.rank);
    if (atomic_load_explicit(&me->wait, memory_order_relaxed) == wait_for(shm, peer, began)) atomic_store(&me->wait, 0);
}
