/* home.h - the folder where plug-ins keep what they found out: LOCKSTEP_HOME, or `lockstep` in the user's cache. */
#ifndef LOCKSTEP_PLUGINS_HOME_H
#define LOCKSTEP_PLUGINS_HOME_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* False: there is none, or its name is too long. */
static inline bool home_folder(char *path, size_t size)
{
    const char *own = getenv("LOCKSTEP_HOME"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own && *own) return (size_t)snprintf(path, size, "%s", own) < size;
    if (cache && *cache) return (size_t)snprintf(path, size, "%s/lockstep", cache) < size;
    return home && *home && (size_t)snprintf(path, size, "%s/.cache/lockstep", home) < size;
}

/* Make the folders that a path names before its last '/'; what fails here fails again on opening the file. */
static inline void home_make_folders(const char *path)
{
    char part[4096]; /* more than a path can have */
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part) return;
    for (char *at = strchr(part + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        mkdir(part, 0700);
        *at = '/';
    }
}

#endif
