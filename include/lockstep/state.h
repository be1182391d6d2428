/* state.h - lists of named tensors: parameters of a module, state of an optimiser, contents of a checkpoint.
 *
 * A list keeps its tensors alive, whatever their scope; names are copied. It belongs to the run and is freed with it.
 * Functions that return a list return NULL after a failure, and every function accepts NULL as the empty list. */
#ifndef LOCKSTEP_STATE_H
#define LOCKSTEP_STATE_H

#include <lockstep/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_state ls_state;

LS_API ls_state *ls_state_new(ls_run *run);
LS_API void ls_state_free(ls_state *state);

/* Append. A duplicate name is an error. */
LS_API void ls_state_add(ls_state *state, const char *name, ls_tensor *tensor);

LS_API int64_t ls_state_count(const ls_state *state);
LS_API const char *ls_state_name(const ls_state *state, int64_t i);  /* NULL if there is no such entry */
LS_API ls_tensor *ls_state_tensor(const ls_state *state, int64_t i); /* the same */
LS_API ls_tensor *ls_state_find(const ls_state *state, const char *name);

/* The entries whose name matches a pattern, as a new list, and those whose name does not. `*` stands for any characters
 * and `|` separates patterns: "*.bias|*norm*". If no pattern matches it is an error that lists the names; if only some
 * match nothing, a warning. */
LS_API ls_state *ls_state_matching(const ls_state *state, const char *patterns);
LS_API ls_state *ls_state_without(const ls_state *state, const char *patterns);

/* A new list with copies of the tensors as they are now. */
LS_API ls_state *ls_state_copy(const ls_state *state);

#ifdef __cplusplus
}
#endif
#endif
