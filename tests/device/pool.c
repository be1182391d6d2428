/* pool.c - the caching allocator on a fake device whose addresses must not be accessed. */
#include "device/pool.h"

#include "base/memory.h"
#include "base/parallel.h"
#include "check.h"
#include "device/device.h"

#include <stdlib.h>

#define MIB ((size_t)1 << 20)

/* ---- A device of addresses only */

struct ls_event {
    bool done;
};

typedef struct fake {
    size_t limit, held; /* bytes */
    uintptr_t next;
    int events_made, events_gone, waits;
} fake;

static ls_status fake_alloc(void *device, size_t bytes, void **address)
{
    fake *self = device;
    if (bytes > self->limit - self->held) return LS_ERR_MEMORY;
    self->held += bytes;
    *address = (void *)self->next;
    self->next += bytes + MIB; /* a gap: blocks of different chunks must not be merged */
    return LS_OK;
}

static void fake_release(void *device, void *address, size_t bytes)
{
    (void)address;
    ((fake *)device)->held -= bytes;
}

static bool fake_event_done(void *device, ls_event *event)
{
    (void)device;
    return event->done;
}

static ls_status fake_event_sync(void *device, ls_event *event, ls_message *why)
{
    (void)why;
    ((fake *)device)->waits++;
    event->done = true;
    return LS_OK;
}

static void fake_event_destroy(void *device, ls_event *event)
{
    ((fake *)device)->events_gone++;
    free(event);
}

static const ls_device_table table = {
    .alloc = fake_alloc,
    .release = fake_release,
    .event_done = fake_event_done,
    .event_sync = fake_event_sync,
    .event_destroy = fake_event_destroy,
};

static ls_event *new_event(fake *device)
{
    device->events_made++;
    return calloc(1, sizeof(ls_event));
}

static fake new_device(size_t limit)
{
    return (fake){.limit = limit, .next = (uintptr_t)1 << 40};
}

/* ---- Tests */

static void blocks_come_from_one_chunk(void)
{
    fake device = new_device(1024 * MIB);
    ls_pool *pool = ls_pool_new(&table, &device);
    CHECK(device.held == 0);
    ls_pool_block *a = ls_pool_take(pool, 1), *b = ls_pool_take(pool, 100), *c = ls_pool_take(pool, 0);
    CHECK(a->bytes == 64 && b->bytes == 128 && c->bytes == 64);
    CHECK((char *)b->address == (char *)a->address + 64 && (char *)c->address == (char *)b->address + 128);
    CHECK(device.held == 32 * MIB);
    ls_pool_stats stats = ls_pool_get_stats(pool);
    CHECK(stats.in_use == 256 && stats.peak == 256 && stats.cached == 32 * MIB - 256);
    CHECK(stats.chunks == 1 && stats.requests == 1);
    void *was = b->address;
    ls_pool_give(pool, b);
    b = ls_pool_take(pool, 120); /* the hole fits */
    CHECK(b->address == was);
    ls_pool_give(pool, a);
    ls_pool_give(pool, c);
    CHECK(ls_pool_trim(pool) == 0);
    ls_pool_give(pool, b);
    CHECK(ls_pool_trim(pool) == 32 * MIB && device.held == 0);
    stats = ls_pool_get_stats(pool);
    CHECK(stats.in_use == 0 && stats.peak == 256 && stats.cached == 0 && stats.chunks == 0);
    ls_pool_free(pool);
}

static void large_requests_get_their_own_chunk(void)
{
    fake device = new_device(16384 * MIB);
    ls_pool *pool = ls_pool_new(&table, &device);
    ls_pool_block *small = ls_pool_take(pool, 100), *large = ls_pool_take(pool, 1035 * MIB + 1);
    CHECK(device.held == (32 + 1036) * MIB && large->bytes == 1035 * MIB + 64);
    for (int i = 0; i < 3; i++) { /* the same size repeatedly: nothing more from the device */
        ls_pool_give(pool, large);
        large = ls_pool_take(pool, 1035 * MIB + 1);
    }
    CHECK(ls_pool_get_stats(pool).requests == 2);
    ls_pool_give(pool, small);
    ls_pool_give(pool, large);
    CHECK(ls_pool_take(pool, SIZE_MAX) == NULL && ls_pool_take(pool, (size_t)1 << 50) == NULL);
    CHECK(device.held == 0); /* the attempt returned what was free */
    ls_pool_free(pool);
}

static void memory_runs_out_and_comes_back(void)
{
    fake device = new_device(70 * MIB);
    ls_pool *pool = ls_pool_new(&table, &device);
    ls_pool_block *a = ls_pool_take(pool, 20 * MIB), *b = ls_pool_take(pool, 20 * MIB);
    CHECK(a && b && device.held == 64 * MIB);
    CHECK(ls_pool_take(pool, 20 * MIB) == NULL);
    ls_pool_block *c = ls_pool_take(pool, 12 * MIB); /* from the rest of a chunk */
    CHECK(c != NULL);
    ls_pool_give(pool, a);
    ls_pool_give(pool, c);
    ls_pool_block *d = ls_pool_take(pool, 38 * MIB); /* only after the free chunk was returned */
    CHECK(d != NULL && device.held == 70 * MIB);
    CHECK(ls_pool_take(pool, 13 * MIB) == NULL);
    ls_pool_give(pool, d);
    ls_pool_give(pool, b);
    ls_pool_trim(pool);
    device.limit = 6 * MIB; /* less than a default chunk */
    a = ls_pool_take(pool, 5 * MIB);
    CHECK(a != NULL && device.held == 6 * MIB);
    ls_pool_free(pool); /* with a block not given back */
    CHECK(device.held == 0);
}

/* Blocks of 24 MB until the pool holds `bytes`. */
static void fill_to(ls_pool *pool, const fake *device, size_t bytes)
{
    while (device->held < bytes) CHECK(ls_pool_take(pool, 24 * MIB) != NULL);
}

static void chunks_grow_with_the_pool(void)
{
    fake device = new_device(65536 * MIB);
    ls_pool *pool = ls_pool_new(&table, &device);
    fill_to(pool, &device, 256 * MIB);
    CHECK(ls_pool_get_stats(pool).chunks == 8); /* a small program gets what it needs, at most 32 MB more */
    fill_to(pool, &device, 8192 * MIB);
    ls_pool_stats stats = ls_pool_get_stats(pool);
    CHECK_MSG(stats.chunks < 40, "%llu chunks", (unsigned long long)stats.chunks);
    CHECK(stats.cached <= device.held / 4); /* at most one new one, and pieces of 8 MB */
    fill_to(pool, &device, 16384 * MIB);
    size_t before = device.held;
    fill_to(pool, &device, before + 1);
    CHECK(device.held == before + 1024 * MIB); /* never more */
    ls_pool_free(pool);
    CHECK(device.held == 0);
}

static void chunks_shrink_to_what_the_device_has(void)
{
    fake device = new_device(1100 * MIB);
    ls_pool *pool = ls_pool_new(&table, &device);
    CHECK(ls_pool_take(pool, 1000 * MIB) != NULL);
    CHECK(ls_pool_take(pool, 60 * MIB) != NULL && device.held == 1064 * MIB); /* 126 MB, then 64 were asked for */
    CHECK(ls_pool_take(pool, 5 * MIB) != NULL && device.held == 1098 * MIB);  /* 134, 68, 34 */
    CHECK(ls_pool_get_stats(pool).requests == 6);
    ls_pool_free(pool);
    CHECK(device.held == 0);
}

static void pending_blocks_wait_for_their_event(void)
{
    fake device = new_device(32 * MIB);
    ls_pool *pool = ls_pool_new(&table, &device);
    ls_pool_block *a = ls_pool_take(pool, 16 * MIB), *b = ls_pool_take(pool, 8 * MIB), *c = ls_pool_take(pool, 8 * MIB);
    void *at_a = a->address, *at_b = b->address;
    ls_event *first = new_event(&device), *second = new_event(&device);
    ls_pool_give_after(pool, a, first);
    ls_pool_give_after(pool, b, second);
    CHECK(ls_pool_get_stats(pool).in_use == 32 * MIB);
    second->done = true;
    b = ls_pool_take(pool, 8 * MIB); /* out of order */
    CHECK(b && b->address == at_b && device.events_gone == 1 && device.waits == 0);
    first->done = true;
    a = ls_pool_take(pool, 16 * MIB);
    CHECK(a && a->address == at_a && device.events_gone == 2 && device.waits == 0);
    ls_pool_give_after(pool, c, new_event(&device));
    c = ls_pool_take(pool, 64); /* nothing free: waits */
    CHECK(c && device.waits == 1 && device.events_gone == 3);
    ls_pool_give_after(pool, a, new_event(&device));
    ls_pool_give_after(pool, b, new_event(&device));
    ls_pool_free(pool);
    CHECK(device.events_gone == device.events_made && device.held == 0);
}

/* ---- Against a model */

enum { LIVE = 400, MOVES = 60000 };

static uint64_t random_state = 88172645463325252u;

static uint64_t random_below(uint64_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % n;
}

static size_t random_size(void)
{
    return (size_t)random_below((uint64_t)1 << (4 + random_below(19))); /* up to 4 MiB, log-uniform */
}

typedef struct model {
    ls_pool_block *block[LIVE];
    char *address[LIVE]; /* when it was taken */
    size_t bytes[LIVE];
    size_t in_use;
} model;

static bool overlaps_another(const model *all, int who)
{
    for (int i = 0; i < LIVE; i++) {
        if (i == who || !all->block[i]) continue;
        if (all->address[i] < all->address[who] + all->bytes[who] &&
            all->address[who] < all->address[i] + all->bytes[i])
            return true;
    }
    return false;
}

static void random_moves_keep_blocks_apart(void)
{
    fake device = new_device(1024 * MIB);
    ls_pool *pool = ls_pool_new(&table, &device);
    static model all;
    ls_event *waiting[LIVE];
    int n_waiting = 0;
    for (int move = 0; move < MOVES; move++) {
        int who = (int)random_below(LIVE);
        if (!all.block[who]) {
            size_t bytes = random_size();
            ls_pool_block *block = ls_pool_take(pool, bytes);
            CHECK(block && block->bytes >= bytes && block->bytes < bytes + 128 && (uintptr_t)block->address % 64 == 0);
            if (!block) break;
            all.block[who] = block;
            all.address[who] = block->address;
            all.bytes[who] = block->bytes;
            CHECK(!overlaps_another(&all, who));
        } else {
            CHECK(all.block[who]->address == all.address[who] && all.block[who]->bytes == all.bytes[who]);
            if (random_below(10) == 0 && n_waiting < LIVE) {
                waiting[n_waiting] = new_event(&device);
                ls_pool_give_after(pool, all.block[who], waiting[n_waiting++]);
            } else {
                ls_pool_give(pool, all.block[who]);
            }
            all.block[who] = NULL;
        }
        if (n_waiting == LIVE || random_below(100) == 0) {
            for (int i = 0; i < n_waiting; i++) waiting[i]->done = true;
            n_waiting = 0;
            ls_pool_give(pool, ls_pool_take(pool, 1)); /* makes the pool check events */
            size_t in_use = 0;
            for (int i = 0; i < LIVE; i++) in_use += all.block[i] ? all.bytes[i] : 0;
            CHECK(ls_pool_get_stats(pool).in_use == in_use);
        }
        if (random_below(5000) == 0) ls_pool_trim(pool);
    }
    for (int i = 0; i < n_waiting; i++) waiting[i]->done = true;
    for (int i = 0; i < LIVE; i++) {
        if (all.block[i]) ls_pool_give(pool, all.block[i]);
    }
    ls_pool_give(pool, ls_pool_take(pool, 1));
    CHECK(ls_pool_get_stats(pool).in_use == 0);
    ls_pool_trim(pool); /* everything has merged, so everything is returned */
    CHECK(device.held == 0 && device.events_gone == device.events_made);
    ls_pool_free(pool);
}

/* Repeating the same sizes requests nothing from the device or the system. */
static void steady_steps_allocate_nothing(void)
{
    fake device = new_device(4096 * MIB);
    ls_pool *pool = ls_pool_new(&table, &device);
    uint64_t system_calls = 0, requests = 0;
    for (int step = 0; step < 5; step++) {
        ls_pool_block *blocks[LIVE];
        random_state = 42;
        for (int i = 0; i < LIVE; i++) blocks[i] = ls_pool_take(pool, random_size());
        for (int i = LIVE; i-- > 0;) ls_pool_give(pool, blocks[i]);
        if (step == 0) {
            system_calls = ls_sys_calls();
            requests = ls_pool_get_stats(pool).requests;
        }
    }
    CHECK(ls_sys_calls() == system_calls && ls_pool_get_stats(pool).requests == requests);
    ls_pool_free(pool);
}

static void host_memory_may_fail_anywhere(void)
{
    for (uint64_t n = 1; n < 12; n++) {
        fake device = new_device(4096 * MIB);
        ls_sys_fail_at(n);
        ls_pool *pool = ls_pool_new(&table, &device);
        CHECK((pool == NULL) == (n == 1));
        for (int i = 0; pool && i < 600; i++) ls_pool_take(pool, MIB / 2); /* NULL at most once; the rest works */
        if (pool) CHECK(ls_pool_get_stats(pool).in_use >= 599 * MIB / 2);
        ls_pool_free(pool);
        CHECK(device.held == 0);
    }
    ls_sys_fail_at(0);
}

#ifdef LS_SANITIZE_ADDRESS
#include <sanitizer/asan_interface.h>

static bool may_touch(void *memory, size_t bytes)
{
    return __asan_region_is_poisoned(memory, bytes) == NULL;
}

/* The address sanitizer sees exactly the requested bytes of a block of host memory, and none once it was given back. */
static void blocks_are_guarded(void)
{
    ls_pool *pool = ls_pool_new(&ls_cpu_device, NULL);
    ls_pool_block *a = ls_pool_take(pool, 100), *b = ls_pool_take(pool, 128);
    CHECK(may_touch(a->address, 100) && !may_touch(a->address, 101));
    CHECK(may_touch(b->address, 128) && !may_touch(b->address, 129));
    ls_pool_give(pool, a);
    CHECK(!may_touch(a->address, 1) && may_touch(b->address, 128));
    ls_pool_free(pool);
    char *scratch = ls_scratch((ls_worker){0, 1}, 0, 1000);
    CHECK(may_touch(scratch, 1000) && !may_touch(scratch, 1001));
}
#else
static void blocks_are_guarded(void)
{
}
#endif

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(blocks_come_from_one_chunk);
    CHECK_RUN(large_requests_get_their_own_chunk);
    CHECK_RUN(memory_runs_out_and_comes_back);
    CHECK_RUN(chunks_grow_with_the_pool);
    CHECK_RUN(chunks_shrink_to_what_the_device_has);
    CHECK_RUN(pending_blocks_wait_for_their_event);
    CHECK_RUN(random_moves_keep_blocks_apart);
    CHECK_RUN(steady_steps_allocate_nothing);
    CHECK_RUN(host_memory_may_fail_anywhere);
    CHECK_RUN(blocks_are_guarded);
    return check_done();
}
