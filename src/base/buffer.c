/* buffer.c - a byte buffer that grows by doubling. */
#include "base/buffer.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

char *ls_byte_buffer_room(ls_byte_buffer *buffer, size_t size)
{
    if (buffer->failed) return NULL;
    if (buffer->capacity - buffer->length < size) {
        size_t capacity = buffer->capacity ? buffer->capacity * 2 : 256;
        while (capacity - buffer->length < size) capacity *= 2;
        char *grown = ls_sys_realloc(buffer->bytes, capacity);
        buffer->failed = !grown;
        if (!grown) return NULL;
        buffer->bytes = grown;
        buffer->capacity = capacity;
    }
    return buffer->bytes + buffer->length;
}

void ls_byte_buffer_put(ls_byte_buffer *buffer, const void *bytes, size_t size)
{
    if (size == 0) return;
    char *room = ls_byte_buffer_room(buffer, size);
    if (!room) return;
    memcpy(room, bytes, size);
    buffer->length += size;
}

void ls_byte_buffer_put_utf8(ls_byte_buffer *buffer, const char *text)
{
    for (size_t left = strlen(text), length; left; text += length, left -= length) {
        length = ls_utf8_length(text, left);
        if (length) ls_byte_buffer_put(buffer, text, length);
        else ls_byte_buffer_put(buffer, "\xef\xbf\xbd", 3), length = 1;
    }
}

void ls_byte_buffer_print(ls_byte_buffer *buffer, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *room = length > 0 ? ls_byte_buffer_room(buffer, (size_t)length + 1) : NULL;
    if (room) {
        vsnprintf(room, (size_t)length + 1, format, again);
        buffer->length += (size_t)length;
    }
    va_end(again);
    va_end(args);
}

void ls_byte_buffer_number(ls_byte_buffer *buffer, int digits, double value)
{
    char text[64];
    snprintf(text, sizeof text, "%.*g", digits, value);
    const char *point = localeconv()->decimal_point;
    char *at = strstr(text, point);
    ls_byte_buffer_put(buffer, text, at ? (size_t)(at - text) : strlen(text));
    if (!at) return;
    ls_byte_buffer_put(buffer, ".", 1);
    at += strlen(point);
    ls_byte_buffer_put(buffer, at, strlen(at));
}

void ls_byte_buffer_free(ls_byte_buffer *buffer)
{
    ls_sys_free(buffer->bytes);
    *buffer = (ls_byte_buffer){0};
}
