/* buffer.h - bytes that grow. After memory ran out it stays failed until it is emptied or freed; appending then does
 * nothing. */
#ifndef LOCKSTEP_TRACK_BUFFER_H
#define LOCKSTEP_TRACK_BUFFER_H

#include <lockstep/base.h>

#include <stddef.h>

typedef struct ls_byte_buffer {
    char *bytes;
    size_t length, capacity;
    bool failed;
} ls_byte_buffer;

/* Begin anew in the memory at hand. */
static inline void ls_byte_buffer_empty(ls_byte_buffer *buffer)
{
    buffer->length = 0;
    buffer->failed = false;
}

/* Room for so many more bytes at the end; NULL when memory is out. */
char *ls_byte_buffer_room(ls_byte_buffer *buffer, size_t size);
void ls_byte_buffer_put(ls_byte_buffer *buffer, const void *bytes, size_t size);
/* Not for numbers with a point, which is a comma in some locales. */
LS_PRINTF(2, 3) void ls_byte_buffer_print(ls_byte_buffer *buffer, const char *format, ...);
/* A number with so many digits and a point, whatever the locale. */
void ls_byte_buffer_number(ls_byte_buffer *buffer, int digits, double value);
void ls_byte_buffer_free(ls_byte_buffer *buffer);

#endif
