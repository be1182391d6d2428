/* added.h - tokens that are found in the text as it is, before it is split into words: the leftmost match, and of those
 * the longest. */
#ifndef LOCKSTEP_DATA_TEXT_ADDED_H
#define LOCKSTEP_DATA_TEXT_ADDED_H

#include "data/text/prepare.h"

typedef struct ls_added_match {
    int64_t token;    /* index of the added token */
    int64_t from, to; /* including the white space it absorbs; bytes or characters */
    int64_t scanned;  /* where the search continues */
} ls_added_match;

/* Build the set of added tokens that are searched in the prepared text, or in the raw one. */
bool ls_added_set_build(ls_tokenizer *tokenizer, bool prepared);
void ls_added_set_free(ls_added_set *set);

/* The next added token in a raw text, after the match `m` (all zero: the first). Text before `done` is taken; a token
 * that begins with white space absorbed by the previous token still begins there, as in the reference. */
bool ls_added_find(const ls_tokenizer *tokenizer, const char *text, int64_t length, int64_t done, ls_added_match *m);
/* The same for prepared characters. */
bool ls_added_find_prepared(const ls_tokenizer *tokenizer, const ls_prepared_char *chars, int64_t count, int64_t done,
                            ls_added_match *m);

#endif
