/* arena.c - chunks of doubling size, filled from the front. */
#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#include "base/memory.h"

typedef struct ls_arena_chunk {
    struct ls_arena_chunk *next;
    size_t used, size;
    _Alignas(16) char bytes[];
} chunk;

enum { FIRST_CHUNK = 4096, LARGEST_STEP = 16 << 20 };

static chunk *add_chunk(ls_arena *arena, size_t least)
{
    size_t size = arena->chunks ? arena->chunks->size * 2 : FIRST_CHUNK;
    if (size > LARGEST_STEP) size = LARGEST_STEP;
    if (size < least) size = least;
    if (size > SIZE_MAX - sizeof(chunk)) return NULL;
    chunk *more = ls_sys_alloc(sizeof *more + size);
    if (!more) return NULL;
    more->size = size;
    more->next = arena->chunks;
    arena->chunks = more;
    return more;
}

void *ls_arena_take(ls_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX - 15) return NULL;
    bytes = (bytes + 15) & ~(size_t)15;
    chunk *c = arena->chunks;
    if ((!c || c->size - c->used < bytes) && !(c = add_chunk(arena, bytes))) return NULL;
    void *block = c->bytes + c->used;
    c->used += bytes;
    return block;
}

char *ls_arena_text(ls_arena *arena, const char *text, size_t length)
{
    char *copy = ls_arena_take(arena, length + 1);
    return copy ? memcpy(copy, text, length) : NULL;
}

void ls_arena_free(ls_arena *arena)
{
    for (chunk *c = arena->chunks, *next; c; c = next) {
        next = c->next;
        ls_sys_free(c);
    }
    arena->chunks = NULL;
}
