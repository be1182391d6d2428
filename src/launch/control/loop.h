/* loop.h - waiting for files without polling: what is watched, and what to do when something happens there. */
#ifndef LOCKSTEP_LAUNCH_CONTROL_LOOP_H
#define LOCKSTEP_LAUNCH_CONTROL_LOOP_H

#include <stdbool.h>
#include <stdint.h>

/* One file that is watched; lives in its owner. */
typedef struct ls_watch {
    int fd;
    bool (*ready)(struct ls_watch *watch, uint32_t events); /* EPOLLIN, ...; false ends the loop */
    void *owner;
    uint32_t events; /* what it waits for now; 0: not watched */
} ls_watch;

#define LS_NEVER INT64_MAX

/* Nanoseconds of a clock that only goes forward; and a moment some seconds from now. */
int64_t ls_now(void);
int64_t ls_after(double seconds);

int ls_loop_open(void); /* the loop, a file; -1: none to be had */

/* Watch for these events from now on; 0: for none. */
bool ls_loop_watch(int loop, ls_watch *watch, uint32_t events);

/* Wait until something happens, or until the deadline, and handle it: one event at a time, so that a handler may stop
 * watching or close any other file. Returns what the handler did, true after a deadline. */
bool ls_loop_wait(int loop, int64_t deadline);

#endif
