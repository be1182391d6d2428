/* proto.h - writing protocol buffers: fields are appended to a buffer, messages nest. */
#ifndef LOCKSTEP_TRACK_PROTO_H
#define LOCKSTEP_TRACK_PROTO_H

#include "base/buffer.h"

#include <string.h>

typedef enum ls_proto_wire { LS_PROTO_VARINT = 0, LS_PROTO_64 = 1, LS_PROTO_BYTES = 2, LS_PROTO_32 = 5 } ls_proto_wire;

static inline size_t ls_proto_encode(uint64_t value, unsigned char to[10])
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) to[n++] = (unsigned char)(value | 0x80);
    to[n++] = (unsigned char)value;
    return n;
}

static inline void ls_proto_varint(ls_byte_buffer *b, uint64_t value)
{
    unsigned char bytes[10];
    ls_byte_buffer_put(b, bytes, ls_proto_encode(value, bytes));
}

static inline void ls_proto_key(ls_byte_buffer *b, int field, ls_proto_wire wire)
{
    ls_proto_varint(b, (uint64_t)field << 3 | (uint64_t)wire);
}

static inline void ls_proto_integer(ls_byte_buffer *b, int field, int64_t value)
{
    ls_proto_key(b, field, LS_PROTO_VARINT);
    ls_proto_varint(b, (uint64_t)value);
}

static inline void ls_proto_double(ls_byte_buffer *b, int field, double value)
{
    ls_proto_key(b, field, LS_PROTO_64);
    ls_byte_buffer_put(b, &value, sizeof value); /* little-endian, like this machine */
}

static inline void ls_proto_float(ls_byte_buffer *b, int field, float value)
{
    ls_proto_key(b, field, LS_PROTO_32);
    ls_byte_buffer_put(b, &value, sizeof value);
}

static inline void ls_proto_text(ls_byte_buffer *b, int field, const char *text)
{
    ls_proto_key(b, field, LS_PROTO_BYTES);
    ls_proto_varint(b, strlen(text));
    ls_byte_buffer_put(b, text, strlen(text));
}

/* The fields of a nested message are written between begin and end. */
static inline size_t ls_proto_begin(ls_byte_buffer *b, int field)
{
    ls_proto_key(b, field, LS_PROTO_BYTES);
    return b->length;
}

static inline void ls_proto_end(ls_byte_buffer *b, size_t begin)
{
    unsigned char length[10];
    size_t size = b->length - begin, bytes = ls_proto_encode(size, length);
    if (!ls_byte_buffer_room(b, bytes)) return;
    memmove(b->bytes + begin + bytes, b->bytes + begin, size);
    memcpy(b->bytes + begin, length, bytes);
    b->length += bytes;
}

#endif
