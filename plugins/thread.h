/* thread.h - threads of plug-ins. */
#ifndef LOCKSTEP_PLUGINS_THREAD_H
#define LOCKSTEP_PLUGINS_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

/* No signals reach the thread, or those that it starts: they are for the program's own, as with the library's. */
static inline bool thread_start(pthread_t *thread, void *(*body)(void *of), void *of)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(thread, NULL, body, of) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

#endif
