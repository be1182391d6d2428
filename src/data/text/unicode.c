/* unicode.c - characters: decomposition, lower case, decoding of UTF-8 and invalid bytes. */
#include "data/text/unicode.h"

#include "base/utf8.h"
#include "data/text/unicode_tables.inc"

/* The index of `c` in a sorted list that contains it. */
static size_t place_of(uint32_t c, const uint32_t *keys, size_t count)
{
    size_t low = 0;
    while (count > 1) {
        size_t half = count / 2;
        if (keys[low + half] <= c) low += half;
        count -= half;
    }
    return low;
}

static int copy_parts(const uint32_t *pool, size_t begin, size_t end, uint32_t *parts)
{
    for (size_t i = begin; i < end; i++) parts[i - begin] = pool[i];
    return (int)(end - begin);
}

/* Hangul syllables are composed arithmetically: 19 leading consonants, 21 vowels, 27 trailing consonants or none. */
static int decompose_hangul(uint32_t syllable, uint32_t *parts)
{
    parts[0] = 0x1100 + syllable / (21 * 28);
    parts[1] = 0x1161 + syllable / 28 % 21;
    parts[2] = 0x11a7 + syllable % 28;
    return parts[2] == 0x11a7 ? 2 : 3;
}

int ls_char_decompose(uint32_t c, uint32_t parts[LS_CHAR_MAX_PARTS])
{
    parts[0] = c;
    if (c >= 0xac00 && c < 0xac00 + 19 * 21 * 28) return decompose_hangul(c - 0xac00, parts);
    if (!(ls_char_flags(c) & LS_CHAR_DECOMPOSES)) return 1;
    size_t at = place_of(c, decomposed_keys, sizeof decomposed_keys / sizeof *decomposed_keys);
    return copy_parts(decomposed_pool, decomposed_begins[at], decomposed_begins[at + 1], parts);
}

int ls_char_lower(uint32_t c, uint32_t parts[LS_CHAR_MAX_PARTS])
{
    parts[0] = c;
    if (!(ls_char_flags(c) & LS_CHAR_LOWERS)) return 1;
    size_t at = place_of(c, lowered_keys, sizeof lowered_keys / sizeof *lowered_keys);
    return copy_parts(lowered_pool, lowered_begins[at], lowered_begins[at + 1], parts);
}

/* Length of the maximal prefix of a character at `b`; at least 1. */
static size_t broken_length(const unsigned char *b, size_t room)
{
    size_t length = b[0] < 0xc2 ? 1 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : b[0] < 0xf5 ? 4 : 1;
    for (size_t i = 1; i < length; i++) {
        unsigned
            low = 0x80,
            high = 0xbf; /* the second byte also excludes overlong forms, surrogates, and code points beyond the last */
        if (i == 1 && b[0] == 0xe0) low = 0xa0;
        if (i == 1 && b[0] == 0xed) high = 0x9f;
        if (i == 1 && b[0] == 0xf0) low = 0x90;
        if (i == 1 && b[0] == 0xf4) high = 0x8f;
        if (i == room || b[i] < low || b[i] > high) return i;
    }
    return length;
}

size_t ls_char_read(const char *text, size_t room, uint32_t *c)
{
    size_t length = ls_utf8_length(text, room);
    if (length) return *c = ls_utf8_decode(text, length), length;
    *c = 0xfffd;
    return broken_length((const unsigned char *)text, room);
}
