/* thread.h - threads of the library. */
#ifndef LOCKSTEP_BASE_THREAD_H
#define LOCKSTEP_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Start a thread that receives no signals: they are for the program's own threads, whose handlers may expect to run in
 * one of these. False if the system has no room for another. */
bool ls_thread_start(pthread_t *thread, void *(*body)(void *user), void *user);

#endif
