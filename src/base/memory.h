/* memory.h - all memory the library takes from the system: counted, and made to fail on demand.
 *
 * ls_sys_calls() lets a test prove that a steady-state step allocates nothing; ls_sys_fail_at(n) makes the n-th
 * request from now on (and only that one) return NULL, so that a test can walk all of them. */
#ifndef LOCKSTEP_BASE_MEMORY_H
#define LOCKSTEP_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *ls_sys_alloc(size_t bytes);                /* zeroed; NULL when out of memory */
void *ls_sys_realloc(void *block, size_t bytes); /* new part undefined; the old block stays valid on failure */
void ls_sys_free(void *block);

/* Page-aligned, huge pages advised; for large, long-lived blocks. */
void *ls_sys_map(size_t bytes);
void ls_sys_unmap(void *block, size_t bytes);

/* Address space without memory, for objects whose addresses must not be reused soon. All sizes are whole pages. NULL if
 * the process has too little: no reservation takes more than a sixteenth of a limit (ulimit -v). */
void *ls_sys_reserve(size_t bytes);
bool ls_sys_back(void *at, size_t bytes);             /* zeroed memory at these addresses */
bool ls_sys_move(void *from, void *to, size_t bytes); /* memory, perhaps with its contents; `from` then reads as zero */
void ls_sys_empty(void *at, size_t bytes);            /* free the memory; reads as zero, writing faults */
void ls_sys_drop_pages(void *at, size_t bytes);       /* free it for now: reads as zero, writing takes new memory */
void ls_sys_unreserve(void *block, size_t bytes);     /* NULL is accepted */

uint64_t ls_sys_calls(void);     /* requests so far, of all kinds, all threads */
void ls_sys_fail_at(uint64_t n); /* 0: off. Also LOCKSTEP_FAIL_ALLOC=n at start */

#endif
