/* hub_split.c - the cache of Hugging Face's `datasets`: DATASETS/OWNER___NAME/CONFIG/VERSION/HASH/NAME-SPLIT.arrow, or
 * NAME-SPLIT-00000-of-00004.arrow and so on. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <lockstep/formats.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "formats/hub.h"

enum { CONFIG, VERSION, HASH, FOLDER_LEVELS, LONGEST_NAME = 256, LARGEST_JSON = 64 << 20 };

typedef struct search {
    const ls_hub_split *which;
    char prefix[LONGEST_NAME]; /* of its file names: "squad-train" */
    char config[LONGEST_NAME]; /* of the latest one found; "": none */
    char other[LONGEST_NAME];  /* another configuration that has the split as well; "": none */
    struct timespec made;
    char path[LS_HUB_PATH]; /* of the file that was found */
} search;

/* Is it the whole file, or its first part? */
static bool is_first_part(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0) return false;
    int end = 0;
    sscanf(name + length, "-00000-of-%*5u.arrow%n", &end);
    return strcmp(name + length, ".arrow") == 0 || (end && !name[length + (size_t)end]);
}

static bool find_file(const char *folder, const char *prefix, char to[LS_HUB_PATH])
{
    DIR *files = opendir(folder);
    bool found = false;
    for (struct dirent *entry; files && !found && (entry = readdir(files));)
        if (is_first_part(entry->d_name, prefix))
            found = snprintf(to, LS_HUB_PATH, "%s/%s", folder, entry->d_name) < LS_HUB_PATH;
    if (files) closedir(files);
    return found;
}

/* ---- save_to_disk() ---- */

/* A small JSON file of a folder. NULL: it is not there, or *why says what is wrong with it. */
static ls_json *read_json(const char *folder, const char *name, ls_message *why)
{
    char path[LS_HUB_PATH];
    size_t size;
    ls_message cause = {{0}};
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= LS_HUB_PATH || ls_path_kind_of(path) != LS_PATH_FILE)
        return NULL;
    char *text = ls_file_read(path, LARGEST_JSON, &size, why);
    ls_json *root = text ? ls_json_read(text, size, &cause) : NULL;
    if (text && !root) ls_message_set(why, "%s: %s", path, cause.text);
    ls_sys_free(text);
    return root;
}

/* The first file of a folder that save_to_disk() made: state.json lists those of the latest save, and others may be
 * left over from earlier ones. "" in `to`: it is not such a folder. */
static ls_status find_saved(const char *folder, char to[LS_HUB_PATH], ls_message *why)
{
    *to = 0;
    ls_message cause = {{0}};
    ls_json *state = read_json(folder, "state.json", &cause);
    if (*cause.text) return ls_explain(why, LS_ERR_IO, "%s", cause.text);
    if (!state) return find_file(folder, "data", to), LS_OK;
    const ls_json *files = ls_json_get(state, "_data_files");
    const char *first = ls_json_text(ls_json_get(ls_json_first(files), "filename"));
    bool sound =
        first && *first && !strchr(first, '/') && snprintf(to, LS_HUB_PATH, "%s/%s", folder, first) < LS_HUB_PATH;
    ls_json_free(state);
    return sound ? LS_OK : ls_explain(why, LS_ERR_IO, "%s/state.json: it lists no _data_files", folder);
}

/* ---- load_dataset() ---- */

static bool is_later(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* Use the file of a folder if it is the latest; of two equally old ones the last by name, so that all processes find
 * the same. */
static void consider(search *s, const char *folder, const char *config)
{
    char path[LS_HUB_PATH];
    struct stat status;
    if (!find_file(folder, s->prefix, path) || stat(folder, &status) != 0) return;
    bool wins = !*s->path || is_later(&status.st_mtim, &s->made) ||
                (!is_later(&s->made, &status.st_mtim) && strcmp(path, s->path) > 0);
    if (*s->config && strcmp(config, s->config) != 0)
        snprintf(s->other, sizeof s->other, "%s", wins ? s->config : config);
    if (!wins) return;
    s->made = status.st_mtim;
    snprintf(s->config, sizeof s->config, "%s", config);
    snprintf(s->path, sizeof s->path, "%s", path);
}

static void look_in(search *s, const char *folder, int level, const char *config)
{
    if (level == FOLDER_LEVELS) {
        consider(s, folder, config);
        return;
    }
    DIR *folders = opendir(folder);
    for (struct dirent *entry; folders && (entry = readdir(folders));) {
        char inner[LS_HUB_PATH];
        const char *name = entry->d_name, *end = strrchr(name, '.');
        if (*name == '.' || (end && strcmp(end, ".incomplete") == 0) || strlen(name) >= LONGEST_NAME) continue;
        if (level == CONFIG && s->which->config && strcmp(name, s->which->config) != 0) continue;
        if (snprintf(inner, sizeof inner, "%s/%s", folder, name) < LS_HUB_PATH &&
            ls_path_kind_of(inner) == LS_PATH_FOLDER)
            look_in(s, inner, level + 1, level == CONFIG ? name : config);
    }
    if (folders) closedir(folders);
}

/* The name as `datasets` writes it into paths: "SomeQA" is "some_qa". */
static void snake_case(const char *name, char to[LONGEST_NAME])
{
    size_t used = 0;
    for (size_t i = 0; name[i] && used + 3 < LONGEST_NAME; i++) {
        unsigned char before = i ? (unsigned char)name[i - 1] : 0, here = (unsigned char)name[i];
        bool begins = isupper(here) &&
                      (islower(before) || isdigit(before) || (isupper(before) && islower((unsigned char)name[i + 1])));
        if (begins) to[used++] = '_';
        to[used++] = (char)tolower(here);
    }
    to[used] = 0;
}

/* Look for a dataset by one of its names. */
static void look_for(search *s, const char *id)
{
    char folder[LS_HUB_PATH], name[LONGEST_NAME];
    const char *slash = strchr(id, '/');
    snake_case(slash ? slash + 1 : id, name);
    ls_hub_folder("datasets", folder);
    size_t used = strlen(folder);
    if (slash) snprintf(folder + used, sizeof folder - used, "/%.*s___%s", (int)(slash - id), id, name);
    else snprintf(folder + used, sizeof folder - used, "/%s", name);
    snprintf(s->prefix, sizeof s->prefix, "%.200s-%.50s", name, s->which->split);
    look_in(s, folder, CONFIG, "");
}

/* Explain why nothing was found, and what to do. */
static ls_status explain(const ls_hub_split *which, ls_message *why)
{
    const char *config = which->config;
    char cache[LS_HUB_PATH], folder[LS_HUB_PATH];
    ls_hub_folder("datasets", cache);
    bool downloaded = ls_hub_find("datasets", which->name, "README.md", folder, sizeof folder);
    return ls_explain(why, LS_ERR_IO,
                      "%s: no split \"%s\" is in the cache; python3 -c \"from datasets import load_dataset; "
                      "load_dataset('%s'%s%s%s)\" %s (looked in %s)",
                      which->name, which->split, which->name, config ? ", '" : "", config ? config : "",
                      config ? "'" : "", downloaded ? "makes it from the parquet files there" : "puts it there", cache);
}

ls_status ls_hub_find_split(const ls_hub_split *which, char to[LS_HUB_PATH], ls_message *why)
{
    char other[LS_HUB_PATH];
    search s = {.which = which};
    if (snprintf(other, sizeof other, "%s/%s", which->name, which->split) < LS_HUB_PATH) {
        ls_status status = find_saved(other, to, why);
        if (status || *to) return status;
    }
    const char *names[] = {which->name, ls_hub_other_name("datasets", which->name, other)};
    for (int i = 0; i < 2 && names[i] && !*s.path; i++)
        if (*names[i] != '/' && *names[i] != '.') look_for(&s, names[i]);
    if (!*s.path) return explain(which, why);
    if (*s.other)
        return ls_explain(why, LS_ERR_VALUE, "%s has configurations \"%s\" and \"%s\" in the cache; say which",
                          which->name, s.config, s.other);
    strcpy(to, s.path);
    return LS_OK;
}

/* Rows of a split by the dataset_info.json of its folder; -1: it does not say. In a folder of save_to_disk() it
 * describes the dataset that the saved rows were taken from. */
static int64_t promised_rows(const char *folder, const char *split, ls_message *why)
{
    char state[LS_HUB_PATH];
    snprintf(state, sizeof state, "%.4000s/state.json", folder);
    if (ls_path_kind_of(state) == LS_PATH_FILE) return -1;
    ls_json *info = read_json(folder, "dataset_info.json", why);
    int64_t rows = ls_json_integer(ls_json_get(ls_json_get(ls_json_get(info, "splits"), split), "num_examples"), -1);
    ls_json_free(info);
    return rows;
}

ls_status ls_hub_check_rows(const char *path, const char *split, int64_t rows, ls_message *why)
{
    char folder[LS_HUB_PATH];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    ls_message cause = {{0}};
    int64_t promised = promised_rows(folder, split, &cause);
    if (*cause.text) return ls_explain(why, LS_ERR_IO, "%s", cause.text);
    if (promised < 0 || promised == rows) return LS_OK;
    return ls_explain(why, LS_ERR_IO,
                      "%s: split \"%s\" has %lld rows, but its dataset_info.json says %lld; remove the folder and load "
                      "the dataset again",
                      path, split, (long long)rows, (long long)promised);
}
