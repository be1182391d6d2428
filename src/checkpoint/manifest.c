/* manifest.c - sizes and checksums of a checkpoint's files. */
#include "checkpoint/manifest.h"

#include <lockstep/version.h>

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"

#define FORMAT "lockstep checkpoint"
/* The manifest ends with its own checksum, over everything before this. */
#define SEAL ",\n  \"xxh64\": \""
enum { SIZE_LIMIT = 1 << 24, NAME_LIMIT = 1024 };

static void text_of(uint64_t hash, char text[17])
{
    snprintf(text, 17, "%016llx", (unsigned long long)hash);
}

static uint64_t hash_of(const char *bytes, size_t size)
{
    ls_hash h;
    ls_hash_begin(&h);
    ls_hash_add(&h, bytes, size);
    return ls_hash_end(&h);
}

/* ---- writing ---- */

static int is_listed(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && strcmp(entry->d_name, LS_MANIFEST) != 0;
}

static bool put_file(ls_json_writer *w, const char *folder, const char *name, ls_message *why)
{
    char path[PATH_MAX], text[17];
    uint64_t hash, size;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!ls_hash_file(path, &hash, &size, why)) return false;
    text_of(hash, text);
    ls_json_put_object(w, NULL);
    ls_json_put_text(w, "name", name);
    ls_json_put_integer(w, "bytes", (int64_t)size);
    ls_json_put_text(w, "xxh64", text);
    ls_json_put_end(w);
    return true;
}

/* List the files in a part of the folder ("", or "ema/") and in its subfolders. */
static bool put_files(ls_json_writer *w, const char *folder, const char *part, ls_message *why)
{
    char path[PATH_MAX], name[PATH_MAX];
    struct dirent **entries;
    snprintf(path, sizeof path, "%s/%s", folder, part);
    int count = scandir(path, &entries, is_listed, alphasort);
    if (count < 0) return ls_message_set(why, "could not list %.200s", path), false;
    bool ok = true;
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s%s", folder, part, entries[i]->d_name);
        bool is_folder = ls_path_kind_of(path) == LS_PATH_FOLDER;
        snprintf(name, sizeof name, "%s%s%s", part, entries[i]->d_name, is_folder ? "/" : "");
        ok = ok && strlen(name) < NAME_LIMIT ? (is_folder ? put_files : put_file)(w, folder, name, why) : false;
        free(entries[i]);
    }
    free(entries);
    return ok;
}

/* Write the text up to its seal, then the seal. */
static bool write_sealed(const char *folder, const char *text, size_t length, ls_message *why)
{
    char path[PATH_MAX], hash[17];
    ls_file_out out;
    while (length && text[length - 1] != '}') length--;
    length -= length > 0; /* without the closing brace and the line break before it */
    while (length && text[length - 1] == '\n') length--;
    text_of(hash_of(text, length), hash);
    snprintf(path, sizeof path, "%s/" LS_MANIFEST, folder);
    return ls_file_create(&out, path, false, why) && ls_file_put(&out, text, length, why) &&
           ls_file_put(&out, SEAL, strlen(SEAL), why) && ls_file_put(&out, hash, strlen(hash), why) &&
           ls_file_put(&out, "\"\n}\n", 4, why) && ls_file_seal(&out, why) && ls_file_publish(&out, why);
}

bool ls_manifest_write(const char *folder, const ls_manifest *manifest, ls_message *why)
{
    ls_json_writer w = {.indent = 2};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "format", FORMAT);
    ls_json_put_integer(&w, "version", LS_CHECKPOINT_VERSION);
    ls_json_put_text(&w, "lockstep", ls_version());
    ls_json_put_integer(&w, "world_size", manifest->world);
    ls_json_put_integer(&w, "epoch", manifest->epoch);
    ls_json_put_integer(&w, "step", manifest->step);
    ls_json_put_integer(&w, "models", manifest->modules);
    ls_json_put_integer(&w, "optimizers", manifest->optims);
    ls_json_put_integer(&w, "schedulers", manifest->schedules);
    ls_json_put_integer(&w, "dataloaders", manifest->loaders);
    ls_json_put_array(&w, "files");
    bool listed = put_files(&w, folder, "", why);
    ls_json_put_end(&w);
    ls_json_put_end(&w);
    size_t length;
    char *text = ls_json_take(&w, &length);
    if (listed && !text) ls_message_set(why, "no memory for the list of files of %.160s", folder);
    bool ok = listed && text && write_sealed(folder, text, length, why);
    ls_sys_free(text);
    return ok;
}

/* ---- checking ---- */

static bool refuse(ls_message *why, const char *name, const char *reason)
{
    ls_message_set(why, "%.120s %s", name, reason);
    return false;
}

/* Is it a path inside the folder? */
static bool is_below(const char *name)
{
    return *name != '/' && strncmp(name, "../", 3) != 0 && !strstr(name, "/../");
}

static bool check_file(const char *folder, const ls_json *entry, ls_message *why)
{
    const char *name = ls_json_text(ls_json_get(entry, "name")), *want = ls_json_text(ls_json_get(entry, "xxh64"));
    if (!name || !want || !is_below(name)) return refuse(why, LS_MANIFEST, "lists a file without name or checksum");
    char path[PATH_MAX], text[17];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (ls_path_kind_of(path) != LS_PATH_FILE) return refuse(why, name, "is missing");
    uint64_t hash, size, expected = (uint64_t)ls_json_integer(ls_json_get(entry, "bytes"), -1);
    if (!ls_hash_file(path, &hash, &size, why)) return false;
    if (size != expected) {
        ls_message_set(why, "%.120s has %llu bytes instead of %llu", name, (unsigned long long)size,
                       (unsigned long long)expected);
        return false;
    }
    text_of(hash, text);
    return strcmp(text, want) == 0 || refuse(why, name, "does not match its checksum");
}

/* Does the text match its checksum? */
static bool is_sealed(const char *text)
{
    const char *seal = NULL;
    for (const char *at = text; (at = strstr(at, SEAL)); at++) seal = at;
    char hash[17];
    if (!seal || strlen(seal) < strlen(SEAL) + 16) return false;
    text_of(hash_of(text, (size_t)(seal - text)), hash);
    return strncmp(seal + strlen(SEAL), hash, 16) == 0;
}

static bool check(const char *folder, const char *text, const ls_json *root, ls_manifest *m, ls_message *why)
{
    const char *format = ls_json_text(ls_json_get(root, "format"));
    if (!format || strcmp(format, FORMAT) != 0) return refuse(why, LS_MANIFEST, "does not describe a checkpoint");
    int64_t version = ls_json_integer(ls_json_get(root, "version"), 0);
    if (version < 1 || version > LS_CHECKPOINT_VERSION) {
        ls_message_set(why, LS_MANIFEST " has version %lld, this library reads up to %d", (long long)version,
                       LS_CHECKPOINT_VERSION);
        return false;
    }
    if (!is_sealed(text)) return refuse(why, LS_MANIFEST, "does not match its checksum");
    *m = (ls_manifest){
        .epoch = ls_json_integer(ls_json_get(root, "epoch"), 0),
        .step = ls_json_integer(ls_json_get(root, "step"), 0),
        .world = (int)ls_json_integer(ls_json_get(root, "world_size"), 1),
        .modules = (int)ls_json_integer(ls_json_get(root, "models"), 0),
        .optims = (int)ls_json_integer(ls_json_get(root, "optimizers"), 0),
        .schedules = (int)ls_json_integer(ls_json_get(root, "schedulers"), 0),
        .loaders = (int)ls_json_integer(ls_json_get(root, "dataloaders"), 0),
    };
    for (const ls_json *f = ls_json_first(ls_json_get(root, "files")); f; f = f->next)
        if (!check_file(folder, f, why)) return false;
    return true;
}

bool ls_manifest_check(const char *folder, ls_manifest *manifest, ls_message *why)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/" LS_MANIFEST, folder);
    if (ls_path_kind_of(path) != LS_PATH_FILE) return refuse(why, LS_MANIFEST, "is missing: this is not a checkpoint");
    size_t length;
    char *text = ls_file_read(path, SIZE_LIMIT, &length, why);
    if (!text) return false;
    ls_message where = {{0}};
    ls_json *root = ls_json_read(text, length, &where);
    if (!root) ls_message_set(why, LS_MANIFEST " is damaged: %.160s", where.text);
    bool ok = root && check(folder, text, root, manifest, why);
    ls_json_free(root);
    ls_sys_free(text);
    return ok;
}
