/* door.c - the thread, and a bell that ends it. */
#include "comm/door.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"

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

struct ls_door {
    int file, bell;
    void (*serve)(void *user);
    void *user;
    pthread_t thread;
};

static void *wait_at_door(void *of)
{
    const ls_door *door = of;
    struct pollfd files[] = {{.fd = door->bell, .events = POLLIN}, {.fd = door->file, .events = POLLIN}};
    pthread_setname_np(pthread_self(), "lockstep-door");
    while (poll(files, 2, -1) < 0 || !files[0].revents)
        if (files[1].revents) door->serve(door->user);
    return NULL;
}

ls_door *ls_door_open(int file, void (*serve)(void *user), void *user)
{
    ls_door *door = ls_sys_alloc(sizeof *door);
    if (!door) return NULL;
    *door = (ls_door){.file = file, .bell = eventfd(0, EFD_CLOEXEC), .serve = serve, .user = user};
    sigset_t all, before; /* signals are for the user's threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = door->bell >= 0 && pthread_create(&door->thread, NULL, wait_at_door, door) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started) return door;
    if (door->bell >= 0) close(door->bell);
    ls_sys_free(door);
    return NULL;
}

void ls_door_close(ls_door *door)
{
    if (!door) return;
    uint64_t one = 1;
    while (write(door->bell, &one, sizeof one) < 0) continue;
    pthread_join(door->thread, NULL);
    close(door->bell);
    ls_sys_free(door);
}
