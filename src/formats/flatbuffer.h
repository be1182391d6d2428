/* flatbuffer.h - FlatBuffers, as far as Arrow's messages need them: tables whose members are found through a list of
 * offsets, in untrusted bytes.
 *
 * Every position is checked before it is read. Members outside the buffer count as absent and set `broken`, which the
 * caller checks at the end. */
#ifndef LOCKSTEP_FORMATS_FLATBUFFER_H
#define LOCKSTEP_FORMATS_FLATBUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ls_flatbuffer {
    const char *bytes;
    size_t size;
    bool broken;
} ls_flatbuffer;

typedef struct ls_flat_table {
    ls_flatbuffer *buffer; /* NULL: absent, and so are all members */
    size_t at, size;       /* of the table */
    size_t slots;          /* position of the offsets of its members: u16 each */
    size_t slot_count;
} ls_flat_table;

/* Consecutive structs or offsets. */
typedef struct ls_flat_vector {
    ls_flatbuffer *buffer;
    size_t at;
    int64_t count;
} ls_flat_vector;

ls_flat_table ls_flat_root(ls_flatbuffer *buffer);

/* Member `slot` of a table: an integer of `width` bytes, sign-extended; `otherwise` if it is absent. */
int64_t ls_flat_integer(ls_flat_table table, int slot, int width, int64_t otherwise);
ls_flat_table ls_flat_member(ls_flat_table table, int slot);
const char *ls_flat_text(ls_flat_table table, int slot); /* zero-terminated; NULL if it is absent */
/* Elements of `width` bytes; empty if it is absent. */
ls_flat_vector ls_flat_list(ls_flat_table table, int slot, size_t width);

/* Elements of a list, `index` < count: number `which` of a struct of `numbers` i64; a table. */
int64_t ls_flat_number_at(ls_flat_vector list, int64_t index, int numbers, int which);
ls_flat_table ls_flat_table_at(ls_flat_vector list, int64_t index);

#endif
