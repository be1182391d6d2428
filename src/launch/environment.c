/* environment.c - lists of "NAME=value". */
#include "launch/environment.h"

#include "base/memory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_of(const char *entry, const char *name, size_t length)
{
    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

const char *ls_environment_get(const char *const *entries, const char *name)
{
    size_t length = strlen(name);
    for (; entries && *entries; entries++)
        if (is_of(*entries, name, length)) return *entries + length + 1;
    return NULL;
}

int ls_environment_integer(const char *const *entries, const char *name, int least, int most, int fallback)
{
    const char *text = ls_environment_get(entries, name);
    if (!text || !*text) return fallback;
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    return *end == '\0' && errno == 0 && value >= least && value <= most ? (int)value : fallback;
}

bool ls_environment_switch(const char *const *entries, const char *name)
{
    static const char *const words[] = {"y", "yes", "t", "true", "on", "1"};
    const char *text = ls_environment_get(entries, name);
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0) return true;
    return false;
}

/* Takes `entry` over, also on failure. */
static void put(ls_environment *to, char *entry)
{
    size_t length = entry ? strcspn(entry, "=") : 0;
    for (size_t i = 0; entry && i < to->count; i++) {
        if (!is_of(to->entry[i], entry, length)) continue;
        ls_sys_free(to->entry[i]);
        to->entry[i] = entry;
        return;
    }
    if (entry && to->count + 2 > to->room) {
        size_t room = to->room ? 2 * to->room : 64;
        char **larger = ls_sys_realloc(to->entry, room * sizeof *larger);
        if (larger) {
            to->entry = larger;
            to->room = room;
        }
    }
    if (!entry || to->count + 2 > to->room) {
        to->failed = true;
        ls_sys_free(entry);
        return;
    }
    to->entry[to->count++] = entry;
    to->entry[to->count] = NULL;
}

void ls_environment_add_all(ls_environment *to, const char *const *entries)
{
    for (; entries && *entries && !to->failed; entries++) {
        size_t size = strlen(*entries) + 1;
        char *entry = ls_sys_alloc(size);
        if (entry) memcpy(entry, *entries, size);
        put(to, entry);
    }
}

void ls_environment_set(ls_environment *to, const char *name, const char *format, ...)
{
    if (to->failed) return;
    va_list args;
    va_start(args, format);
    int value = vsnprintf(NULL, 0, format, args);
    va_end(args);
    size_t lead = strlen(name) + 1, size = lead + (size_t)value + 1;
    char *entry = ls_sys_alloc(size);
    if (entry) {
        snprintf(entry, lead + 1, "%s=", name);
        va_start(args, format);
        vsnprintf(entry + lead, size - lead, format, args);
        va_end(args);
    }
    put(to, entry);
}

void ls_environment_unset(ls_environment *from, const char *name)
{
    size_t length = strlen(name), kept = 0;
    for (size_t i = 0; i < from->count; i++) {
        if (is_of(from->entry[i], name, length)) ls_sys_free(from->entry[i]);
        else from->entry[kept++] = from->entry[i];
    }
    from->count = kept;
    if (from->entry) from->entry[kept] = NULL;
}

void ls_environment_free(ls_environment *environment)
{
    for (size_t i = 0; i < environment->count; i++) ls_sys_free(environment->entry[i]);
    ls_sys_free(environment->entry);
    memset(environment, 0, sizeof *environment);
}
