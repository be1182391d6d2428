/* variables.h - environment variables, read as the library does, which has warned of values that it ignores. */
#ifndef LOCKSTEP_PLUGINS_VARIABLES_H
#define LOCKSTEP_PLUGINS_VARIABLES_H

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <strings.h>

/* Off without a value, and with one that is no switch. */
static inline bool variable_is_on(const char *name)
{
    static const char *const words[] = {"1", "yes", "on", "true", "y", "t"};
    const char *text = getenv(name);
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0) return true;
    return false;
}

/* `fallback` without a value, and with one that is no whole number. */
static inline int64_t variable_count(const char *name, int64_t fallback)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !isdigit((unsigned char)*text)) return fallback;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    return *end || errno ? fallback : number;
}

#endif
