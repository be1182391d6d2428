/* prepare.h - the slow way of preparing a text: cleaned, decomposed, stripped of accents, in lower case, and for every
 * character the place in the text that it comes from. */
#ifndef LOCKSTEP_DATA_TEXT_PREPARE_H
#define LOCKSTEP_DATA_TEXT_PREPARE_H

#include "data/text/tokenizer.h"

typedef struct ls_prepared_char {
    uint32_t code;
    int32_t from, to; /* its place, in bytes or characters */
} ls_prepared_char;

typedef struct ls_prepared_text {
    ls_prepared_char *chars;
    int64_t count, room;
} ls_prepared_text;

typedef struct ls_preparation {
    ls_prepared_text text;   /* the result */
    ls_prepared_text before; /* what the step in progress reads */
} ls_preparation;

/* Prepare the bytes at `text`, whose first has the place `place`. Places count characters or bytes. Returns the place
 * behind them; -1 when memory is out. */
int64_t ls_text_prepare(ls_preparation *preparation, ls_text_rules rules, const char *text, size_t length,
                        int64_t place, bool characters);
void ls_preparation_free(ls_preparation *preparation);

#endif
