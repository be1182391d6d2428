/* thread.c - start threads of the library. */
#include "base/thread.h"

#include <signal.h>

bool ls_thread_start(pthread_t *thread, void *(*body)(void *user), void *user)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(thread, NULL, body, user) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}
