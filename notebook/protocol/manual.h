/* manual.h - the public headers as a manual: the names in them, and what is written about each. */
#ifndef LOCKSTEP_NOTEBOOK_MANUAL_H
#define LOCKSTEP_NOTEBOOK_MANUAL_H

#include "cell/text.h"

typedef void name_fn(const char *name, size_t length, void *user);

/* Every name of the library that occurs in the headers below `include`; some more than once. */
void manual_names(const char *include, name_fn *take, void *user);
/* Append the declaration of a name with the comment above it; nothing if there is none. */
void manual_entry(const char *include, const char *name, size_t length, string *to);

#endif
