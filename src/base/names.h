/* names.h - a hash table from names to numbers: about one comparison per lookup, even for names chosen by an attacker
 * (ls_hash_keyed). The caller owns the names, which must stay where they are. */
#ifndef LOCKSTEP_BASE_NAMES_H
#define LOCKSTEP_BASE_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* All zero is an empty table. */
typedef struct ls_name_table {
    int64_t count, capacity; /* names; slots, a power of two */
    struct ls_name_table_slot *slots;
} ls_name_table;

enum { LS_NAME_TABLE_NONE = -1, LS_NAME_TABLE_MEMORY = -2 };

/* The number of a name of `length` bytes; LS_NAME_TABLE_NONE when it is not in the table. */
int64_t ls_name_table_find(const ls_name_table *names, const char *name, size_t length);
/* Give a name a number >= 0, unless it is in the table already. Returns the number the table has for it;
 * LS_NAME_TABLE_MEMORY when out of memory. */
int64_t ls_name_table_add(ls_name_table *names, const char *name, size_t length, int64_t number);
void ls_name_table_free(ls_name_table *names); /* leaves it empty */

#endif
