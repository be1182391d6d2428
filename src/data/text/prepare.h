/* prepare.h - full text preparation: cleaned, decomposed, stripped of accents, lower-cased, with the offset in the text
 * that every character comes from. */
#ifndef LOCKSTEP_DATA_TEXT_PREPARE_H
#define LOCKSTEP_DATA_TEXT_PREPARE_H

#include "data/text/tokenizer.h"

typedef struct ls_prepared_char {
    uint32_t code;
    int32_t from, to; /* its offsets, in bytes or characters */
} ls_prepared_char;

typedef struct ls_prepared_text {
    ls_prepared_char *chars;
    int64_t count, room;
} ls_prepared_text;

typedef struct ls_preparation {
    ls_prepared_text text;   /* the result */
    ls_prepared_text before; /* the input of the current step */
} ls_preparation;

/* Prepare the bytes at `text`, the first of which has the offset `place`. Offsets count characters or bytes. Returns
 * the offset after them; -1 if out of memory. */
int64_t ls_text_prepare(ls_preparation *preparation, ls_text_rules rules, const char *text, size_t length,
                        int64_t place, bool characters);
void ls_preparation_free(ls_preparation *preparation);

#endif
