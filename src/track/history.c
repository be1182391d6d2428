/* history.c - read what trackers have written: a folder, or one of its files. The format is recognised by content, not
 * by file name. */
#include "track/history.h"

#include <dirent.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "tensor/context.h"
#include "track/sink.h"

/* ---- series ---- */

static ls_history_series *series_named(ls_history *history, const char *name, size_t length)
{
    int64_t known = ls_name_table_find(&history->names, name, length);
    if (known >= 0) return &history->series[known];
    if (history->count == history->capacity) {
        int capacity = history->capacity ? history->capacity * 2 : 16;
        ls_history_series *grown = ls_sys_realloc(history->series, (size_t)capacity * sizeof *grown);
        if (!grown) return NULL;
        history->series = grown;
        history->capacity = capacity;
    }
    char *copy = ls_sys_alloc(length + 1);
    if (!copy || ls_name_table_add(&history->names, memcpy(copy, name, length), length, history->count) < 0) {
        ls_sys_free(copy);
        return NULL;
    }
    ls_history_series *series = &history->series[history->count++];
    *series = (ls_history_series){.name = copy};
    return series;
}

static bool grow(ls_history_series *series)
{
    int64_t capacity = series->capacity ? series->capacity * 2 : 16;
    double **arrays[] = {&series->x, &series->y};
    for (int i = 0; i < 2; i++) {
        double *grown = ls_sys_realloc(*arrays[i], (size_t)capacity * sizeof **arrays[i]);
        if (!grown) return false;
        *arrays[i] = grown;
    }
    series->capacity = capacity;
    return true;
}

static bool add_point(ls_history_series *series, double step, double value)
{
    while (series->count && series->x[series->count - 1] >= step) series->count--;
    if (series->count == series->capacity && !grow(series)) return false;
    series->x[series->count] = step;
    series->y[series->count++] = value;
    return true;
}

bool ls_history_add(ls_history *history, const char *name, size_t length, double step, double value)
{
    ls_history_series *series = series_named(history, name, length);
    if (!series) return false;
    bool rewinds = series->count && series->x[series->count - 1] >= step;
    history->rewound = history->rewound || (rewinds && series->is_timed);
    if (!series->before) {
        series->before = history->latest ? history->latest : -1;
        history->latest = 1 + (int)(series - history->series);
    }
    return add_point(series, step, value);
}

bool ls_history_end_record(ls_history *history, double step, double seconds)
{
    const ls_history_series *times = &history->times;
    bool other_steps = !history->rewound && times->count && times->x[times->count - 1] > step;
    history->rewound = false;
    for (int at = history->latest; at > 0;) { /* not through all: many records have one value */
        ls_history_series *series = &history->series[at - 1];
        if (!isnan(seconds)) series->is_timed = !other_steps;
        at = series->before;
        series->before = 0;
    }
    history->latest = 0;
    return other_steps || isnan(seconds) || add_point(&history->times, step, seconds);
}

/* ---- files ---- */

/* A file itself, or one that a link leads to? */
static bool is_file(const char *path, bool linked)
{
    struct stat status;
    return (linked ? stat(path, &status) : lstat(path, &status)) == 0 && S_ISREG(status.st_mode);
}

/* Warn once for each file, which `watch` reads again and again; of the first files only, if there are many. */
static void warn_of_lost(const char *path, size_t bytes)
{
    enum { MOST = 64 };
    static _Atomic uint64_t told[MOST]; /* hashes of paths */
    uint64_t hash = ls_hash_of(path, strlen(path)), there = 0;
    for (int i = 0; i < MOST && there != hash; i++) {
        there = 0;
        if (!atomic_compare_exchange_strong(&told[i], &there, hash)) continue;
        ls_log_line(LS_LOG_WARN, "%s: the last %zu bytes were lost, as in a crash of the machine: they are left out",
                    path, bytes);
        return;
    }
}

static bool read_file(ls_history *history, const char *path, ls_message *why)
{
    ls_file_bytes file;
    if (!ls_file_load(&file, path, SIZE_MAX, why)) return false;
    size_t lost = 0;
    bool has_words = file.size > 4 && memcmp(file.bytes, "step", 4) == 0;
    bool ok = file.size == 0         ? true
              : file.bytes[0] == '{' ? ls_history_read_jsonl(history, file.bytes, file.size, why)
              : has_words            ? ls_history_read_csv(history, file.bytes, file.size, why)
                                     : ls_history_read_events(history, file.bytes, file.size, &lost, why);
    ls_file_unload(&file);
    if (lost) warn_of_lost(path, lost);
    if (ok || !why->text[0]) return ok;
    ls_message what = *why;
    ls_message_set(why, "%.120s: %.120s", path, what.text);
    return false;
}

static int is_event_file(const struct dirent *entry)
{
    return strncmp(entry->d_name, LS_TRACK_EVENTS, sizeof LS_TRACK_EVENTS - 1) == 0;
}

/* Read all event files of the folder, oldest first: their names start with the time. */
static bool read_sessions(ls_history *history, const char *folder, bool linked, int *found, ls_message *why)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_event_file, alphasort);
    bool ok = true;
    for (int i = 0; i < count; i++) {
        char path[LS_TRACK_PATH];
        ok = ok && ls_track_path(path, folder, entries[i]->d_name, why);
        if (ok && (linked || is_file(path, false))) ok = read_file(history, path, why);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
    *found = count;
    return ok;
}

static bool holds_values(const char *folder)
{
    DIR *listing = opendir(folder);
    bool found = false;
    for (const struct dirent *e; listing && !found && (e = readdir(listing));)
        found = is_event_file(e) || strcmp(e->d_name, LS_TRACK_JSONL) == 0 || strcmp(e->d_name, LS_TRACK_CSV) == 0;
    if (listing) closedir(listing);
    return found;
}

/* Explain that a folder is not that of a run. The folder of all runs is the one most often given instead. */
static void explain_empty(const char *folder, ls_message *why)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    char run[LS_TRACK_PATH] = "";
    for (int i = 0; i < count; i++) {
        char path[LS_TRACK_PATH];
        bool below = entries[i]->d_name[0] != '.' && !run[0];
        if (below && ls_track_path(path, folder, entries[i]->d_name, NULL) && holds_values(path)) strcpy(run, path);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
    ls_message_set(why, "%.100s contains no " LS_TRACK_JSONL ", " LS_TRACK_CSV " or " LS_TRACK_EVENTS "*%s%.100s%s",
                   folder, run[0] ? "; the run " : "", run, run[0] ? " does" : "");
}

static bool read_folder(ls_history *history, const char *folder, bool linked, ls_message *why)
{
    static const char *const files[] = {LS_TRACK_JSONL, LS_TRACK_CSV};
    char path[LS_TRACK_PATH];
    for (int i = 0; i < 2; i++) {
        if (!ls_track_path(path, folder, files[i], why)) return false;
        if (is_file(path, linked)) return read_file(history, path, why);
    }
    int found;
    if (!read_sessions(history, folder, linked, &found, why)) return false;
    if (found > 0) return true;
    explain_empty(folder, why);
    return false;
}

/* ---- the object ---- */

static void clear_series(ls_history_series *series)
{
    ls_sys_free(series->name);
    ls_sys_free(series->x);
    ls_sys_free(series->y);
    *series = (ls_history_series){.name = NULL};
}

void ls_history_clear(ls_history *history)
{
    for (int i = 0; i < history->count; i++) clear_series(&history->series[i]);
    ls_sys_free(history->series);
    history->series = NULL;
    history->count = history->capacity = history->latest = 0;
    history->rewound = false;
    history->lines = 0;
    ls_name_table_free(&history->names);
    clear_series(&history->times);
}

static void clear(void *object)
{
    ls_history_clear(object);
}

bool ls_history_load(ls_history *history, const char *path, bool linked, ls_message *why)
{
    bool folder = ls_path_kind_of(path) == LS_PATH_FOLDER;
    return folder ? read_folder(history, path, linked, why) : read_file(history, path, why);
}

ls_history *ls_history_read(ls_run *run, const char *path)
{
    if (!run || ls_failed(run)) return NULL;
    if (!path) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_history_read: the path is NULL"), NULL;
    ls_history *history = ls_object_new(run, LS_OBJECT_HISTORY, sizeof *history, clear);
    if (!history) return NULL;
    ls_message why = {{0}};
    if (ls_history_load(history, path, true, &why)) return history;
    ls_fail(&run->errors, why.text[0] ? LS_ERR_IO : LS_ERR_MEMORY, "ls_history_read: %s",
            why.text[0] ? why.text : "no memory for the values");
    ls_object_free(history);
    return NULL;
}

void ls_history_free(ls_history *history)
{
    ls_object_free(history);
}

int64_t ls_history_count(const ls_history *history)
{
    return history ? history->count : 0;
}

ls_curve ls_history_at(const ls_history *history, int64_t i)
{
    if (!history || i < 0 || i >= history->count) return (ls_curve){.name = ""};
    const ls_history_series *s = &history->series[i];
    return (ls_curve){.name = s->name, .count = s->count, .x = s->x, .y = s->y};
}

ls_curve ls_history_find(const ls_history *history, const char *name)
{
    int64_t i = history && name ? ls_name_table_find(&history->names, name, strlen(name)) : -1;
    return ls_history_at(history, (int)i);
}
