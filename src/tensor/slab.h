/* slab.h - objects of one size, recycled first in, first out. Memory is returned to the system only with the slab.
 *
 * For objects that only the library points to. Tensor handles, which programs hold, come from ring.h. */
#ifndef LOCKSTEP_TENSOR_SLAB_H
#define LOCKSTEP_TENSOR_SLAB_H

#include <stddef.h>

#include "base/guard.h"
#include "base/memory.h"

typedef struct ls_slab_item {
    struct ls_slab_item *next;
} ls_slab_item;

typedef struct ls_slab {
    size_t size; /* of an object */
    size_t link; /* offset of a pointer in it that may be used while it is free */
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
    ls_guard_close(object, slab->size); /* only the link may be accessed */
    ls_guard_open(ls_slab_link(slab, object), sizeof(char *));
    if (slab->newest) *ls_slab_link(slab, slab->newest) = object;
    else slab->oldest = object;
    slab->newest = object;
}

/* An object with undefined contents (a fresh one is zero); NULL when out of memory. */
static inline void *ls_slab_take(ls_slab *slab)
{
    if (!slab->oldest) {
        size_t stride = (slab->size + 63) & ~(size_t)63;
        ls_slab_item *chunk = ls_sys_alloc(64 + stride * LS_SLAB_CHUNK);
        if (!chunk) return NULL;
        chunk->next = slab->chunks;
        slab->chunks = chunk;
        for (size_t i = 0; i < LS_SLAB_CHUNK; i++) ls_slab_give(slab, (char *)chunk + 64 + i * stride);
    }
    char *object = slab->oldest;
    slab->oldest = *ls_slab_link(slab, object);
    if (!slab->oldest) slab->newest = NULL;
    ls_guard_open(object, slab->size);
    return object;
}

static inline void ls_slab_free(ls_slab *slab)
{
    for (ls_slab_item *chunk = slab->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        ls_sys_free(chunk);
    }
    slab->chunks = NULL;
    slab->oldest = slab->newest = NULL;
}

#endif
