/* door.h - a thread that waits at a file while the process does other things: for whoever comes late. */
#ifndef LOCKSTEP_COMM_DOOR_H
#define LOCKSTEP_COMM_DOOR_H

#include <stdint.h>

typedef struct ls_door ls_door;

/* Call `serve`, in a thread of its own, whenever the file can be read from. NULL: no thread could be started. */
ls_door *ls_door_open(int file, void (*serve)(void *user), void *user);
void ls_door_close(ls_door *door); /* when `serve` has returned; NULL is accepted */

/* A number that this process has, for all its runs, and no other, a fork of it included. */
uint64_t ls_process_self(void);

/* Somebody claims a rank that another process has: told in words, from the thread. */
typedef void ls_claim_fn(void *user, const char *words);

#endif
