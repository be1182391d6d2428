/* ring.c - move chunks of dead objects to new addresses. */
#include "tensor/ring.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

#define LEAST_RESERVATION ((size_t)16 << 20) /* when addresses are scarce */
#define FIRST_RESERVATION ((size_t)1 << 30)
#define LAST_RESERVATION ((size_t)8 << 40)

static char *end_of(ls_ring_chunk *chunk)
{
    return (char *)chunk + LS_RING_CHUNK;
}

static int32_t per_chunk(const ls_ring *ring)
{
    return (int32_t)(LS_RING_CHUNK / ring->stride - 1);
}

/* ---- the order of chunks ---- */

static bool is_placed(const ls_ring *ring, const ls_ring_chunk *chunk)
{
    return (const char *)chunk >= ring->base && (const char *)chunk < ring->end;
}

static void append(ls_ring *ring, ls_ring_chunk *chunk)
{
    chunk->before = ring->last;
    chunk->after = NULL;
    if (ring->last) ring->last->after = chunk;
    else ring->first = chunk;
    ring->last = chunk;
    ring->placed++;
}

/* The chunk may have moved already: only its address is used. */
static void take_out(ls_ring *ring, const ls_ring_chunk *chunk, ls_ring_chunk *before, ls_ring_chunk *after)
{
    if (ring->checked == chunk) ring->checked = after;
    if (before) before->after = after;
    else ring->first = after;
    if (after) after->before = before;
    else ring->last = before;
    ring->placed--;
}

/* ---- addresses ---- */

static bool reserve(ls_ring *ring, size_t bytes)
{
    if (ring->reservations == LS_RING_RESERVATIONS) return false;
    char *block = ls_sys_reserve(bytes + LS_RING_CHUNK);
    if (!block) return false;
    ring->reserved[ring->reservations].block = block;
    ring->reserved[ring->reservations++].bytes = bytes + LS_RING_CHUNK;
    ring->base = ring->hand = block + -(uintptr_t)block % LS_RING_CHUNK;
    ring->end = ring->base + bytes;
    ring->first = ring->last = ring->checked = NULL; /* chunks of the previous reservation stay there until they die */
    ring->placed = ring->left = 0;
    return true;
}

/* Address ranges of rings that were left. As many as there ever were rings at the same time. */
enum { MOST_LEFT = 64 };
static struct {
    pthread_mutex_t lock;
    ls_ring ring[MOST_LEFT];
    int count;
} left = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void inherit(ls_ring *ring)
{
    pthread_mutex_lock(&left.lock);
    if (left.count > 0) {
        ls_ring own = *ring;
        *ring = left.ring[--left.count];
        ring->stride = own.stride;
        ring->is_living = own.is_living;
    }
    pthread_mutex_unlock(&left.lock);
}

/* Reserve more addresses, or start again at the beginning of the present ones. */
static bool more_addresses(ls_ring *ring)
{
    if (!ring->base) inherit(ring);
    if (ring->hand != ring->end) return true;
    size_t present = (size_t)(ring->end - ring->base);
    for (size_t bytes = FIRST_RESERVATION; !present && bytes >= LEAST_RESERVATION; bytes /= 2)
        if (reserve(ring, bytes)) return true;
    if (!present) return false;
    if (present < LAST_RESERVATION && reserve(ring, 2 * present)) return true;
    ring->hand = ring->base;
    if (ring->reservations == ring->inherited) ring->began = ring->base; /* no longer known whose objects are where */
    return true;
}

/* Address of the next chunk: the hand skips chunks that still have living objects. NULL: there is no free place. */
static char *next_place(ls_ring *ring)
{
    for (int64_t passed = 0; passed <= ring->placed; passed++) {
        if (ring->hand == ring->end && !more_addresses(ring)) return NULL;
        if (ring->hand != (char *)ring->first) return ring->hand;
        ls_ring_chunk *chunk = ring->first;
        take_out(ring, chunk, chunk->before, chunk->after);
        append(ring, chunk);
        ring->hand += LS_RING_CHUNK;
    }
    return NULL;
}

/* Addresses that chunks moved away from still have page tables and mappings: merge each gap into one empty mapping.
 * The walk begins at the hand, so it passes the end of the reservation once. */
static void clean(ls_ring *ring)
{
    char *from = ring->first && (char *)ring->first >= ring->hand ? ring->hand : ring->base;
    for (ls_ring_chunk *chunk = ring->first; chunk; chunk = chunk->after) {
        if ((char *)chunk < from) {
            if (from < ring->end) ls_sys_empty(from, (size_t)(ring->end - from));
            from = ring->base;
        }
        if (from < (char *)chunk) ls_sys_empty(from, (size_t)((char *)chunk - from));
        from = end_of(chunk);
    }
    ring->left = 0;
}

/* ---- memory ---- */

/* Free the pages of a chunk without living objects, if few objects are left: one kept tensor must not hold the memory
 * of thousands of dead ones. */
static bool free_empty_pages(const ls_ring *ring, ls_ring_chunk *chunk)
{
    if (!chunk->living || chunk->living > per_chunk(ring) / 8 || chunk->living == chunk->thinned) return false;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (char *start = (char *)chunk + page; start < end_of(chunk); start += page) { /* the first has the counts */
        bool needed = false;
        for (size_t i = 0; i < page && !needed; i += ring->stride) needed = ring->is_living(start + i);
        if (!needed) ls_sys_drop_pages(start, page);
    }
    chunk->thinned = chunk->living;
    return true;
}

/* Whenever memory grows, check chunks in turn until two were thinned out. */
static void save_memory(ls_ring *ring)
{
    enum { MANY = 256 };
    for (int looks = 0, thinned = 0; looks < MANY && thinned < 2; looks++) {
        if (!ring->checked) ring->checked = ring->first;
        thinned += free_empty_pages(ring, ring->checked);
        ring->checked = ring->checked->after;
    }
}

static ls_ring_chunk *fresh_chunk(ls_ring *ring)
{
    char *place = next_place(ring);
    if (!place || !ls_sys_back(place, LS_RING_CHUNK)) return NULL;
    ring->hand += LS_RING_CHUNK;
    append(ring, (ls_ring_chunk *)(void *)place);
    ring->last->living = per_chunk(ring);
    save_memory(ring);
    return ring->last;
}

/* Move a dead chunk to new addresses: the last but one that died, since it is still in caches; the last one keeps its
 * contents for messages. If the system does not let it move (the number of
 * mappings is limited) it is reused in place. */
static ls_ring_chunk *moved_chunk(ls_ring *ring)
{
    enum { CLEAN_EVERY = 16 };
    ls_ring_chunk **link = ring->dead_count > LS_RING_REST ? &ring->dead->next_dead : &ring->dead, *chunk = *link;
    *link = chunk->next_dead;
    ring->dead_count--;
    char *place = next_place(ring);
    ls_ring_chunk *before = chunk->before, *after = chunk->after; /* read now: memory may move without its contents */
    if (!place || !ls_sys_move(chunk, place, LS_RING_CHUNK)) return chunk;
    ring->hand += LS_RING_CHUNK;
    if (is_placed(ring, chunk)) {
        take_out(ring, chunk, before, after);
        ring->left++;
    } else ls_sys_empty(chunk, LS_RING_CHUNK);
    append(ring, (ls_ring_chunk *)(void *)place);
    if (ring->left > CLEAN_EVERY && ring->left > ring->placed) clean(ring);
    return ring->last;
}

/* Allocate one chunk to use and some spare ones: steps begin at different positions in a chunk, so a later step may
 * need one chunk more than an equal one before it, and must not allocate memory then. */
static ls_ring_chunk *more_chunks(ls_ring *ring)
{
    for (int spare = ring->reservations ? 1 : 3; spare > 0; spare--) {
        ls_ring_chunk *chunk = fresh_chunk(ring);
        if (!chunk) break;
        chunk->living = 0;
        ls_ring_retire(ring, chunk);
    }
    return fresh_chunk(ring);
}

bool ls_ring_refill(ls_ring *ring)
{
    ls_ring_chunk *chunk = ring->dead_count > LS_RING_REST ? moved_chunk(ring) : more_chunks(ring);
    if (!chunk && ring->dead) chunk = moved_chunk(ring); /* out of memory: messages may lose details */
    if (!chunk) return false;
    chunk->living = per_chunk(ring);
    chunk->thinned = -1;
    ring->at = (char *)chunk + ring->stride;
    ring->stop = end_of(chunk);
    return true;
}

void ls_ring_retire(ls_ring *ring, ls_ring_chunk *chunk)
{
    chunk->next_dead = ring->dead;
    ring->dead = chunk;
    ring->dead_count++;
}

/* ---- looking at addresses ---- */

/* Which reservation an address is in; -1: none. */
static int reservation_of(const ls_ring *ring, const void *address)
{
    for (int i = 0; i < ring->reservations; i++) {
        uintptr_t start = (uintptr_t)ring->reserved[i].block, at = (uintptr_t)address;
        if (at >= start && at - start < ring->reserved[i].bytes) return i;
    }
    return -1;
}

bool ls_ring_holds(const ls_ring *ring, const void *address)
{
    uintptr_t at = (uintptr_t)address;
    return reservation_of(ring, address) >= 0 && at % ring->stride == 0 && at % LS_RING_CHUNK != 0;
}

bool ls_ring_was_left(const ls_ring *ring, const void *object)
{
    int at = reservation_of(ring, object);
    if (at >= 0) return at < ring->inherited - 1 || (at == ring->inherited - 1 && (const char *)object < ring->began);
    bool found = false;
    pthread_mutex_lock(&left.lock);
    for (int i = 0; i < left.count && !found; i++) found = reservation_of(&left.ring[i], object) >= 0;
    pthread_mutex_unlock(&left.lock);
    return found;
}

int64_t ls_ring_newer(const ls_ring *ring, const void *object)
{
    const char *from = object;
    if (from < ring->base || from >= ring->at || ring->at > ring->end) return -1;
    return (ring->at - from) / (int64_t)ring->stride - 1 - (ring->at - from) / LS_RING_CHUNK;
}

void ls_ring_leave(ls_ring *ring)
{
    for (int i = 0; i < ring->reservations; i++) ls_sys_empty(ring->reserved[i].block, ring->reserved[i].bytes);
    ls_ring rest = {.base = ring->base,
                    .end = ring->end,
                    .hand = ring->hand,
                    .reservations = ring->reservations,
                    .inherited = ring->reservations,
                    .began = ring->hand};
    memcpy(rest.reserved, ring->reserved, sizeof rest.reserved);
    pthread_mutex_lock(&left.lock);
    bool kept = rest.reservations && left.count < MOST_LEFT;
    if (kept) left.ring[left.count++] = rest;
    pthread_mutex_unlock(&left.lock);
    if (kept) ring->reservations = 0;
    ls_ring_free(ring);
}

void ls_ring_free(ls_ring *ring)
{
    for (int i = 0; i < ring->reservations; i++) ls_sys_unreserve(ring->reserved[i].block, ring->reserved[i].bytes);
    *ring = (ls_ring){.stride = ring->stride, .is_living = ring->is_living};
}
