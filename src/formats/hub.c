/* hub.c - Hugging Face's local cache: HOME/.cache/huggingface/hub/models--ORG--NAME/snapshots/COMMIT/FILE, where
 * refs/main holds the commit that the name stands for. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/formats.h>

#include "base/file.h"
#include "base/memory.h"
#include "formats/hub.h"

static const char *set_value(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* The folder that an environment variable names; "~" is the user's home. */
static bool named_by(const char *variable, const char *inside, char to[LS_HUB_PATH])
{
    const char *value = set_value(variable), *user = set_value("HOME");
    bool from_home = value && value[0] == '~' && (value[1] == '/' || !value[1]) && user;
    if (value)
        snprintf(to, LS_HUB_PATH, "%s%s%s%s", from_home ? user : "", value + from_home, *inside ? "/" : "", inside);
    return value != NULL;
}

void ls_hub_folder(const char *part, char to[LS_HUB_PATH])
{
    bool is_hub = strcmp(part, "hub") == 0;
    char inside[64];
    snprintf(inside, sizeof inside, "huggingface/%s", part);
    if (is_hub && (named_by("HF_HUB_CACHE", "", to) || named_by("HUGGINGFACE_HUB_CACHE", "", to))) return;
    if (!is_hub && named_by("HF_DATASETS_CACHE", "", to)) return;
    if (named_by("HF_HOME", part, to) || named_by("XDG_CACHE_HOME", inside, to)) return;
    snprintf(inside, sizeof inside, ".cache/huggingface/%s", part);
    if (!named_by("HOME", inside, to)) snprintf(to, LS_HUB_PATH, "%s", inside);
}

const char *ls_hub_other_name(const char *kind, const char *id, char to[LS_HUB_PATH])
{
    static const struct {
        const char *kind, *begin, *owner;
    } moved[] = {{"models", "bert-", "google-bert"},
                 {"models", "distilbert-", "distilbert"},
                 {"models", "roberta-", "FacebookAI"},
                 {"datasets", "squad", "rajpurkar"},
                 {"datasets", "glue", "nyu-mll"}};
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
        size_t owner = strlen(moved[i].owner);
        bool owned = strncmp(id, moved[i].owner, owner) == 0 && id[owner] == '/';
        const char *name = owned ? id + owner + 1 : id;
        if (strcmp(kind, moved[i].kind) != 0 || strncmp(name, moved[i].begin, strlen(moved[i].begin)) != 0) continue;
        if (strchr(name, '/')) continue;
        snprintf(to, LS_HUB_PATH, "%s%s%s", owned ? "" : moved[i].owner, owned ? "" : "/", name);
        return to;
    }
    return NULL;
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
    char path[LS_HUB_PATH];
    int length = snprintf(path, sizeof path, "%s/%s", folder, file);
    return length > 0 && (size_t)length < sizeof path && ls_path_kind_of(path) == LS_PATH_FILE;
}

/* The snapshot that refs/main names. */
static bool find_main(const char *repository, const char *file, char *folder, size_t size)
{
    char path[LS_HUB_PATH];
    ls_message why;
    if (snprintf(path, sizeof path, "%s/refs/main", repository) >= LS_HUB_PATH) return false;
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
    char path[LS_HUB_PATH], best[256] = "";
    if (snprintf(path, sizeof path, "%s/snapshots", repository) >= LS_HUB_PATH) return false;
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

/* The folder of a model or dataset in the cache; false if the name is invalid. */
static bool repository_of(const char *kind, const char *id, char to[LS_HUB_PATH])
{
    bool is_model = strcmp(kind, "models") == 0; /* Transformers had a variable of its own */
    if (!is_model || !named_by("TRANSFORMERS_CACHE", "", to)) ls_hub_folder("hub", to);
    size_t used = strlen(to);
    snprintf(to + used, LS_HUB_PATH - used, "/%s--", kind);
    return add_id(id, to, LS_HUB_PATH);
}

bool ls_hub_find(const char *kind, const char *id, const char *file, char *folder, size_t size)
{
    char repository[LS_HUB_PATH], other[LS_HUB_PATH];
    if (!kind || !id || !file || !folder || !size) return false;
    if (holds(id, file) && strlen(id) < size) return strcpy(folder, id), true;
    const char *names[] = {id, ls_hub_other_name(kind, id, other)};
    for (int i = 0; i < 2 && names[i]; i++)
        if (repository_of(kind, names[i], repository) &&
            (find_main(repository, file, folder, size) || find_any(repository, file, folder, size)))
            return true;
    repository_of(kind, id, repository);
    snprintf(folder, size, "%s", repository);
    return false;
}
