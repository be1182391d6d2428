/* buffer.h - a growing byte buffer. After an allocation failure it stays failed until it is emptied or freed; appending
 * then does nothing. */
#ifndef LOCKSTEP_BASE_BUFFER_H
#define LOCKSTEP_BASE_BUFFER_H

#include <lockstep/base.h>

#include <stddef.h>

typedef struct ls_byte_buffer {
    char *bytes;
    size_t length, capacity;
    bool failed;
} ls_byte_buffer;

/* Start over, keeping the memory. */
static inline void ls_byte_buffer_empty(ls_byte_buffer *buffer)
{
    buffer->length = 0;
    buffer->failed = false;
}

/* Room for `size` more bytes at the end; NULL: out of memory. */
char *ls_byte_buffer_room(ls_byte_buffer *buffer, size_t size);
void ls_byte_buffer_put(ls_byte_buffer *buffer, const void *bytes, size_t size);
/* Text as valid UTF-8: U+FFFD takes the place of every byte that belongs to no character. */
void ls_byte_buffer_put_utf8(ls_byte_buffer *buffer, const char *text);
/* Not for floating point numbers, whose decimal point depends on the locale. */
LS_PRINTF(2, 3) void ls_byte_buffer_print(ls_byte_buffer *buffer, const char *format, ...);
/* A number with `digits` digits and a decimal point, whatever the locale. */
void ls_byte_buffer_number(ls_byte_buffer *buffer, int digits, double value);
void ls_byte_buffer_free(ls_byte_buffer *buffer);

#endif
