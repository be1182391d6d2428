/* environment.h - environments as values: "NAME=value" lists that are read, copied and extended without getenv. */
#ifndef LOCKSTEP_LAUNCH_ENVIRONMENT_H
#define LOCKSTEP_LAUNCH_ENVIRONMENT_H

#include <lockstep/base.h>

/* The value of `name` in a list that ends with NULL; NULL when it is not there. */
const char *ls_environment_get(const char *const *entries, const char *name);
/* Its value as a whole number in [least, most]; `fallback` when it is missing or is not such a number. */
int ls_environment_integer(const char *const *entries, const char *name, int least, int most, int fallback);

/* A list of one's own. All zero is an empty one. After memory ran out, calls do nothing and `failed` is true. */
typedef struct ls_environment {
    char **entry; /* ends with NULL; itself NULL while nothing was added */
    size_t count, room;
    bool failed;
} ls_environment;

void ls_environment_add_all(ls_environment *to, const char *const *entries); /* each replaces one of the same name */
LS_PRINTF(3, 4) void ls_environment_set(ls_environment *to, const char *name, const char *format, ...);
void ls_environment_unset(ls_environment *from, const char *name);
void ls_environment_free(ls_environment *environment);

#endif
