/* arena.h - memory that is freed all at once. */
#ifndef LOCKSTEP_BASE_ARENA_H
#define LOCKSTEP_BASE_ARENA_H

#include <stddef.h>

/* All zero is an empty arena. */
typedef struct ls_arena {
    struct ls_arena_chunk *chunks; /* the one being filled first */
} ls_arena;

/* Zeroed, aligned to 16 bytes; NULL when out of memory. */
void *ls_arena_take(ls_arena *arena, size_t bytes);
/* A zero-terminated copy of `length` bytes. */
char *ls_arena_text(ls_arena *arena, const char *text, size_t length);
void ls_arena_free(ls_arena *arena); /* leaves it empty */

#endif
