/* budget.h - how much memory a file may make its reader take: 64 MiB, and 1032 bytes for each of its own.
 *
 * Some formats say little and mean much: a container that a pickle names twice is two containers, a deflated byte can
 * be a kilobyte, a header of 30 bytes a picture of a gigabyte. What a reader takes on the file's word alone is
 * therefore counted against the size of the file. 1032 is the most that deflate can make of a byte, so that every file
 * of a compressor fits; what takes a fixed number of bytes for each byte of the file by design needs no counting. */
#ifndef LOCKSTEP_BASE_BUDGET_H
#define LOCKSTEP_BASE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define LS_BUDGET_FREE ((uint64_t)64 << 20)
#define LS_BUDGET_RATIO ((uint64_t)1032)

/* Bytes that a file of this size may take. */
static inline uint64_t ls_budget_of(uint64_t file_bytes)
{
    if (file_bytes > (UINT64_MAX - LS_BUDGET_FREE) / LS_BUDGET_RATIO) return UINT64_MAX;
    return LS_BUDGET_FREE + LS_BUDGET_RATIO * file_bytes;
}

/* Take `bytes` out of what a file of this size may take, of which *taken are gone; false when it is not enough. */
static inline bool ls_budget_draw(uint64_t *taken, uint64_t bytes, uint64_t file_bytes)
{
    uint64_t all = ls_budget_of(file_bytes);
    if (*taken > all || bytes > all - *taken) return false;
    *taken += bytes;
    return true;
}

#endif
