/* split.h - a cell in parts: what belongs at file scope and stays, and what runs.
 *
 * A part is a directive (an #if with everything up to its #endif), a statement, an expression at the end without a
 * semicolon, whose value is shown, a function, or another declaration. C cannot be divided without knowing its types:
 * the guess is right for what people write, and a compiler complains about the rest.
 *
 *     T x;  T *x = y;     a declaration, unless T is known to be a variable or a function
 *     f(x) { ... }        a statement: a macro that begins a loop */
#ifndef LOCKSTEP_NOTEBOOK_SPLIT_H
#define LOCKSTEP_NOTEBOOK_SPLIT_H

#include "token.h"

typedef enum part_kind {
    PART_DIRECTIVE,
    PART_STATEMENT,
    PART_EXPRESSION,
    PART_FUNCTION,
    PART_DECLARATION,
} part_kind;

typedef struct part {
    part_kind kind;
    size_t begin, end; /* tokens; a declaration includes its semicolon if it has one */
} part;

typedef struct part_list {
    part *parts;
    size_t count;
    bool unfinished; /* the last part lacks its end: a bracket, #endif, the body of a loop */
} part_list;

/* Is this name a variable or a function of the session? */
typedef bool is_value_fn(const char *name, size_t length, const void *user);

part_list split(const token_list *tokens, is_value_fn *is_value, const void *user);
void parts_free(part_list *list);

#endif
