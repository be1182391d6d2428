/* memory.h - every block the library takes from the system goes through here: counted, and made to fail on demand.
 *
 * ls_sys_calls() lets a test prove that a steady-state step allocates nothing; ls_sys_fail_at(n) makes the n-th
 * request from now on (and only that one) return NULL, so that a test can walk all of them. */
#ifndef LOCKSTEP_BASE_MEMORY_H
#define LOCKSTEP_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

void *ls_sys_alloc(size_t bytes);                /* zeroed; NULL when out */
void *ls_sys_realloc(void *block, size_t bytes); /* new part undefined; the old block stays valid on failure */
void ls_sys_free(void *block);

/* Page-aligned, huge pages advised; for large, long-lived blocks. */
void *ls_sys_map(size_t bytes);
void ls_sys_unmap(void *block, size_t bytes);

uint64_t ls_sys_calls(void);     /* requests so far, of all kinds, all threads */
void ls_sys_fail_at(uint64_t n); /* 0: off. Also LOCKSTEP_FAIL_ALLOC=n at start */

#endif
