/* vocabulary.h - the tokens of a model: texts by number, and numbers by text. */
#ifndef LOCKSTEP_DATA_TEXT_VOCABULARY_H
#define LOCKSTEP_DATA_TEXT_VOCABULARY_H

#include <lockstep/base.h>

#include "base/arena.h"
#include "data/text/trie.h"

/* Most tokens of a vocabulary, several times those of the largest: an empty line of a file is one byte, but a token
 * takes fifty. */
enum { LS_MOST_TOKENS = 1 << 22 };

typedef struct ls_token_text {
    const char *text; /* zero-terminated; NULL: unused number */
    size_t length;
} ls_token_text;

/* Filled by ls_vocabulary_add(), closed by ls_vocabulary_close(), constant from then on. All zero is empty. */
typedef struct ls_vocabulary {
    ls_token_text *tokens;
    int64_t count, room; /* numbers are 0 .. count-1 */
    ls_trie trie;
    ls_arena texts;
} ls_vocabulary;

/* Add token `id`, which may be beyond the current ones; false if out of memory. The text is copied. */
bool ls_vocabulary_add(ls_vocabulary *vocabulary, int64_t id, const char *text, size_t length);
/* Build the trie. Of two tokens with the same text the last one is used, as in Hugging Face's files. */
bool ls_vocabulary_close(ls_vocabulary *vocabulary);
/* The number of a token, -1 if the text is not a token; only of a closed vocabulary. */
int32_t ls_vocabulary_find(const ls_vocabulary *vocabulary, const char *text, size_t length);
void ls_vocabulary_free(ls_vocabulary *vocabulary);

/* The lines of a vocab.txt: the token on line n has the number n, from 0. Trailing blanks are ignored. */
ls_status ls_vocabulary_read(ls_vocabulary *vocabulary, const char *text, size_t length, ls_message *why);

#endif
