/* helpers.h - threads that help a communication thread with large arrays.
 *
 * They sleep when idle. Only one thread at a time may hand out work. */
#ifndef LOCKSTEP_COMM_HELPERS_H
#define LOCKSTEP_COMM_HELPERS_H

#include <pthread.h>
#include <stddef.h>

typedef struct ls_helpers ls_helpers;

/* Works on bytes [begin, end). `begin` is a multiple of a cache line, relative to the start of the array. */
typedef void ls_helpers_fn(void *user, size_t begin, size_t end);

/* `count` threads, each pinned to cpu[i] (-1: any). NULL: count is 0, or no thread could be started. */
ls_helpers *ls_helpers_new(int count, const int *cpu);
void ls_helpers_free(ls_helpers *helpers); /* NULL is accepted */

/* Process all bytes on the threads and the caller; on the caller alone if there are few bytes or helpers is NULL. */
void ls_helpers_run(ls_helpers *helpers, size_t bytes, ls_helpers_fn *work, void *user);

/* Pin a thread to a CPU (-1: leave it unpinned); warns if the CPU is not allowed. */
void ls_thread_pin(pthread_t thread, int cpu);

#endif
