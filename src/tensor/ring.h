/* ring.h - allocator of objects of one size that never reuses an address: a stale pointer never hits a new object.
 *
 * A program may use a tensor long after it died, and must then get an error, not the numbers of a tensor that was made
 * later. The address is the generation: addresses are plentiful (2^47) while memory is not, so new objects always come
 * from the next addresses of a large reservation, and the memory of dead objects is moved there, a chunk at a time, by
 * a system call that costs a few nanoseconds per object. Handles are plain pointers, there is nothing to decode, and
 * checking a handle is one comparison.
 *
 * Addresses that were left behind read as zero, and zero means dead. Until its chunk moves, a dead object keeps its
 * last contents, for a better message.
 *
 * Reservations grow with use: 1 GiB at first (4 million handles), then 2, up to 8 TiB. If the system grants no more
 * addresses (ulimit -v), the last reservation is used again from its start: an address is reused only after as many
 * objects as fit in it, and only a stale pointer of that age can hit a living object.
 *
 * Addresses belong to the process: a ring that is left frees its memory, and the next ring continues after it. Each
 * uses up at least four chunks: a million rings in 8 TiB, and a few dozen if a limit leaves 100 MiB. */
#ifndef LOCKSTEP_TENSOR_RING_H
#define LOCKSTEP_TENSOR_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LS_RING_CHUNK = 2 << 20, /* bytes moved together: one entry of a page directory, which moves in one operation */
    LS_RING_REST = 1,        /* dead chunks that are not moved, for messages */
    LS_RING_RESERVATIONS = 16,
};

typedef struct ls_ring_chunk ls_ring_chunk;

typedef struct ls_ring {
    size_t stride;                         /* of an object: a power of two, below a page. Set this */
    bool (*is_living)(const void *object); /* and this; the rest starts as zero */

    char *at, *stop;                  /* the next object, and the end of its chunk */
    char *base, *end, *hand;          /* addresses in use now, and the position of the next chunk */
    ls_ring_chunk *first, *last;      /* chunks in [base, end) in the order in which the hand reaches them */
    ls_ring_chunk *checked;           /* the next of them to check for pages to free */
    ls_ring_chunk *dead;              /* chunks of dead objects only, anywhere, newest first */
    int64_t placed, dead_count, left; /* chunks: in [base, end); dead; moved away since the last cleaning */
    struct {
        void *block;
        size_t bytes;
    } reserved[LS_RING_RESERVATIONS];
    int reservations;
    int inherited; /* how many of these were begun by earlier rings */
    char *began;   /* start of this ring's own objects in the last of those */
} ls_ring;

/* At the start of each chunk, in place of its first object. */
struct ls_ring_chunk {
    int32_t living;  /* objects not yet given back, including those not yet taken */
    int32_t thinned; /* value of `living` when empty pages were freed */
    ls_ring_chunk *before, *after;
    ls_ring_chunk *next_dead;
};

bool ls_ring_refill(ls_ring *ring); /* get a chunk to take objects from */
void ls_ring_retire(ls_ring *ring, ls_ring_chunk *chunk);

/* An object with undefined contents; NULL when out of memory. */
static inline void *ls_ring_take(ls_ring *ring)
{
    if (ring->at == ring->stop && !ls_ring_refill(ring)) return NULL;
    void *object = ring->at;
    ring->at += ring->stride;
    return object;
}

/* The caller has marked it as dead. */
static inline void ls_ring_give(ls_ring *ring, void *object)
{
    ls_ring_chunk *chunk = (ls_ring_chunk *)(void *)((char *)object - (uintptr_t)object % LS_RING_CHUNK);
    if (--chunk->living == 0) ls_ring_retire(ring, chunk);
}

/* Is this the address of an object, living or dead? Does not dereference it. */
bool ls_ring_holds(const ls_ring *ring, const void *address);
/* How many objects have been made since that one; -1 if no longer known. */
int64_t ls_ring_newer(const ls_ring *ring, const void *object);
/* Was this object made by a ring that was left? Also false if that is no longer known. */
bool ls_ring_was_left(const ls_ring *ring, const void *object);
/* All objects are dead, and read as such from now on. Frees the memory; the next ring inherits the addresses. */
void ls_ring_leave(ls_ring *ring);
void ls_ring_free(ls_ring *ring); /* frees addresses as well: they must not be read any more */

#endif
