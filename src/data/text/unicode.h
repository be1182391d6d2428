/* unicode.h - character properties for BERT's tokenizer. The tables agree with Hugging Face's tokenizers character by
 * character; tools/gen_unicode.py generates them. */
#ifndef LOCKSTEP_DATA_TEXT_UNICODE_H
#define LOCKSTEP_DATA_TEXT_UNICODE_H

#include <stddef.h>
#include <stdint.h>

/* In the order of tools/gen_unicode.py. */
enum {
    LS_CHAR_DROP = 1 << 0,       /* removed by cleaning: control characters and the like */
    LS_CHAR_BLANK = 1 << 1,      /* replaced by a blank in cleaning */
    LS_CHAR_SPACE = 1 << 2,      /* separates words */
    LS_CHAR_PUNCT = 1 << 3,      /* a word of its own */
    LS_CHAR_CJK = 1 << 4,        /* a word of its own if Chinese is split */
    LS_CHAR_MARK = 1 << 5,       /* an accent, removed by stripping */
    LS_CHAR_DECOMPOSES = 1 << 6, /* changed by NFD */
    LS_CHAR_LOWERS = 1 << 7,     /* changed by lower-casing */
    LS_CHAR_WORD = 1 << 8,       /* a letter or digit, as in Python's isalnum() */
};

enum { LS_CHAR_MAX_PARTS = 4 }; /* characters of a decomposed or lower-cased character */

extern const uint16_t ls_char_kind_flags[];
extern const uint8_t ls_char_kind_class[], ls_char_stage[], ls_char_blocks[];

static inline unsigned ls_char_kind(uint32_t c)
{
    return ls_char_blocks[(size_t)ls_char_stage[c >> 7] << 7 | (c & 127)];
}

static inline unsigned ls_char_flags(uint32_t c)
{
    return ls_char_kind_flags[ls_char_kind(c)];
}

/* The canonical combining class: consecutive marks are sorted by it, stably; 0 ends a run. */
static inline unsigned ls_char_class(uint32_t c)
{
    return ls_char_kind_class[ls_char_kind(c)];
}

/* The full canonical decomposition, including Hangul syllables, and the lower case; returns the number of characters, 1
 * (the same) if nothing changes. */
int ls_char_decompose(uint32_t c, uint32_t parts[LS_CHAR_MAX_PARTS]);
int ls_char_lower(uint32_t c, uint32_t parts[LS_CHAR_MAX_PARTS]);

/* Read the character at `text`, where `room` > 0 bytes are available; returns its number of bytes. Invalid UTF-8 gives
 * U+FFFD for each maximal prefix of a character, as in Python's decode(errors="replace"). */
size_t ls_char_read(const char *text, size_t room, uint32_t *c);

#endif
