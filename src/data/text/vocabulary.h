/* vocabulary.h - the tokens of a model: texts by number, and numbers by text. */
#ifndef LOCKSTEP_DATA_TEXT_VOCABULARY_H
#define LOCKSTEP_DATA_TEXT_VOCABULARY_H

#include <lockstep/base.h>

#include "base/arena.h"
#include "data/text/trie.h"

/* Tokens of a vocabulary at most, several times what the largest have: an empty line of a file is one byte, and a token
 * takes fifty. */
enum { LS_MOST_TOKENS = 1 << 22 };

typedef struct ls_token_text {
    const char *text; /* zero-terminated; NULL: no token has this number */
    size_t length;
} ls_token_text;

/* Filled by ls_vocabulary_add(), closed by ls_vocabulary_close(), constant from then on. All zero is empty. */
typedef struct ls_vocabulary {
    ls_token_text *tokens;
    int64_t count, room; /* numbers are 0 .. count-1 */
    ls_trie trie;
    ls_arena texts;
} ls_vocabulary;

/* The token `id`, which may lie behind the others; false when memory is out. The text is copied. */
bool ls_vocabulary_add(ls_vocabulary *vocabulary, int64_t id, const char *text, size_t length);
/* Make the trie. Of two tokens with one text the last one stays, as in Hugging Face's files. */
bool ls_vocabulary_close(ls_vocabulary *vocabulary);
/* The number of a token, -1 for a text that is none; only of a closed vocabulary. */
int32_t ls_vocabulary_find(const ls_vocabulary *vocabulary, const char *text, size_t length);
void ls_vocabulary_free(ls_vocabulary *vocabulary);

/* The lines of a vocab.txt: the token on line n has the number n, from 0. Blanks at line ends do not count. */
ls_status ls_vocabulary_read(ls_vocabulary *vocabulary, const char *text, size_t length, ls_message *why);

#endif
