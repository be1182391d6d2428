/* names.h - names of operators in a text of fixed size, as ls_device_counts has one. */
#ifndef LOCKSTEP_PLUGINS_NAMES_H
#define LOCKSTEP_PLUGINS_NAMES_H

#include <stdio.h>
#include <string.h>

/* Append a name, with a space between it and the others. One that does not fit as a whole is left out. */
static inline void names_add(char *names, size_t size, const char *name)
{
    size_t used = strlen(names);
    if (used + (used > 0) + strlen(name) < size) snprintf(names + used, size - used, "%s%s", used ? " " : "", name);
}

#endif
