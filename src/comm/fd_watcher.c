/* fd_watcher.c - the thread, and an eventfd that stops it. */
#include "comm/fd_watcher.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread.h"

uint64_t ls_process_self(void)
{
    static uint64_t self;
    static pid_t owner;
    if (owner == getpid()) return self;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (getrandom(&self, sizeof self, 0) != (ssize_t)sizeof self)
        self = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec << 22 ^ (uint64_t)getpid();
    owner = getpid();
    return self;
}

struct ls_fd_watcher {
    int file, stop;
    void (*serve)(void *user);
    void *user;
    pthread_t thread;
};

static void *watch(void *arg)
{
    const ls_fd_watcher *watcher = arg;
    struct pollfd files[] = {{.fd = watcher->stop, .events = POLLIN}, {.fd = watcher->file, .events = POLLIN}};
    pthread_setname_np(pthread_self(), "lockstep-watch");
    while (poll(files, 2, -1) < 0 || !files[0].revents)
        if (files[1].revents) watcher->serve(watcher->user);
    return NULL;
}

ls_fd_watcher *ls_fd_watcher_start(int file, void (*serve)(void *user), void *user)
{
    ls_fd_watcher *watcher = ls_sys_alloc(sizeof *watcher);
    if (!watcher) return NULL;
    *watcher = (ls_fd_watcher){.file = file, .stop = eventfd(0, EFD_CLOEXEC), .serve = serve, .user = user};
    bool started = watcher->stop >= 0 && ls_thread_start(&watcher->thread, watch, watcher);
    if (started) return watcher;
    if (watcher->stop >= 0) close(watcher->stop);
    ls_sys_free(watcher);
    return NULL;
}

void ls_fd_watcher_stop(ls_fd_watcher *watcher)
{
    if (!watcher) return;
    uint64_t one = 1;
    while (write(watcher->stop, &one, sizeof one) < 0) continue;
    pthread_join(watcher->thread, NULL);
    close(watcher->stop);
    ls_sys_free(watcher);
}
