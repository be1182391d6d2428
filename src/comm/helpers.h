/* helpers.h - threads that share in large work of a communication thread.
 *
 * They sleep while there is none. One thread at a time hands out work. */
#ifndef LOCKSTEP_COMM_HELPERS_H
#define LOCKSTEP_COMM_HELPERS_H

#include <pthread.h>
#include <stddef.h>

typedef struct ls_helpers ls_helpers;

/* On bytes [begin, end) of something. Ranges begin on cache lines, counted from where the work begins. */
typedef void ls_helpers_fn(void *user, size_t begin, size_t end);

/* So many threads, each on its CPU (cpu[i]; -1: any). NULL: not one could be had, or count is 0. */
ls_helpers *ls_helpers_new(int count, const int *cpu);
void ls_helpers_free(ls_helpers *helpers); /* NULL is accepted */

/* All of it, by the threads and the caller; by the caller alone where it is little, or helpers is NULL. */
void ls_helpers_run(ls_helpers *helpers, size_t bytes, ls_helpers_fn *work, void *user);

/* Let a thread run on one CPU (-1: anywhere), and warn when it may not. */
void ls_thread_pin(pthread_t thread, int cpu);

#endif
