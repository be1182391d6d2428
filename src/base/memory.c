/* memory.c - system memory, counted and made to fail on demand. */
#include "base/memory.h"

#include "base/config.h"
#include "base/guard.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)

static atomic_uint_fast64_t calls;
static atomic_uint_fast64_t failing_call; /* the number of the call that fails; 0: none */

/* Count a request; true if it is the one that must fail. */
static bool refused(void)
{
    uint64_t call = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) + 1;
    return call == atomic_load_explicit(&failing_call, memory_order_relaxed) ||
           call == ls_config_count(LS_SETTING_FAIL_ALLOC);
}

void *ls_sys_alloc(size_t bytes)
{
    return refused() ? NULL : calloc(1, bytes ? bytes : 1);
}

void *ls_sys_realloc(void *block, size_t bytes)
{
    return refused() ? NULL : realloc(block, bytes ? bytes : 1);
}

void ls_sys_free(void *block)
{
    free(block);
}

/* What the system accounts for a mapping of `bytes`; 0 when that overflows. */
static size_t mapped_size(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX - page - HUGE_PAGE) return 0;
    return bytes ? (bytes + page - 1) / page * page : page;
}

static void *map(size_t bytes)
{
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return block == MAP_FAILED ? NULL : block;
}

/* The kernel backs only whole aligned huge pages, so map more and unmap the unaligned ends. */
static void *map_huge(size_t bytes)
{
    char *start = map(bytes + HUGE_PAGE);
    if (!start) return NULL;
    size_t before = -(uintptr_t)start % HUGE_PAGE;
    if (before) munmap(start, before);
    if (before < HUGE_PAGE) munmap(start + before + bytes, HUGE_PAGE - before);
    madvise(start + before, bytes, MADV_HUGEPAGE); /* only advice: without it memory is slower */
    return start + before;
}

void *ls_sys_map(size_t bytes)
{
    size_t size = mapped_size(bytes);
    if (refused() || !size) return NULL;
    char *block = size < HUGE_PAGE ? map(size) : map_huge(size);
    if (block) ls_guard_close(block + bytes, size - bytes);
    return block;
}

void ls_sys_unmap(void *block, size_t bytes)
{
    if (!block) return;
    ls_guard_open(block, mapped_size(bytes));
    munmap(block, mapped_size(bytes));
}

static bool map_at(void *at, size_t bytes, int protection)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    return mmap(at, bytes, protection, flags, -1, 0) != MAP_FAILED;
}

void *ls_sys_reserve(size_t bytes)
{
    struct rlimit limit;
    bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    if (refused() || (limited && bytes > limit.rlim_cur / 16)) return NULL;
    void *block = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return block == MAP_FAILED ? NULL : block;
}

bool ls_sys_back(void *at, size_t bytes)
{
    return !refused() && map_at(at, bytes, PROT_READ | PROT_WRITE);
}

bool ls_sys_move(void *from, void *to, size_t bytes)
{
#ifdef MREMAP_DONTUNMAP
    if (mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) == to) return true;
#endif
    /* mremap fails before Linux 5.7 and in emulators: use new memory instead. */
    if (!map_at(to, bytes, PROT_READ | PROT_WRITE)) return false;
    ls_sys_empty(from, bytes);
    return true;
}

void ls_sys_empty(void *at, size_t bytes)
{
    map_at(at, bytes, PROT_READ); /* if this fails the memory stays */
}

void ls_sys_drop_pages(void *at, size_t bytes)
{
    madvise(at, bytes, MADV_DONTNEED);
}

void ls_sys_unreserve(void *block, size_t bytes)
{
    if (block) munmap(block, bytes);
}

uint64_t ls_sys_calls(void)
{
    return atomic_load_explicit(&calls, memory_order_relaxed);
}

void ls_sys_fail_at(uint64_t n)
{
    atomic_store(&failing_call, n ? atomic_load(&calls) + n : 0);
}
