/* budget.h - limit on the memory a reader may allocate for a file: 64 MiB plus 1032 bytes for each byte of the file.
 *
 * A small file can ask for a lot of memory: a container that a pickle names twice is two containers, a deflated byte
 * can become a kilobyte, a header of 30 bytes can announce a picture of a gigabyte. Allocations whose size the file
 * dictates are therefore counted against its own size. 1032 is the largest expansion of deflate, so every compressed
 * file fits; allocations proportional to the bytes actually read need not be counted. */
#ifndef LOCKSTEP_BASE_BUDGET_H
#define LOCKSTEP_BASE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define LS_BUDGET_FREE ((uint64_t)64 << 20)
#define LS_BUDGET_RATIO ((uint64_t)1032)

/* The limit for a file of this size. */
static inline uint64_t ls_budget_of(uint64_t file_bytes)
{
    if (file_bytes > (UINT64_MAX - LS_BUDGET_FREE) / LS_BUDGET_RATIO) return UINT64_MAX;
    return LS_BUDGET_FREE + LS_BUDGET_RATIO * file_bytes;
}

/* Add `bytes` to *taken, the bytes allocated so far; false, and *taken unchanged, if that exceeds the limit. */
static inline bool ls_budget_draw(uint64_t *taken, uint64_t bytes, uint64_t file_bytes)
{
    uint64_t all = ls_budget_of(file_bytes);
    if (*taken > all || bytes > all - *taken) return false;
    *taken += bytes;
    return true;
}

#endif
