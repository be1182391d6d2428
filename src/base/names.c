/* names.c - open addressing; at least half of the slots are empty. */
#include "base/names.h"

#include <stdbool.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

typedef struct ls_name_table_slot {
    const char *name; /* NULL: empty */
    size_t length;
    uint64_t hash;
    int64_t number;
} slot;

enum { FIRST_SLOTS = 32 };

/* The slot of a name, or the empty slot for it. */
static slot *slot_of(const ls_name_table *names, uint64_t hash, const char *name, size_t length)
{
    uint64_t mask = (uint64_t)names->capacity - 1, i = hash & mask;
    for (slot *s; (s = &names->slots[i])->name; i = (i + 1) & mask)
        if (s->hash == hash && s->length == length && memcmp(s->name, name, length) == 0) break;
    return &names->slots[i];
}

static bool grow(ls_name_table *names)
{
    ls_name_table larger = {.capacity = names->capacity ? names->capacity * 2 : FIRST_SLOTS, .count = names->count};
    larger.slots = ls_sys_alloc((size_t)larger.capacity * sizeof *larger.slots);
    if (!larger.slots) return false;
    for (int64_t i = 0; i < names->capacity; i++) {
        const slot *s = &names->slots[i];
        if (s->name) *slot_of(&larger, s->hash, s->name, s->length) = *s;
    }
    ls_sys_free(names->slots);
    *names = larger;
    return true;
}

int64_t ls_name_table_find(const ls_name_table *names, const char *name, size_t length)
{
    if (!names->count) return LS_NAME_TABLE_NONE;
    const slot *s = slot_of(names, ls_hash_keyed(name, length), name, length);
    return s->name ? s->number : LS_NAME_TABLE_NONE;
}

int64_t ls_name_table_add(ls_name_table *names, const char *name, size_t length, int64_t number)
{
    if (2 * names->count >= names->capacity && !grow(names)) return LS_NAME_TABLE_MEMORY;
    uint64_t hash = ls_hash_keyed(name, length);
    slot *s = slot_of(names, hash, name, length);
    if (s->name) return s->number;
    *s = (slot){.name = name, .length = length, .hash = hash, .number = number};
    names->count++;
    return number;
}

void ls_name_table_free(ls_name_table *names)
{
    ls_sys_free(names->slots);
    *names = (ls_name_table){0};
}
