/* environment.h - environments as values: "NAME=value" lists, read, copied and extended without getenv. */
#ifndef LOCKSTEP_LAUNCH_ENVIRONMENT_H
#define LOCKSTEP_LAUNCH_ENVIRONMENT_H

#include <lockstep/base.h>

/* The value of `name` in a list that ends with NULL; NULL if missing. */
const char *ls_environment_get(const char *const *entries, const char *name);
/* Its value as a whole number in [least, most]; `fallback` if it is missing or not such a number. */
int ls_environment_integer(const char *const *entries, const char *name, int least, int most, int fallback);

/* Is it on: y, yes, t, true, on or 1? */
bool ls_environment_switch(const char *const *entries, const char *name);

/* A list owned by the caller. All zero is empty. Once out of memory, calls do nothing and `failed` is true. */
typedef struct ls_environment {
    char **entry; /* ends with NULL; NULL while empty */
    size_t count, room;
    bool failed;
} ls_environment;

void ls_environment_add_all(ls_environment *to, const char *const *entries); /* replaces entries of the same name */
LS_PRINTF(3, 4) void ls_environment_set(ls_environment *to, const char *name, const char *format, ...);
void ls_environment_unset(ls_environment *from, const char *name);
void ls_environment_free(ls_environment *environment);

#endif
