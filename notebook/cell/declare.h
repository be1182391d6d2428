/* declare.h - a declaration in pieces: its type, and what it declares.
 *
 *     static const float *w = f(1), table[3];      specifiers  const float
 *                                                  declarators * w  (name w, initialiser f(1)),  table[3]
 *
 * All positions are indices of tokens. */
#ifndef LOCKSTEP_NOTEBOOK_DECLARE_H
#define LOCKSTEP_NOTEBOOK_DECLARE_H

#include "split.h"

typedef struct declarator {
    size_t begin, end;             /* without attributes behind it, and without the initialiser */
    size_t attributes_end;         /* attributes are from `end` to here */
    size_t name;                   /* the token, or `end` if it has none */
    size_t value_begin, value_end; /* the initialiser */
    bool has_value;                /* it has an initialiser, perhaps an empty one, which is not C */
    bool is_function;              /* f(...), not a pointer to a function */
    size_t unsized;                /* the [ of an array whose size is not given; 0 for all others */
} declarator;

typedef struct declaration_pieces {
    size_t begin, declarators_begin, end; /* end: without the semicolon, or at the body of a function */
    bool is_typedef, is_extern;
    bool has_tag;               /* the type is a struct, union or enum */
    size_t tag_word, tag_name;  /* that word, and its tag; equal if it has no tag */
    size_t tag_open, tag_close; /* { and behind }; equal if it has no body */
    declarator *declarators;
    size_t count;
} declaration_pieces;

declaration_pieces declaration_read(const token *tokens, part p);
void declaration_free(declaration_pieces *pieces);

/* Words such as static, which say where a thing is stored: a session stores it in its own way. */
bool is_storage_word(const token *t);
/* Append the type without those words. */
void specifiers_join(string *to, const token *tokens, const declaration_pieces *pieces);

#endif
