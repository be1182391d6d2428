/* runs.c - find the runs in a folder and follow their values. */
#include "watch/runs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "track/sink.h"
#include "track/status.h"

enum { DEEPEST = 5, MOST_ENTRIES = 20000, FRESH = 500 /* ms */ };

/* ---- the list ---- */

static void run_free(ls_watched_run *run)
{
    ls_history_clear(&run->values.history);
    ls_history_clear(&run->system.history);
    ls_sys_free(run->name);
    ls_sys_free(run);
}

void ls_watched_free(ls_watched_folder *folder)
{
    for (int i = 0; i < folder->count; i++) run_free(folder->runs[i]);
    folder->count = 0;
}

ls_watched_run *ls_watched_find(const ls_watched_folder *folder, const char *name)
{
    for (int i = 0; i < folder->count; i++)
        if (strcmp(folder->runs[i]->name, name) == 0) return folder->runs[i];
    return NULL;
}

static ls_watched_run *run_named(ls_watched_folder *folder, const char *name)
{
    ls_watched_run *run = ls_watched_find(folder, name);
    if (run) return run;
    if (folder->count == LS_WATCH_RUNS) return folder->more = true, NULL;
    run = ls_sys_alloc(sizeof *run);
    if (!run) return NULL;
    run->name = ls_sys_alloc(strlen(name) + 1);
    if (!run->name) return ls_sys_free(run), NULL;
    strcpy(run->name, name);
    return folder->runs[folder->count++] = run;
}

/* ---- looking ---- */

/* A look at one folder: what its files say about the run in it. */
typedef struct look {
    ls_watched_folder *folder;
    int entries; /* seen so far, in all folders */
} look;

typedef enum file_kind { FILE_OTHER, FILE_VALUES, FILE_MORE, FILE_LIFE } file_kind;

/* A folder with values is a run. */
static file_kind kind_of(const char *name)
{
    if (strncmp(name, LS_TRACK_EVENTS, sizeof LS_TRACK_EVENTS - 1) == 0) return FILE_VALUES;
    if (strcmp(name, LS_TRACK_JSONL) == 0 || strcmp(name, LS_TRACK_CSV) == 0) return FILE_VALUES;
    if (strcmp(name, LS_TRACK_CONFIG) == 0 || strcmp(name, LS_TRACK_SYSTEM) == 0) return FILE_MORE;
    return strcmp(name, LS_TRACK_STATUS) == 0 ? FILE_LIFE : FILE_OTHER;
}

/* The hash does not depend on the order in which the system lists the files. */
static uint64_t hash_of(const char *name, const struct stat *status)
{
    int64_t facts[] = {(int64_t)ls_hash_of(name, strlen(name)), (int64_t)status->st_ino, status->st_size,
                       status->st_mtim.tv_sec, status->st_mtim.tv_nsec};
    return ls_hash_of(facts, sizeof facts);
}

/* After a failed call: keep the first folder that may not be entered, though its names may be listed. */
static void note_closed(look *l, const char *name)
{
    char *closed = l->folder->closed;
    enum { SIZE = sizeof l->folder->closed };
    if (errno == EACCES && !*closed) snprintf(closed, SIZE, "%.*s", SIZE - 1, name);
}

/* `name`: of the folder, below the watched one; "." is the watched one. */
static void look_into(look *l, const char *name, int depth)
{
    char path[LS_TRACK_PATH], below[LS_TRACK_PATH];
    if (!ls_track_path(path, l->folder->path, name, NULL)) return;
    DIR *listing = opendir(path);
    if (!listing) {
        note_closed(l, name);
        return;
    }
    uint64_t version = 0, recorded = 0, life = 0;
    bool has_values = false;
    for (const struct dirent *entry; (entry = readdir(listing));) {
        struct stat status;
        if (++l->entries > MOST_ENTRIES) {
            l->folder->more = true;
            break;
        }
        if (entry->d_name[0] == '.') continue;
        if (fstatat(dirfd(listing), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
            note_closed(l, name);
            continue;
        }
        bool fits = ls_track_path(below, name, entry->d_name, NULL);
        if (S_ISDIR(status.st_mode) && fits && depth < DEEPEST) look_into(l, below, depth + 1);
        file_kind kind = S_ISREG(status.st_mode) ? kind_of(entry->d_name) : FILE_OTHER;
        has_values = has_values || kind == FILE_VALUES;
        if (kind == FILE_LIFE) life = hash_of(entry->d_name, &status);
        else if (kind == FILE_VALUES) recorded += hash_of(entry->d_name, &status);
        else if (kind != FILE_OTHER) version += hash_of(entry->d_name, &status);
    }
    closedir(listing);
    ls_watched_run *run = has_values ? run_named(l->folder, name) : NULL;
    if (!run) return;
    run->version = version + recorded;
    run->recorded = recorded;
    run->life = life;
    run->found = true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(ls_watched_run *const *)a)->name, (*(ls_watched_run *const *)b)->name);
}

void ls_watched_look(ls_watched_folder *folder)
{
    int64_t now = ls_clock_ms();
    if (folder->looked && now - folder->looked < FRESH) return;
    folder->more = false;
    folder->closed[0] = '\0';
    for (int i = 0; i < folder->count; i++) folder->runs[i]->found = false;
    look_into(&(look){.folder = folder}, ".", 0);
    int kept = 0;
    for (int i = 0; i < folder->count; i++) {
        if (folder->runs[i]->found) folder->runs[kept++] = folder->runs[i];
        else run_free(folder->runs[i]);
    }
    folder->count = kept;
    qsort(folder->runs, (size_t)kept, sizeof *folder->runs, by_name);
    folder->looked = ls_clock_ms();
}

/* ---- reading ---- */

int ls_watched_open(const ls_watched_folder *folder, const ls_watched_run *run, const char *file)
{
    char place[LS_TRACK_PATH], path[LS_TRACK_PATH];
    struct stat status;
    if (!ls_track_path(place, folder->path, run->name, NULL) || !ls_track_path(path, place, file, NULL)) return -1;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0 || (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode))) return descriptor;
    close(descriptor);
    return -1;
}

static void forget(ls_followed *followed)
{
    ls_history_clear(&followed->history);
    *followed = (ls_followed){.read = 0};
}

/* Read the lines that were added since the last time. A line that is being written stays unread. */
static void read_more(ls_followed *f, int descriptor, int64_t size)
{
    enum { LOT = 64 << 20 }; /* bytes at a time */
    while (f->read < size && !f->problem.text[0]) {
        int64_t left = size - f->read;
        size_t wanted = left < LOT ? (size_t)left : LOT;
        char *text = ls_sys_alloc(wanted);
        ssize_t got = text ? pread(descriptor, text, wanted, f->read) : -1;
        const char *end = got > 0 ? memrchr(text, '\n', (size_t)got) : NULL;
        if (got < 0) ls_message_set(&f->problem, "the values cannot be read");
        else if (!end && wanted == LOT) ls_message_set(&f->problem, "a line is longer than 64 MB");
        else if (end && !ls_history_read_jsonl(&f->history, text, (size_t)(end - text) + 1, &f->problem) &&
                 !f->problem.text[0])
            ls_message_set(&f->problem, "no memory for the values");
        if (end) f->read += end - text + 1;
        ls_sys_free(text);
        if (!end) break;
    }
}

/* The hash of the last bytes that were read, as they are in the file now; 0 if they cannot be read. */
static uint64_t tail_of(int descriptor, int64_t read)
{
    char text[16384];
    int64_t size = read < (int64_t)sizeof text ? read : (int64_t)sizeof text;
    bool whole = size > 0 && pread(descriptor, text, (size_t)size, read - size) == size;
    return whole ? ls_hash_of(text, (size_t)size) : 0;
}

/* Was the file only appended to since the last time? A program that starts again may write over what it wrote before,
 * and be further on by now. */
static bool has_grown(const ls_followed *f, int descriptor, const struct stat *status)
{
    bool unchanged = status->st_mtim.tv_sec == f->changed.tv_sec && status->st_mtim.tv_nsec == f->changed.tv_nsec;
    if (status->st_dev != f->file[0] || status->st_ino != f->file[1]) return false;
    if (status->st_size < f->size || (status->st_size == f->size && !unchanged)) return false;
    return tail_of(descriptor, f->read) == f->tail;
}

/* False if there is no such file. */
static bool follow(ls_followed *f, const ls_watched_folder *folder, const ls_watched_run *run, const char *file)
{
    struct stat status;
    int descriptor = ls_watched_open(folder, run, file);
    bool there = descriptor >= 0 && fstat(descriptor, &status) == 0;
    if (!there || f->problem.text[0] || !has_grown(f, descriptor, &status)) forget(f);
    if (there) {
        f->file[0] = status.st_dev;
        f->file[1] = status.st_ino;
        f->size = status.st_size;
        f->changed = status.st_mtim;
        read_more(f, descriptor, status.st_size);
        f->tail = tail_of(descriptor, f->read);
    }
    if (descriptor >= 0) close(descriptor);
    return there;
}

void ls_watched_read(const ls_watched_folder *folder, ls_watched_run *run)
{
    char path[LS_TRACK_PATH];
    if (run->read_version == run->version) return;
    if (run->read_recorded != run->recorded && !follow(&run->values, folder, run, LS_TRACK_JSONL) &&
        ls_track_path(path, folder->path, run->name, &run->values.problem))
        ls_history_load(&run->values.history, path, false, &run->values.problem);
    follow(&run->system, folder, run, LS_TRACK_SYSTEM);
    run->read_version = run->version;
    run->read_recorded = run->recorded;
}
