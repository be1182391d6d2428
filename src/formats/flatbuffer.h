/* flatbuffer.h - FlatBuffers, as far as Arrow's messages need them: tables whose members are found through a list of
 * offsets, in bytes that others chose.
 *
 * Every place is checked before it is read. What points outside the buffer counts as absent and sets `broken`, which
 * the caller looks at when it is through. */
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
    ls_flatbuffer *buffer; /* NULL: absent; all of its members are */
    size_t at, size;       /* of the table */
    size_t slots;          /* where the offsets of its members are: u16 each */
    size_t slot_count;
} ls_flat_table;

/* Structs or offsets, one behind the other. */
typedef struct ls_flat_vector {
    ls_flatbuffer *buffer;
    size_t at;
    int64_t count;
} ls_flat_vector;

ls_flat_table ls_flat_root(ls_flatbuffer *buffer);

/* Member `slot` of a table: an integer of `width` bytes, its sign extended; `otherwise` where it is absent. */
int64_t ls_flat_integer(ls_flat_table table, int slot, int width, int64_t otherwise);
ls_flat_table ls_flat_member(ls_flat_table table, int slot);
const char *ls_flat_text(ls_flat_table table, int slot); /* zero-terminated; NULL where it is absent */
/* Of elements of `width` bytes; empty where it is absent. */
ls_flat_vector ls_flat_list(ls_flat_table table, int slot, size_t width);

/* Elements of a list, `index` < count: number `which` of a struct of so many i64; a table. */
int64_t ls_flat_number_at(ls_flat_vector list, int64_t index, int numbers, int which);
ls_flat_table ls_flat_table_at(ls_flat_vector list, int64_t index);

#endif
