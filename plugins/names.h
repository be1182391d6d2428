/* names.h - names of operators in a text of fixed size, as ls_device_counts has one. */
#ifndef LOCKSTEP_PLUGINS_NAMES_H
#define LOCKSTEP_PLUGINS_NAMES_H

#include <string.h>

/* Append a name, with a space between it and the others. One that does not fit as a whole is left out. */
static inline void names_add(char *names, size_t size, const char *name)
{
    size_t used = strlen(names), length = strlen(name);
    if (used + (used > 0) + length >= size) return;
    if (used) names[used++] = ' ';
    memcpy(names + used, name, length + 1);
}

#endif
