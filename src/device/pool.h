/* pool.h - caching allocator of device memory: blocks are cut from large chunks and merged again, in constant time.
 *
 * Two-level segregated fit: free blocks are kept in lists by size, 32 lists per power of two, with bitmaps of the
 * nonempty lists. Chunks grow with the pool, from 32 MB to 1 GB. Block descriptors are in host memory, since device
 * memory may be inaccessible. A pool is used by one thread at a time.
 *
 * A block that is given back may be reused at once: work in one stream runs in order, so its next user comes later. If
 * another stream may still be using it, give it back with an event recorded there. */
#ifndef LOCKSTEP_DEVICE_POOL_H
#define LOCKSTEP_DEVICE_POOL_H

#include <lockstep/plugin.h>

#define LS_POOL_ALIGN 64u

typedef struct ls_pool ls_pool;

typedef struct ls_pool_block {
    void *address; /* multiple of LS_POOL_ALIGN */
    size_t bytes;  /* at least what was asked for; multiple of LS_POOL_ALIGN but exact for LS_TRAIT_STORAGES */

    /* Private to the pool. */
    struct ls_pool_block *before, *after; /* neighbours in the chunk */
    struct ls_pool_block *next,
        *last;       /* in the list of free blocks; next also in that of blocks still in use elsewhere */
    ls_event *event; /* free when this is done */
    bool is_free;
} ls_pool_block;

typedef struct ls_pool_stats {
    size_t in_use;     /* bytes of blocks taken, or given back but still in use by another stream */
    size_t peak;       /* largest in_use so far */
    size_t cached;     /* bytes allocated from the device and free */
    uint64_t chunks;   /* held now */
    uint64_t requests; /* for chunks, sent to the device so far */
    const void *odd;   /* an address from the device that was rejected: not a multiple of LS_POOL_ALIGN; NULL: none */
} ls_pool_stats;

/* NULL: out of host memory. Allocates no device memory yet. Table and device must outlive the pool. */
ls_pool *ls_pool_new(const ls_device_table *table, void *device);
/* Waits for pending events and returns everything to the device, including blocks not given back. */
void ls_pool_free(ls_pool *pool);

/* NULL: out of memory, even after returning all free and pending blocks to the device. */
ls_pool_block *ls_pool_take(ls_pool *pool, size_t bytes);
void ls_pool_give(ls_pool *pool, ls_pool_block *block);
/* Give back when the event is done. The pool takes ownership of the event. */
void ls_pool_give_after(ls_pool *pool, ls_pool_block *block, ls_event *event);

/* Return chunks that are entirely free to the device; returns their bytes. */
size_t ls_pool_trim(ls_pool *pool);
ls_pool_stats ls_pool_get_stats(const ls_pool *pool);

#endif
