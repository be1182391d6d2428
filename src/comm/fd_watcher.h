/* fd_watcher.h - a thread that serves a file descriptor while the process does other things, such as answering
 * processes that connect late. */
#ifndef LOCKSTEP_COMM_FD_WATCHER_H
#define LOCKSTEP_COMM_FD_WATCHER_H

#include <stdint.h>

typedef struct ls_fd_watcher ls_fd_watcher;

/* Call `serve` from a new thread whenever the file is readable. NULL: the thread could not be started. */
ls_fd_watcher *ls_fd_watcher_start(int file, void (*serve)(void *user), void *user);
void ls_fd_watcher_stop(ls_fd_watcher *watcher); /* waits until `serve` has returned; NULL is accepted */

/* A random number that identifies this process for its lifetime; a fork gets another. */
uint64_t ls_process_self(void);

/* Called from the thread when a process claims a rank that another one has; `words` describes it. */
typedef void ls_claim_fn(void *user, const char *words);

#endif
