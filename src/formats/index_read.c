/* index_read.c - reading checkpoints of several files, and finding the checkpoint in a folder. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/names.h"
#include "formats/index.h"

enum { MAX_INDEX = 100000000 };

static bool join(ls_archive *a, char path[PATH_MAX], const char *folder, size_t folder_length, const char *name)
{
    int length = snprintf(path, PATH_MAX, "%.*s%s%s", (int)folder_length, folder, folder_length ? "/" : "", name);
    if (length > 0 && length < PATH_MAX) return true;
    return ls_fail(a->errors, LS_ERR_IO, "%s: the path is too long", name), false;
}

/* ---- indices ---- */

bool ls_is_shard_index(const char *path)
{
    char begin[8] = {0};
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    size_t got = fread(begin, 1, sizeof begin, file);
    fclose(file);
    size_t i = 0;
    while (i < got && (begin[i] == ' ' || begin[i] == '\n' || begin[i] == '\r' || begin[i] == '\t')) i++;
    /* A safetensors file whose header is 0x7b bytes long begins with { as well, followed by zeros. */
    return i < got && begin[i] == '{' && !memchr(begin, 0, got);
}

/* Keep only those of the entries from `first` on that the index puts into this shard. */
static int64_t keep_mapped(ls_archive *a, int64_t first, const ls_json *map, const char *shard)
{
    int64_t kept = first;
    for (int64_t i = first; i < a->count; i++) {
        const char *home = ls_json_text(ls_json_get(map, a->entries[i].name));
        if (home && strcmp(home, shard) == 0) a->entries[kept++] = a->entries[i];
    }
    a->count = kept;
    return kept - first;
}

static bool is_plain_name(const char *name)
{
    return name && *name && !strchr(name, '/') && strcmp(name, "..") != 0 && strcmp(name, ".") != 0;
}

/* The first name that the index puts into this shard, whose entries begin at `first`, but that it lacks. */
static const char *first_missing(const ls_archive *a, int64_t first, const ls_json *map, const char *shard)
{
    ls_name_table there = {0};
    const char *missing = NULL;
    bool ok = true;
    for (int64_t i = first; ok && i < a->count; i++)
        ok = ls_name_table_add(&there, a->entries[i].name, strlen(a->entries[i].name), i) >= 0;
    for (const ls_json *m = map->first; ok && !missing && m; m = m->next)
        if (strcmp(m->text, shard) == 0 && ls_name_table_find(&there, m->key, strlen(m->key)) < 0) missing = m->key;
    ls_name_table_free(&there);
    return missing ? missing : "?"; /* it is in the shard twice, or out of memory */
}

/* `expected`: how many tensors the index puts into this shard. */
static bool read_shard(ls_archive *a, const char *index, size_t folder_length, const ls_json *map, const char *shard,
                       int64_t expected)
{
    char path[PATH_MAX];
    int64_t first = a->count, described = a->metadata_count;
    if (!join(a, path, index, folder_length, shard)) return false;
    if (ls_path_kind_of(path) == LS_PATH_NONE)
        return ls_fail(a->errors, LS_ERR_IO, "%s: the shard %s is missing", index, path), false;
    if (!ls_archive_open_file(a, path)) return false;
    if (a->file_count > 1) a->metadata_count = described; /* the same in all shards */
    if (keep_mapped(a, first, map, shard) == expected) return true;
    return ls_archive_fail(a, "tensor %s, which the index puts into this shard, is not in it",
                           first_missing(a, first, map, shard));
}

typedef struct shards {
    ls_name_table numbers; /* in order of first appearance */
    int64_t *sizes;        /* tensors in each */
} shards;

static bool count_shards(ls_archive *a, const char *path, const ls_json *map, shards *all)
{
    all->sizes = ls_sys_alloc((size_t)map->count * sizeof *all->sizes);
    bool ok = all->sizes != NULL;
    for (const ls_json *m = map->first; ok && m; m = m->next) {
        if (!is_plain_name(ls_json_text(m)))
            return ls_fail(a->errors, LS_ERR_IO, "%s: the shard of %s is not a file name", path, m->key), false;
        int64_t shard = ls_name_table_add(&all->numbers, m->text, strlen(m->text), all->numbers.count);
        ok = shard >= 0;
        if (ok) all->sizes[shard]++;
    }
    return ok || (ls_fail(a->errors, LS_ERR_MEMORY, "%s: no memory for a list of shards", path), false);
}

static bool read_map(ls_archive *a, const char *path, size_t folder_length, const ls_json *map)
{
    shards all = {0};
    bool ok = count_shards(a, path, map, &all);
    int64_t read = 0;
    for (const ls_json *m = map->first; ok && m; m = m->next) {
        if (ls_name_table_find(&all.numbers, m->text, strlen(m->text)) < read)
            continue; /* this shard has been read; the next unread one comes up in order */
        ok = read_shard(a, path, folder_length, map, m->text, all.sizes[read++]);
    }
    ls_sys_free(all.sizes);
    ls_name_table_free(&all.numbers);
    return ok;
}

bool ls_archive_open_index(ls_archive *a, const char *path)
{
    ls_message why;
    size_t length;
    char *text = ls_file_read(path, MAX_INDEX, &length, &why);
    if (!text) return ls_fail(a->errors, LS_ERR_IO, "%s", why.text), false;
    ls_json *index = ls_json_read(text, length, &why);
    ls_sys_free(text);
    if (!index) return ls_fail(a->errors, LS_ERR_IO, "%s: %s", path, why.text), false;
    const ls_json *map = ls_json_get(index, "weight_map");
    const char *slash = strrchr(path, '/');
    bool ok = map && map->type == LS_JSON_OBJECT;
    if (!ok) ls_fail(a->errors, LS_ERR_IO, "%s: not an index of shards: there is no weight_map", path);
    else ok = read_map(a, path, slash ? (size_t)(slash - path) : 0, map);
    ls_json_free(index);
    if (!ok) return false;
    a->file = ls_archive_text(a, path, strlen(path));
    a->format = a->format && strcmp(a->format, "safetensors") == 0 ? "sharded safetensors" : "sharded torch";
    return a->file != NULL;
}

/* ---- folders ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

/* Find files of a folder whose names end with `end`: returns their number and the first two names. */
static int find_by_end(const char *folder, const char *end, char names[2][NAME_MAX + 1])
{
    DIR *dir = opendir(folder);
    int found = 0;
    for (struct dirent *item; dir && (item = readdir(dir));) {
        if (item->d_name[0] == '.' || !ends_with(item->d_name, end)) continue;
        if (found < 2) snprintf(names[found], NAME_MAX + 1, "%s", item->d_name);
        found++;
    }
    if (dir) closedir(dir);
    return found;
}

bool ls_archive_open_folder(ls_archive *a, const char *folder)
{
    static const char *const usual[] = {"model.safetensors.index.json", "model.safetensors",
                                        "pytorch_model.bin.index.json", "pytorch_model.bin"};
    static const char *const ends[] = {
        ".safetensors.index.json", ".safetensors", ".bin.index.json", ".bin", ".pt", ".pth", ".npz", ".npy"};
    char path[PATH_MAX], names[2][NAME_MAX + 1];
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/') length--;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (!join(a, path, folder, length, usual[i])) return false;
        if (ls_path_kind_of(path) == LS_PATH_FILE)
            return ls_is_shard_index(path) ? ls_archive_open_index(a, path) : ls_archive_open_file(a, path);
    }
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        int found = find_by_end(folder, ends[i], names);
        if (found > 1)
            return ls_fail(a->errors, LS_ERR_IO, "%s: holds %s, %s%s; name the one you mean", folder, names[0],
                           names[1], found > 2 ? " and more" : ""),
                   false;
        if (found == 1)
            return join(a, path, folder, length, names[0]) &&
                   (ls_is_shard_index(path) ? ls_archive_open_index(a, path) : ls_archive_open_file(a, path));
    }
    return ls_fail(a->errors, LS_ERR_IO, "%s: no file of tensors in this folder", folder), false;
}
