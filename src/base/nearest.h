/* nearest.h - the name that was meant by one that does not exist. */
#ifndef LOCKSTEP_BASE_NEAREST_H
#define LOCKSTEP_BASE_NEAREST_H

#include <stddef.h>
#include <stdint.h>

/* Goes over names: the nearest of those it was shown so far. All zero but the text is a valid start. */
typedef struct ls_nearest {
    const char *text; /* what was given, and how long it is */
    size_t length;
    const char *name; /* NULL: none is near, more than half of the letters differ */
    int distance;
} ls_nearest;

ls_nearest ls_nearest_to(const char *text, size_t length);
/* Look at one more. Dashes are as good as underscores, capitals as small letters. */
void ls_nearest_try(ls_nearest *nearest, const char *name);

/* Insertions, deletions and replacements that turn one word into the other; words longer than 63 are never near. */
int ls_word_distance(const char *a, size_t length_a, const char *b, size_t length_b);

#endif
