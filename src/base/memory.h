/* memory.h - every block the library takes from the system goes through here: counted, and made to fail on demand.
 *
 * ls_sys_calls() lets a test prove that a steady-state step allocates nothing; ls_sys_fail_at(n) makes the n-th
 * request from now on (and only that one) return NULL, so that a test can walk all of them. */
#ifndef LOCKSTEP_BASE_MEMORY_H
#define LOCKSTEP_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *ls_sys_alloc(size_t bytes);                /* zeroed; NULL when out */
void *ls_sys_realloc(void *block, size_t bytes); /* new part undefined; the old block stays valid on failure */
void ls_sys_free(void *block);

/* Page-aligned, huge pages advised; for large, long-lived blocks. */
void *ls_sys_map(size_t bytes);
void ls_sys_unmap(void *block, size_t bytes);

/* Addresses without memory, for objects whose addresses must not come back soon. All sizes are whole pages. NULL where
 * the process may not have so many: no reservation takes more than a sixteenth of a limit (ulimit -v). */
void *ls_sys_reserve(size_t bytes);
bool ls_sys_back(void *at, size_t bytes);             /* zeroed memory at these addresses */
bool ls_sys_move(void *from, void *to, size_t bytes); /* memory, maybe with its contents; `from` reads as zero then */
void ls_sys_empty(void *at, size_t bytes);            /* give the memory back; reading finds zero, writing faults */
void ls_sys_drop_pages(void *at, size_t bytes);   /* give it back for now: reads as zero, writing takes new memory */
void ls_sys_unreserve(void *block, size_t bytes); /* NULL is accepted */

uint64_t ls_sys_calls(void);     /* requests so far, of all kinds, all threads */
void ls_sys_fail_at(uint64_t n); /* 0: off. Also LOCKSTEP_FAIL_ALLOC=n at start */

#endif
