/* token.h - the tokens of C: enough of them to tell declarations from statements, no more. Comments and blanks are not
 * tokens; a directive is one token, with its continued lines. Works on any bytes. */
#ifndef LOCKSTEP_NOTEBOOK_TOKEN_H
#define LOCKSTEP_NOTEBOOK_TOKEN_H

#include "text.h"

typedef enum token_kind {
    TOKEN_END, /* the last of every list, with no bytes */
    TOKEN_NAME,
    TOKEN_NUMBER,
    TOKEN_STRING,
    TOKEN_CHARACTER,
    TOKEN_MARK,      /* an operator with `=` behind it, such as == or +=, or one other character */
    TOKEN_DIRECTIVE, /* from # to the end of the line */
} token_kind;

typedef struct token {
    token_kind kind;
    const char *begin; /* in the text that was read */
    size_t length;
    int line, column; /* from 1, from 0 */
} token;

typedef struct token_list {
    token *tokens;
    size_t count;     /* without TOKEN_END */
    bool unfinished;  /* the text ends inside a comment, a literal or a continued directive */
    int open_comment; /* the line where a comment begins that does not end; 0: there is none */
} token_list;

token_list tokens_read(const char *code, size_t length);
void tokens_free(token_list *list);

bool token_is(const token *t, const char *words);
/* Is it one of these words, which are separated and surrounded by single blanks? */
bool token_among(const token *t, const char *words);

/* The index behind the bracket that closes the one at `open`, or `end` if there is none before it. */
size_t tokens_close(const token *tokens, size_t open, size_t end);
/* Append the tokens with one blank between them: the same for two texts that differ in blanks and comments only. */
void tokens_join(string *to, const token *tokens, size_t begin, size_t end);
/* Append them as they were written. */
void tokens_copy(string *to, const token *tokens, size_t begin, size_t end);

#endif
