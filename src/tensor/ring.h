/* ring.h - objects of one size whose addresses are handed out once: a pointer to a dead one never meets a new one.
 *
 * A program may use a tensor long after it died, and must get an error then, not the numbers of a tensor that was made
 * later. The address is the generation: addresses are plentiful (2^47) where memory is not, so new objects always come
 * from the next addresses of a large reservation, and the memory of dead objects is moved there, a chunk at a time, by
 * a system call that costs a few nanoseconds per object. The library reads handles through plain pointers as before,
 * there is nothing to decode, and the check of a handle is one comparison.
 *
 * What was left behind reads as zero, and zero means dead. Until its chunk moves on, a dead object keeps its last
 * contents, for a better message.
 *
 * Reservations grow with use: 1 GiB at first (4 million handles), then 2, up to 8 TiB. Where the system grants no more
 * addresses (ulimit -v), the last reservation is gone round again: an address comes back after as many objects as fit
 * in it, and only a stale pointer of that age could meet a living object.
 *
 * Addresses belong to the process: a ring that is left gives its memory back, and the next ring goes on behind it. Each
 * uses up four chunks at least: a million rings in 8 TiB, and some dozen where a limit leaves 100 MiB. */
#ifndef LOCKSTEP_TENSOR_RING_H
#define LOCKSTEP_TENSOR_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LS_RING_CHUNK = 2 << 20, /* bytes that move together: what one entry of a page directory covers moves at once */
    LS_RING_REST = 1,        /* dead chunks that stay where they are, for messages */
    LS_RING_RESERVATIONS = 16,
};

typedef struct ls_ring_chunk ls_ring_chunk;

typedef struct ls_ring {
    size_t stride;                         /* of an object: a power of two, below a page. Set these two, */
    bool (*is_living)(const void *object); /* the rest is zero at first */

    char *at, *stop;               /* the next object, and the end of its chunk */
    char *base, *end, *hand;       /* addresses in use now, and where the next chunk goes */
    ls_ring_chunk *first, *last;   /* chunks in [base, end) in the order the hand will meet them */
    ls_ring_chunk *checked;        /* the next of them to be looked at for pages to give back */
    ls_ring_chunk *dead;           /* chunks of dead objects only, the latest first, wherever they are */
    int64_t placed, resting, left; /* chunks: in [base, end), dead, moved away from since the last cleaning */
    struct {
        void *block;
        size_t bytes;
    } reserved[LS_RING_RESERVATIONS];
    int reservations;
    int inherited; /* of these, those that rings before this one began; */
    char *began;   /* in the last of those its own objects are from here on */
} ls_ring;

/* At the start of each chunk, in place of its first object. */
struct ls_ring_chunk {
    int32_t living;  /* objects that have not been given back; those not yet taken count as well */
    int32_t thinned; /* how many there were when empty pages were given back */
    ls_ring_chunk *before, *after;
    ls_ring_chunk *next_dead;
};

bool ls_ring_turn(ls_ring *ring); /* a chunk to take objects from */
void ls_ring_bury(ls_ring *ring, ls_ring_chunk *chunk);

/* An object with undefined contents; NULL when memory is out. */
static inline void *ls_ring_take(ls_ring *ring)
{
    if (ring->at == ring->stop && !ls_ring_turn(ring)) return NULL;
    void *object = ring->at;
    ring->at += ring->stride;
    return object;
}

/* The caller has marked it as dead. */
static inline void ls_ring_give(ls_ring *ring, void *object)
{
    ls_ring_chunk *chunk = (ls_ring_chunk *)(void *)((char *)object - (uintptr_t)object % LS_RING_CHUNK);
    if (--chunk->living == 0) ls_ring_bury(ring, chunk);
}

/* Is this the address of an object, living or dead? Looks at the address alone. */
bool ls_ring_holds(const ls_ring *ring, const void *address);
/* How many objects have been made since that one; -1 where that is no longer known. */
int64_t ls_ring_newer(const ls_ring *ring, const void *object);
/* Did a ring that was left make this object? false also where that is no longer known. */
bool ls_ring_was_left(const ls_ring *ring, const void *object);
/* All objects are dead, and read as such from now on. Memory goes back to the system, addresses to the next ring. */
void ls_ring_leave(ls_ring *ring);
void ls_ring_free(ls_ring *ring); /* addresses as well: nothing may be read there any more */

#endif
