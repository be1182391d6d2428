/* hub.c - Hugging Face's local cache: HOME/.cache/huggingface/hub/models--ORG--NAME/snapshots/COMMIT/FILE, where
 * refs/main holds the commit that the name stands for. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/formats.h>

#include "base/file.h"
#include "base/memory.h"

static const char *set_value(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* The cache that the hub's own tools would use. */
static void cache_folder(char *to, size_t size)
{
    const char *hub = set_value("HF_HUB_CACHE"), *home = set_value("HF_HOME"), *cache = set_value("XDG_CACHE_HOME");
    if (!hub) hub = set_value("HUGGINGFACE_HUB_CACHE");
    const char *user = set_value("HOME");
    if (hub) snprintf(to, size, "%s", hub);
    else if (home) snprintf(to, size, "%s/hub", home);
    else if (cache) snprintf(to, size, "%s/huggingface/hub", cache);
    else snprintf(to, size, "%s/.cache/huggingface/hub", user ? user : ".");
}

/* Append "org/name" as "org--name" to `to`; false if it cannot be an id. */
static bool add_id(const char *id, char *to, size_t size)
{
    size_t used = strlen(to), slashes = 0;
    for (const char *c = id; *c; c++) {
        slashes += *c == '/';
        int wrote = snprintf(to + used, size - used, "%s", *c == '/' ? "--" : (char[2]){*c, 0});
        used += (size_t)wrote;
        if (used + 1 >= size) return false;
    }
    return *id && *id != '/' && *id != '.' && slashes <= 1;
}

static bool holds(const char *folder, const char *file)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder, file);
    return length > 0 && (size_t)length < sizeof path && ls_path_kind_of(path) == LS_PATH_FILE;
}

/* The snapshot that refs/main names. */
static bool find_main(const char *repository, const char *file, char *folder, size_t size)
{
    char path[4096];
    ls_message why;
    snprintf(path, sizeof path, "%s/refs/main", repository);
    size_t length = 0;
    char *commit = ls_file_read(path, 256, &length, &why);
    if (!commit) return false;
    commit[strcspn(commit, " \r\n")] = 0;
    int wrote = snprintf(folder, size, "%s/snapshots/%s", repository, commit);
    bool plain = *commit && !strchr(commit, '/') && *commit != '.';
    ls_sys_free(commit);
    return plain && wrote > 0 && (size_t)wrote < size && holds(folder, file);
}

/* Any snapshot that has the file; the last by name, so that all processes find the same. */
static bool find_any(const char *repository, const char *file, char *folder, size_t size)
{
    char path[4096], best[256] = "";
    snprintf(path, sizeof path, "%s/snapshots", repository);
    DIR *snapshots = opendir(path);
    if (!snapshots) return false;
    for (struct dirent *entry; (entry = readdir(snapshots));) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, best) <= 0) continue;
        int wrote = snprintf(folder, size, "%s/%s", path, entry->d_name);
        if (wrote > 0 && (size_t)wrote < size && holds(folder, file)) snprintf(best, sizeof best, "%s", entry->d_name);
    }
    closedir(snapshots);
    int wrote = snprintf(folder, size, "%s/%s", path, best);
    return *best && wrote > 0 && (size_t)wrote < size;
}

bool ls_hub_find(const char *kind, const char *id, const char *file, char *folder, size_t size)
{
    char repository[2048];
    if (!kind || !id || !file || !folder || !size) return false;
    if (holds(id, file) && strlen(id) < size) return strcpy(folder, id), true;
    cache_folder(repository, sizeof repository);
    size_t used = strlen(repository);
    snprintf(repository + used, sizeof repository - used, "/%s--", kind);
    if (add_id(id, repository, sizeof repository) &&
        (find_main(repository, file, folder, size) || find_any(repository, file, folder, size)))
        return true;
    snprintf(folder, size, "%s", repository);
    return false;
}
