/* flatbuffer.c - tables of FlatBuffers. All numbers are little-endian; offsets are relative to their own position. */
#include "formats/flatbuffer.h"

#include <string.h>

#include "formats/bytes.h"

enum { OFFSET = 4, SLOT = 2, HEAD = 4 /* sizes of the list of slots and of the table */ };

static bool holds(const ls_flatbuffer *buffer, size_t at, size_t bytes)
{
    return at <= buffer->size && bytes <= buffer->size - at;
}

/* The target of the offset at `at`; 0, which is never a target, if it is outside. */
static size_t follow(ls_flatbuffer *buffer, size_t at)
{
    size_t target = holds(buffer, at, OFFSET) ? at + ls_u32(buffer->bytes + at) : 0;
    if (target && holds(buffer, target, OFFSET)) return target;
    buffer->broken = true;
    return 0;
}

static ls_flat_table table_at(ls_flatbuffer *buffer, size_t at)
{
    ls_flat_table none = {0};
    if (!at) return none;
    int64_t slots = (int64_t)at - (int32_t)ls_u32(buffer->bytes + at);
    if (slots >= 0 && holds(buffer, (size_t)slots, HEAD)) {
        size_t listed = ls_u16(buffer->bytes + slots), size = ls_u16(buffer->bytes + slots + SLOT);
        if (listed >= HEAD && holds(buffer, (size_t)slots, listed) && holds(buffer, at, size))
            return (ls_flat_table){buffer, at, size, (size_t)slots + HEAD, (listed - HEAD) / SLOT};
    }
    buffer->broken = true;
    return none;
}

/* The position of a member of `width` bytes; 0: absent. */
static size_t place_of(ls_flat_table table, int slot, size_t width)
{
    if (!table.buffer || (size_t)slot >= table.slot_count) return 0;
    size_t offset = ls_u16(table.buffer->bytes + table.slots + SLOT * (size_t)slot);
    if (!offset) return 0;
    if (offset <= table.size && width <= table.size - offset) return table.at + offset;
    table.buffer->broken = true;
    return 0;
}

static size_t target_of(ls_flat_table table, int slot)
{
    size_t at = place_of(table, slot, OFFSET);
    return at ? follow(table.buffer, at) : 0;
}

ls_flat_table ls_flat_root(ls_flatbuffer *buffer)
{
    return table_at(buffer, follow(buffer, 0));
}

int64_t ls_flat_integer(ls_flat_table table, int slot, int width, int64_t otherwise)
{
    size_t at = place_of(table, slot, (size_t)width);
    if (!at) return otherwise;
    uint64_t sign = UINT64_C(1) << (8 * width - 1), value = ls_little_endian(table.buffer->bytes + at, width);
    return (int64_t)((value ^ sign) - sign);
}

ls_flat_table ls_flat_member(ls_flat_table table, int slot)
{
    size_t at = target_of(table, slot);
    return at ? table_at(table.buffer, at) : (ls_flat_table){0};
}

ls_flat_vector ls_flat_list(ls_flat_table table, int slot, size_t width)
{
    ls_flat_vector none = {0};
    size_t at = target_of(table, slot);
    if (!at) return none;
    uint32_t count = ls_u32(table.buffer->bytes + at);
    if (count <= (table.buffer->size - at - OFFSET) / width)
        return (ls_flat_vector){table.buffer, at + OFFSET, (int64_t)count};
    table.buffer->broken = true;
    return none;
}

const char *ls_flat_text(ls_flat_table table, int slot)
{
    ls_flat_vector text = ls_flat_list(table, slot, 1);
    if (!text.buffer) return NULL;
    size_t end = text.at + (size_t)text.count;
    const char *bytes = text.buffer->bytes + text.at;
    if (end < text.buffer->size && text.buffer->bytes[end] == 0 && strlen(bytes) == (size_t)text.count) return bytes;
    text.buffer->broken = true;
    return NULL;
}

int64_t ls_flat_number_at(ls_flat_vector list, int64_t index, int numbers, int which)
{
    return (int64_t)ls_u64(list.buffer->bytes + list.at + 8 * (size_t)(index * numbers + which));
}

ls_flat_table ls_flat_table_at(ls_flat_vector list, int64_t index)
{
    return table_at(list.buffer, follow(list.buffer, list.at + OFFSET * (size_t)index));
}
