/* loop.h - an event loop: watched file descriptors, and the functions called when they become ready. */
#ifndef LOCKSTEP_LAUNCH_CONTROL_LOOP_H
#define LOCKSTEP_LAUNCH_CONTROL_LOOP_H

#include <stdbool.h>
#include <stdint.h>

/* A watched file descriptor; embedded in its owner. */
typedef struct ls_watched_fd {
    int fd;
    bool (*ready)(struct ls_watched_fd *watch, uint32_t events); /* EPOLLIN, ...; false ends the loop */
    void *owner;
    uint32_t events; /* awaited events; 0: not watched */
} ls_watched_fd;

#define LS_NEVER INT64_MAX

/* Nanoseconds of a monotonic clock; and the time some seconds from now. */
int64_t ls_now(void);
int64_t ls_after(double seconds);

int ls_loop_open(void); /* the loop, a file descriptor; -1: failed */

/* Watch for these events from now on; 0: stop watching. */
bool ls_loop_watch(int loop, ls_watched_fd *watch, uint32_t events);

/* Wait for an event or the deadline, and handle one event, so that a handler may stop watching or close any other file.
 * Returns what the handler returned; true after a deadline. */
bool ls_loop_wait(int loop, int64_t deadline);

#endif
