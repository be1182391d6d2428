/* unicode.h - what BERT's tokenizer asks about a character. The tables answer as Hugging Face's tokenizers does,
 * character by character; tools/gen_unicode.py makes them. */
#ifndef LOCKSTEP_DATA_TEXT_UNICODE_H
#define LOCKSTEP_DATA_TEXT_UNICODE_H

#include <stddef.h>
#include <stdint.h>

/* In the order of tools/gen_unicode.py. */
enum {
    LS_CHAR_DROP = 1 << 0,       /* cleaning removes it: control characters and their like */
    LS_CHAR_BLANK = 1 << 1,      /* cleaning makes a blank of it */
    LS_CHAR_SPACE = 1 << 2,      /* words end here */
    LS_CHAR_PUNCT = 1 << 3,      /* a word of its own */
    LS_CHAR_CJK = 1 << 4,        /* a word of its own where Chinese is split */
    LS_CHAR_MARK = 1 << 5,       /* an accent, which stripping removes */
    LS_CHAR_DECOMPOSES = 1 << 6, /* NFD makes several characters, or another one, of it */
    LS_CHAR_LOWERS = 1 << 7,     /* is not lower case */
    LS_CHAR_WORD = 1 << 8,       /* a letter or digit, as Python's isalnum() has it */
};

enum { LS_CHAR_MAX_PARTS = 4 }; /* of a decomposed or lower-cased character */

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

/* The canonical combining class: marks that follow each other are sorted by it, stably; 0 ends a run. */
static inline unsigned ls_char_class(uint32_t c)
{
    return ls_char_kind_class[ls_char_kind(c)];
}

/* The canonical decomposition in full, also of Hangul syllables, and the lower case; returns the number of characters,
 * which is 1 (the same) where there is nothing to do. */
int ls_char_decompose(uint32_t c, uint32_t parts[LS_CHAR_MAX_PARTS]);
int ls_char_lower(uint32_t c, uint32_t parts[LS_CHAR_MAX_PARTS]);

/* Read the character at `text`, of which `room` > 0 bytes are there; returns how many bytes it takes. What is not UTF-8
 * is U+FFFD, once for each longest beginning of a character, as Python's decode(errors="replace") has it. */
size_t ls_char_read(const char *text, size_t room, uint32_t *c);

#endif
