/* utf8.h - characters of UTF-8, strictly (no overlong forms, no surrogates, nothing above U+10FFFF), and digits. */
#ifndef LOCKSTEP_BASE_UTF8_H
#define LOCKSTEP_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* 0 .. 15; -1 if it is not a hexadecimal digit. */
static inline int ls_hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Bytes of the character at `text`, which has `room` bytes; 0 if it is not a valid character. */
static inline size_t ls_utf8_length(const char *text, size_t room)
{
    const unsigned char *b = (const unsigned char *)text;
    if (room == 0) return 0;
    if (b[0] < 0x80) return 1;
    size_t length = b[0] < 0xc2 ? 0 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : b[0] < 0xf5 ? 4 : 0;
    if (length == 0 || length > room) return 0;
    for (size_t i = 1; i < length; i++)
        if ((b[i] & 0xc0) != 0x80) return 0;
    if (b[0] == 0xe0 && b[1] < 0xa0) return 0; /* overlong */
    if (b[0] == 0xed && b[1] > 0x9f) return 0; /* surrogate */
    if (b[0] == 0xf0 && b[1] < 0x90) return 0; /* overlong */
    if (b[0] == 0xf4 && b[1] > 0x8f) return 0; /* above U+10FFFF */
    return length;
}

/* Is the whole text UTF-8? */
static inline bool ls_utf8_is_valid(const char *text)
{
    for (size_t left = strlen(text), length; left; text += length, left -= length)
        if (!(length = ls_utf8_length(text, left))) return false;
    return true;
}

/* The number of a character of `length` bytes, as ls_utf8_length() gave it. */
static inline uint32_t ls_utf8_decode(const char *text, size_t length)
{
    const unsigned char *b = (const unsigned char *)text;
    uint32_t code = length == 1 ? b[0] : b[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) code = code << 6 | (b[i] & 0x3fu);
    return code;
}

/* Writes at most four bytes, returns how many. */
static inline size_t ls_utf8_encode(uint32_t code, char *to)
{
    size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length; i-- > 1; code >>= 6) to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(lead[length] | code);
    return length;
}

#endif
