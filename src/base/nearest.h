/* nearest.h - guess which name was meant by one that does not exist. */
#ifndef LOCKSTEP_BASE_NEAREST_H
#define LOCKSTEP_BASE_NEAREST_H

#include <stddef.h>
#include <stdint.h>

enum { LS_NEAREST_FEW = 5 };

/* The nearest of the names tried so far. */
typedef struct ls_nearest {
    const char *text; /* the name given, and its length */
    size_t length;
    const char *name; /* NULL: none is near, that is, more than half of the letters differ */
    int distance;
    const char *few[LS_NEAREST_FEW]; /* at any distance, the nearest first */
    int distances[LS_NEAREST_FEW];
    int64_t seen; /* names tried */
} ls_nearest;

ls_nearest ls_nearest_to(const char *text, size_t length);
/* Try one more. Dashes equal underscores, capitals equal small letters. */
void ls_nearest_try(ls_nearest *nearest, const char *name);
/* The same with a distance computed by the caller. */
void ls_nearest_add(ls_nearest *nearest, const char *name, int distance);
/* The nearest few of all names tried: "conv1, bn1, fc and 4 more". Returns the text. */
const char *ls_nearest_names(const ls_nearest *nearest, char *text, size_t size);

/* Insertions, deletions and replacements that turn one word into the other; words longer than 63 are never near. */
int ls_word_distance(const char *a, size_t length_a, const char *b, size_t length_b);

#endif
