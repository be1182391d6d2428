/* guard.h - tells the address sanitizer which bytes may be touched when memory is cut from larger blocks: pool, slabs,
 * scratch. In other builds it does nothing. */
#ifndef LOCKSTEP_BASE_GUARD_H
#define LOCKSTEP_BASE_GUARD_H

#include <stddef.h>
#include <string.h>

#ifdef LS_SANITIZE_ADDRESS

#include <sanitizer/asan_interface.h>

#define LS_GUARD_GAP 64u /* bytes after a block that nobody may touch, so that an overrun does not hit its neighbour */

static inline void ls_guard_close(void *memory, size_t bytes)
{
    __asan_poison_memory_region(memory, bytes);
}

static inline void ls_guard_open(void *memory, size_t bytes)
{
    __asan_unpoison_memory_region(memory, bytes);
}

/* Open it for a new owner: the old contents are overwritten, so that floats nobody wrote are NaN. */
static inline void ls_guard_open_new(void *memory, size_t bytes)
{
    ls_guard_open(memory, bytes);
    memset(memory, 0xff, bytes);
}

#else

#define LS_GUARD_GAP 0u

static inline void ls_guard_close(void *memory, size_t bytes)
{
    (void)memory, (void)bytes;
}

static inline void ls_guard_open(void *memory, size_t bytes)
{
    (void)memory, (void)bytes;
}

static inline void ls_guard_open_new(void *memory, size_t bytes)
{
    (void)memory, (void)bytes;
}

#endif

#endif
