/* loop.c - epoll. */
#include "launch/control/loop.h"

#include <errno.h>
#include <limits.h>
#include <sys/epoll.h>
#include <time.h>

int64_t ls_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t ls_after(double seconds)
{
    return seconds < 1e9 ? ls_now() + (int64_t)(seconds * 1e9) : LS_NEVER;
}

int ls_loop_open(void)
{
    return epoll_create1(EPOLL_CLOEXEC);
}

bool ls_loop_watch(int loop, ls_watched_fd *watch, uint32_t events)
{
    if (events == watch->events) return true;
    struct epoll_event event = {.events = events, .data.ptr = watch};
    int change = !events ? EPOLL_CTL_DEL : watch->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(loop, change, watch->fd, &event) != 0) return false;
    watch->events = events;
    return true;
}

bool ls_loop_wait(int loop, int64_t deadline)
{
    int timeout = -1;
    if (deadline != LS_NEVER) {
        int64_t left =
            (deadline - ls_now() + 999999) / 1000000; /* rounded up, so that it does not wake early and spin */
        timeout = left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
    }
    struct epoll_event event;
    int got = epoll_wait(loop, &event, 1, timeout);
    if (got < 0) return errno == EINTR;
    if (got == 0) return true;
    ls_watched_fd *watch = event.data.ptr;
    return watch->ready(watch, event.events);
}
