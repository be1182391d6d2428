/* pool.c - two-level segregated fit over chunks of device memory. */
#include "device/pool.h"

#include "base/guard.h"
#include "base/memory.h"

#define CHUNK_BYTES ((size_t)32 << 20)     /* least to request from the device */
#define CHUNK_MOST_BYTES ((size_t)1 << 30) /* most, unless one block needs more */
#define CHUNK_GROWTH 8                     /* in between: this fraction of what the pool holds */
#define CHUNK_STEP ((size_t)2 << 20)       /* larger requests are rounded up to this: whole huge pages */

#define LIST_BITS 5 /* 32 lists per power of two */
#define LISTS (1u << LIST_BITS)
#define ROWS 41 /* enough for MAX_BYTES */
#define MAX_BYTES ((size_t)1 << 50)
#define TRIES 4 /* blocks of a list to try, which may be slightly too small */

#define SPARES_PER_SLAB 255

typedef struct chunk {
    struct chunk *next;
    ls_pool_block *first; /* never changes: when blocks are cut and merged the front part keeps its descriptor */
    size_t bytes;
} chunk;

/* Descriptors are allocated in slabs and recycled; they are freed only with the pool. */
typedef struct slab {
    struct slab *next;
    ls_pool_block blocks[SPARES_PER_SLAB];
} slab;

struct ls_pool {
    const ls_device_table *table;
    void *device;
    bool guarded;       /* in host memory, so the address sanitizer can watch it */
    bool exact;         /* no caching: every block is allocated from and released to the device */
    ls_pool_block *out; /* list of exact blocks in use */

    uint64_t rows_filled;        /* bit r: some list in row r holds a block */
    uint32_t lists_filled[ROWS]; /* bit l: list l of the row holds a block */
    ls_pool_block *lists[ROWS][LISTS];

    ls_pool_block *pending, **pending_end; /* given back, but in use by another stream; oldest first */

    ls_pool_block *spares;
    int spare_count;
    slab *slabs;
    chunk *chunks;
    ls_pool_stats stats; /* except for `cached`, which follows from `held` */
    size_t held;
};

/* ---- Lists of free blocks ------------------------------------------------------------------------------------- */

typedef struct place {
    unsigned row, list;
} place;

/* The list of a free block of this size. Row 0 has one list per multiple of the alignment. */
static place place_of(size_t bytes)
{
    size_t units = bytes / LS_POOL_ALIGN;
    if (units < LISTS) return (place){0, (unsigned)units};
    unsigned shift = 63 - LIST_BITS - (unsigned)__builtin_clzll(units);
    return (place){shift + 1, (unsigned)(units >> shift) & (LISTS - 1)};
}

static void insert(ls_pool *pool, ls_pool_block *block)
{
    place at = place_of(block->bytes);
    ls_pool_block **list = &pool->lists[at.row][at.list];
    block->is_free = true;
    block->last = NULL;
    block->next = *list;
    if (*list) (*list)->last = block;
    *list = block;
    pool->lists_filled[at.row] |= 1u << at.list;
    pool->rows_filled |= 1ull << at.row;
}

static void remove_free(ls_pool *pool, ls_pool_block *block)
{
    block->is_free = false;
    if (block->next) block->next->last = block->last;
    if (block->last) {
        block->last->next = block->next;
        return;
    }
    place at = place_of(block->bytes);
    pool->lists[at.row][at.list] = block->next;
    if (block->next) return;
    pool->lists_filled[at.row] &= ~(1u << at.list);
    if (!pool->lists_filled[at.row]) pool->rows_filled &= ~(1ull << at.row);
}

/* A free block of at least this size, removed from its list; NULL if there is none. Its own list comes first: sizes
 * recur from step to step, and the block that was given back fits best. All blocks of later lists are larger. */
static ls_pool_block *find(ls_pool *pool, size_t bytes)
{
    place at = place_of(bytes);
    ls_pool_block *block = pool->lists[at.row][at.list];
    for (int i = 0; block && block->bytes < bytes; i++) block = i < TRIES ? block->next : NULL;
    if (!block) {
        uint32_t lists = pool->lists_filled[at.row] & (~1u << at.list);
        if (!lists) {
            uint64_t rows = pool->rows_filled & (~1ull << at.row);
            if (!rows) return NULL;
            at.row = (unsigned)__builtin_ctzll(rows);
            lists = pool->lists_filled[at.row];
        }
        block = pool->lists[at.row][__builtin_ctz(lists)];
    }
    remove_free(pool, block);
    return block;
}

/* ---- Descriptors ---------------------------------------------------------------------------------------------- */

static void drop_descriptor(ls_pool *pool, ls_pool_block *block)
{
    block->next = pool->spares;
    pool->spares = block;
    pool->spare_count++;
}

static ls_pool_block *new_descriptor(ls_pool *pool)
{
    ls_pool_block *block = pool->spares;
    pool->spares = block->next;
    pool->spare_count--;
    return block;
}

static bool make_descriptors(ls_pool *pool)
{
    slab *more = ls_sys_alloc(sizeof *more);
    if (!more) return false;
    more->next = pool->slabs;
    pool->slabs = more;
    for (int i = SPARES_PER_SLAB; i-- > 0;) drop_descriptor(pool, &more->blocks[i]);
    return true;
}

/* ---- Cutting and merging -------------------------------------------------------------------------------------- */

/* Cut a block that is in no list down to `bytes`; the rest becomes free. */
static void cut(ls_pool *pool, ls_pool_block *block, size_t bytes)
{
    if (block->bytes == bytes) return;
    ls_pool_block *rest = new_descriptor(pool);
    rest->address = (char *)block->address + bytes;
    rest->bytes = block->bytes - bytes;
    rest->before = block;
    rest->after = block->after;
    if (rest->after) rest->after->before = rest;
    block->after = rest;
    block->bytes = bytes;
    insert(pool, rest);
}

/* Merge `block` with its right neighbour; both are in no list. */
static void absorb_next(ls_pool *pool, ls_pool_block *block)
{
    ls_pool_block *gone = block->after;
    block->bytes += gone->bytes;
    block->after = gone->after;
    if (block->after) block->after->before = block;
    drop_descriptor(pool, gone);
}

static void merge_and_insert(ls_pool *pool, ls_pool_block *block)
{
    if (block->after && block->after->is_free) {
        remove_free(pool, block->after);
        absorb_next(pool, block);
    }
    if (block->before && block->before->is_free) {
        block = block->before;
        remove_free(pool, block);
        absorb_next(pool, block);
    }
    insert(pool, block);
}

/* ---- Chunks --------------------------------------------------------------------------------------------------- */

/* Memory from the device; NULL if it has none, or if its address is not aligned. */
static void *ask_device(ls_pool *pool, size_t bytes)
{
    void *address = NULL;
    if (pool->table->alloc(pool->device, bytes, &address) != LS_OK || !address) return NULL;
    if ((uintptr_t)address % LS_POOL_ALIGN == 0) return address;
    pool->stats.odd = address;
    pool->table->release(pool->device, address, bytes);
    return NULL;
}

/* All of a new chunk, in no list. Needs one descriptor. */
static ls_pool_block *add_chunk(ls_pool *pool, size_t bytes)
{
    chunk *more = ls_sys_alloc(sizeof *more);
    if (!more) return NULL;
    pool->stats.requests++;
    void *address = ask_device(pool, bytes);
    if (!address) {
        ls_sys_free(more);
        return NULL;
    }
    if (pool->guarded) ls_guard_close(address, bytes);
    ls_pool_block *block = new_descriptor(pool);
    *block = (ls_pool_block){.address = address, .bytes = bytes};
    *more = (chunk){.next = pool->chunks, .first = block, .bytes = bytes};
    pool->chunks = more;
    pool->stats.chunks++;
    pool->held += bytes;
    return block;
}

static size_t round_up(size_t bytes, size_t step)
{
    return (bytes + step - 1) / step * step;
}

/* A new chunk for `least` bytes or more. Chunks grow with the pool, so that gigabytes take few chunks, with room for
 * large blocks; if the device has less, the size is halved until it is `least`. */
static ls_pool_block *add_grown_chunk(ls_pool *pool, size_t least)
{
    size_t bytes = round_up(pool->held / CHUNK_GROWTH, CHUNK_STEP);
    if (bytes > CHUNK_MOST_BYTES) bytes = CHUNK_MOST_BYTES;
    for (;; bytes = round_up(bytes / 2, CHUNK_STEP)) {
        if (bytes < least) bytes = least;
        ls_pool_block *block = add_chunk(pool, bytes);
        if (block || bytes == least) return block;
    }
}

static void release_chunk(ls_pool *pool, chunk *gone)
{
    pool->table->release(pool->device, gone->first->address, gone->bytes);
    pool->stats.chunks--;
    pool->held -= gone->bytes;
    ls_sys_free(gone);
}

size_t ls_pool_trim(ls_pool *pool)
{
    size_t before = pool->held;
    for (chunk **link = &pool->chunks; *link;) {
        chunk *this = *link;
        if (this->first->is_free && !this->first->after) {
            *link = this->next;
            remove_free(pool, this->first);
            drop_descriptor(pool, this->first);
            release_chunk(pool, this);
        } else {
            link = &this->next;
        }
    }
    return before - pool->held;
}

/* ---- Devices without caching (LS_TRAIT_STORAGES) -------------------------------------------------------------- */

/* Needs one descriptor. */
static ls_pool_block *take_exact(ls_pool *pool, size_t bytes)
{
    void *address = ask_device(pool, bytes);
    if (!address) return NULL;
    ls_pool_block *block = new_descriptor(pool);
    *block = (ls_pool_block){.address = address, .bytes = bytes, .after = pool->out};
    if (pool->out) pool->out->before = block;
    pool->out = block;
    pool->held += bytes;
    return block;
}

static void give_exact(ls_pool *pool, ls_pool_block *block)
{
    if (block->after) block->after->before = block->before;
    if (block->before) block->before->after = block->after;
    else pool->out = block->after;
    pool->table->release(pool->device, block->address, block->bytes);
    pool->held -= block->bytes;
    drop_descriptor(pool, block);
}

/* ---- Blocks in use in other streams --------------------------------------------------------------------------- */

typedef enum effort {
    OLDEST, /* the oldest ones that have finished: cheap enough for every call */
    ALL,    /* all that have finished */
    WAIT,   /* all, waiting for those that have not finished */
} effort;

static void collect(ls_pool *pool, effort how)
{
    for (ls_pool_block **link = &pool->pending; *link;) {
        ls_pool_block *block = *link;
        ls_message why;
        if (how == WAIT) {
            pool->table->event_sync(pool->device, block->event, &why); /* ignored: a failed device is reported by its
                                                                        * streams */
        } else if (!pool->table->event_done(pool->device, block->event)) {
            if (how == OLDEST) break;
            link = &block->next;
            continue;
        }
        *link = block->next;
        if (!*link) pool->pending_end = link;
        pool->table->event_destroy(pool->device, block->event);
        block->event = NULL;
        ls_pool_give(pool, block);
    }
}

/* ---- Public --------------------------------------------------------------------------------------------------- */

ls_pool *ls_pool_new(const ls_device_table *table, void *device)
{
    ls_pool *pool = ls_sys_alloc(sizeof *pool);
    if (!pool) return NULL;
    pool->table = table;
    pool->device = device;
    pool->guarded = (table->traits & LS_TRAIT_HOST) != 0;
    pool->exact = (table->traits & LS_TRAIT_STORAGES) != 0;
    pool->pending_end = &pool->pending;
    return pool;
}

void ls_pool_free(ls_pool *pool)
{
    if (!pool) return;
    collect(pool, WAIT);
    while (pool->out) give_exact(pool, pool->out);
    while (pool->chunks) {
        chunk *next = pool->chunks->next;
        release_chunk(pool, pool->chunks);
        pool->chunks = next;
    }
    while (pool->slabs) {
        slab *next = pool->slabs->next;
        ls_sys_free(pool->slabs);
        pool->slabs = next;
    }
    ls_sys_free(pool);
}

/* Nothing fits: get more, cheapest way first. */
static ls_pool_block *find_harder(ls_pool *pool, size_t bytes)
{
    collect(pool, ALL);
    ls_pool_block *block = find(pool, bytes);
    if (block) return block;

    size_t least = round_up(bytes, CHUNK_STEP), usual = least > CHUNK_BYTES ? least : CHUNK_BYTES;
    block = add_grown_chunk(pool, usual);
    if (block) return block;

    collect(pool, WAIT);
    block = find(pool, bytes);
    if (block) return block;

    ls_pool_trim(pool);
    block = add_grown_chunk(pool, usual);
    return block || least == usual ? block : add_chunk(pool, least);
}

ls_pool_block *ls_pool_take(ls_pool *pool, size_t bytes)
{
    if (bytes > MAX_BYTES) return NULL;
    size_t asked = bytes;
    if (!pool->exact || !bytes)
        bytes = bytes ? round_up(bytes + (pool->guarded ? LS_GUARD_GAP : 0), LS_POOL_ALIGN) : LS_POOL_ALIGN;
    if (pool->pending) collect(pool, OLDEST);
    if (pool->spare_count < 2 && !make_descriptors(pool)) return NULL; /* one for a chunk, one for a cut */
    ls_pool_block *block = pool->exact ? take_exact(pool, bytes) : find(pool, bytes);
    if (!block && (pool->exact || !(block = find_harder(pool, bytes)))) return NULL;
    cut(pool, block, bytes);
    pool->stats.in_use += bytes;
    if (pool->stats.in_use > pool->stats.peak) pool->stats.peak = pool->stats.in_use;
    if (pool->guarded) ls_guard_open_new(block->address, asked);
    return block;
}

void ls_pool_give(ls_pool *pool, ls_pool_block *block)
{
    pool->stats.in_use -= block->bytes;
    if (pool->guarded) ls_guard_close(block->address, block->bytes);
    if (pool->exact) give_exact(pool, block);
    else merge_and_insert(pool, block);
}

void ls_pool_give_after(ls_pool *pool, ls_pool_block *block, ls_event *event)
{
    block->event = event;
    block->next = NULL;
    *pool->pending_end = block;
    pool->pending_end = &block->next;
}

ls_pool_stats ls_pool_get_stats(const ls_pool *pool)
{
    ls_pool_stats stats = pool->stats;
    stats.cached = pool->held - stats.in_use;
    return stats;
}
