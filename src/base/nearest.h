/* nearest.h - the name that was meant by one that does not exist. */
#ifndef LOCKSTEP_BASE_NEAREST_H
#define LOCKSTEP_BASE_NEAREST_H

#include <stddef.h>
#include <stdint.h>

enum { LS_NEAREST_FEW = 5 };

/* Goes over names: the nearest of those it was shown so far. */
typedef struct ls_nearest {
    const char *text; /* what was given, and how long it is */
    size_t length;
    const char *name; /* NULL: none is near, more than half of the letters differ */
    int distance;
    const char *few[LS_NEAREST_FEW]; /* however far they are, the nearest first */
    int distances[LS_NEAREST_FEW];
    int64_t seen; /* names it was shown */
} ls_nearest;

ls_nearest ls_nearest_to(const char *text, size_t length);
/* Look at one more. Dashes are as good as underscores, capitals as small letters. */
void ls_nearest_try(ls_nearest *nearest, const char *name);
/* The same for a name whose distance is measured in another way. */
void ls_nearest_add(ls_nearest *nearest, const char *name, int distance);
/* The few of all it was shown: "conv1, bn1, fc and 4 more". Returns the text. */
const char *ls_nearest_names(const ls_nearest *nearest, char *text, size_t size);

/* Insertions, deletions and replacements that turn one word into the other; words longer than 63 are never near. */
int ls_word_distance(const char *a, size_t length_a, const char *b, size_t length_b);

#endif
