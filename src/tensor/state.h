/* state.h - definition of a list of named tensors. */
#ifndef LOCKSTEP_TENSOR_STATE_H
#define LOCKSTEP_TENSOR_STATE_H

#include <lockstep/state.h>

#include "tensor/context.h"

typedef struct ls_state_entry {
    char *name;        /* owned by the list */
    ls_tensor *tensor; /* one reference */
} ls_state_entry;

struct ls_state {
    ls_object object;
    int64_t count, capacity;
    ls_state_entry *entries;
};

/* Append without checking for a duplicate name; the caller calls ls_state_check_names() at the end. False (and an
 * error): out of memory; a name occurs twice. */
bool ls_state_append(ls_state *state, const char *name, ls_tensor *tensor);
bool ls_state_check_names(const ls_state *state);

/* Which of the patterns of ls_state_matching() match a name: bit i for pattern i, the last bit for all from 63 on. */
uint64_t ls_name_matches(const char *patterns, const char *name);
/* Write the patterns whose bit is not set, as "fc.*|*.gamma", to `text` and return it. */
char *ls_patterns_unmatched(const char *patterns, uint64_t matched, char *text, size_t size);
/* Warn about patterns that match nothing in a list, mostly misspelt ones: `lead "fc.*"; there are ...`. */
void ls_warn_unmatched(const ls_state *state, const char *patterns, const char *lead);
/* How far a name is from the letters of the nearest pattern, for messages about patterns that match nothing. */
int ls_name_distance(const char *patterns, const char *name);

/* For lists that are rebuilt: set entry i (at most the count). If it is unchanged the entries after it are kept, so
 * that names stay where they are. False when out of memory. */
bool ls_state_refresh(ls_state *state, int64_t i, const char *name, ls_tensor *tensor);
void ls_state_truncate(ls_state *state, int64_t count);

#endif
