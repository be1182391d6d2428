/* definitions.h - what earlier cells defined, as the declarations that a later cell is compiled with.
 *
 * Every version of a variable or function has a symbol of its own (x of cell 3 is c3_x, by an asm label), so that it
 * can be defined again, and is never mistaken for a symbol of a library. Code compiled before a new version keeps using
 * the old one.
 *
 * A definition that changes what a name means (another type, another value of a macro) removes those that were written
 * in terms of it: their layout would be wrong. One that is the same as before replaces the old one in its place. */
#ifndef LOCKSTEP_NOTEBOOK_DEFINITIONS_H
#define LOCKSTEP_NOTEBOOK_DEFINITIONS_H

#include "text.h"

typedef enum definition_kind {
    DEFINITION_DIRECTIVE, /* #include and the like: kept once */
    DEFINITION_MACRO,
    DEFINITION_TYPE,
    DEFINITION_VARIABLE,
    DEFINITION_FUNCTION,
} definition_kind;

typedef struct definition {
    definition_kind kind;
    char *names;  /* separated and surrounded by commas: ",node,struct node,"; "," if it has none */
    char *source; /* tokens, joined: two definitions with the same source mean the same */
    char *code;   /* what to compile it as */
    int cell, line;
} definition;

typedef struct definitions {
    definition *list;
    size_t count;
} definitions;

void definitions_copy(definitions *to, const definitions *from);
void definitions_free(definitions *what);

/* Takes over the strings of `fresh`. Names of removed definitions are appended to `removed`, separated by ", ". */
void definitions_put(definitions *to, definition fresh, string *removed);
void definitions_remove(definitions *from, const char *name);
/* NULL if there is none. Tags are named "struct node". */
const definition *definitions_find(const definitions *in, const char *name, size_t length);

/* "float w[]" is known to have `size` elements once it was compiled. */
void definitions_set_size(definitions *in, const char *name, long long size);

#endif
