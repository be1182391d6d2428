/* text.c - growing text. */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static void *checked(void *block)
{
    if (block) return block;
    fputs("lockstep-kernel: out of memory\n", stderr);
    exit(1);
}

void *must_alloc(size_t bytes)
{
    return checked(ls_sys_alloc(bytes ? bytes : 1));
}

void *must_grow(void *list, size_t count, size_t element)
{
    if (count & (count - 1)) return list; /* capacity is a power of two, or the list is empty */
    return checked(ls_sys_realloc(list, (count ? 2 * count : 1) * element));
}

char *copy_bytes(const char *bytes, size_t length)
{
    char *copy = must_alloc(length + 1);
    if (length) memcpy(copy, bytes, length);
    return copy;
}

char *copy_text(const char *words)
{
    return copy_bytes(words, strlen(words));
}

static void make_room(string *to, size_t length)
{
    size_t needed = to->length + length + 1;
    if (needed <= to->capacity) return;
    size_t capacity = to->capacity ? to->capacity : 64;
    while (capacity < needed) capacity *= 2;
    to->bytes = checked(ls_sys_realloc(to->bytes, capacity));
    to->capacity = capacity;
}

void text_put(string *to, const char *bytes, size_t length)
{
    make_room(to, length);
    if (length) memcpy(to->bytes + to->length, bytes, length);
    to->length += length;
    to->bytes[to->length] = '\0';
}

void text_add(string *to, const char *words)
{
    text_put(to, words, strlen(words));
}

void text_print(string *to, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length > 0) {
        make_room(to, (size_t)length);
        vsnprintf(to->bytes + to->length, (size_t)length + 1, format, again);
        to->length += (size_t)length;
    }
    va_end(again);
    va_end(args);
}

const char *text_view(const string *from)
{
    return from->bytes ? from->bytes : "";
}

void text_clear(string *what)
{
    what->length = 0;
    if (what->bytes) what->bytes[0] = '\0';
}

void text_free(string *what)
{
    ls_sys_free(what->bytes);
    *what = (string){0};
}
