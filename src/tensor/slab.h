/* slab.h - objects of one size, recycled first in, first out.
 *
 * A given-back object rests behind at least `rest` others before it is handed out again, so that a stale pointer to it
 * finds a dead object, not a new one. Memory goes back to the system only with the slab. */
#ifndef LOCKSTEP_TENSOR_SLAB_H
#define LOCKSTEP_TENSOR_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/guard.h"
#include "base/memory.h"

typedef struct ls_slab_item {
    struct ls_slab_item *next;
} ls_slab_item;

typedef struct ls_slab {
    size_t size; /* of an object */
    size_t link; /* offset of a pointer in it that is free to use while it rests */
    size_t rest; /* how many must rest before the oldest is used again */
    size_t resting;
    char *oldest, *newest;
    ls_slab_item *chunks;
} ls_slab;

enum { LS_SLAB_CHUNK = 128 };

static inline char **ls_slab_link(const ls_slab *slab, char *object)
{
    return (char **)(void *)(object + slab->link);
}

static inline void ls_slab_give(ls_slab *slab, void *object)
{
    *ls_slab_link(slab, object) = NULL;
    if (!slab->rest) { /* nobody looks at it, but for the link */
        ls_guard_close(object, slab->size);
        ls_guard_open(ls_slab_link(slab, object), sizeof(char *));
    }
    if (slab->newest) *ls_slab_link(slab, slab->newest) = object;
    else slab->oldest = object;
    slab->newest = object;
    slab->resting++;
}

/* An object with undefined contents (a fresh one is zero); NULL when memory is out. */
static inline void *ls_slab_take(ls_slab *slab)
{
    if (slab->resting <= slab->rest) {
        size_t stride = (slab->size + 63) & ~(size_t)63;
        ls_slab_item *chunk = ls_sys_alloc(64 + stride * LS_SLAB_CHUNK);
        if (chunk) {
            chunk->next = slab->chunks;
            slab->chunks = chunk;
            for (size_t i = 0; i < LS_SLAB_CHUNK; i++) ls_slab_give(slab, (char *)chunk + 64 + i * stride);
        } else if (!slab->oldest) {
            return NULL;
        } /* else: under memory pressure a resting object is better than none */
    }
    char *object = slab->oldest;
    slab->oldest = *ls_slab_link(slab, object);
    if (!slab->oldest) slab->newest = NULL;
    slab->resting--;
    ls_guard_open(object, slab->size);
    return object;
}

/* Is this the address of one of its objects, in use or not? Looks at the address alone. */
static inline bool ls_slab_holds(const ls_slab *slab, const void *address)
{
    size_t stride = (slab->size + 63) & ~(size_t)63;
    for (const ls_slab_item *chunk = slab->chunks; chunk; chunk = chunk->next) {
        uintptr_t first = (uintptr_t)chunk + 64, at = (uintptr_t)address;
        if (at >= first && at < first + stride * LS_SLAB_CHUNK) return (at - first) % stride == 0;
    }
    return false;
}

static inline void ls_slab_free(ls_slab *slab)
{
    for (ls_slab_item *chunk = slab->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        ls_sys_free(chunk);
    }
    slab->chunks = NULL;
    slab->oldest = slab->newest = NULL;
    slab->resting = 0;
}

#endif
