/* runs.c - find the runs in a folder and follow their values. */
#include "watch/runs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/memory.h"
#include "track/sink.h"

enum { DEEPEST = 5, MOST_ENTRIES = 20000, FRESH = 500 /* ms */ };

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- the list ---- */

static void run_free(ls_watched_run *run)
{
    ls_history_clear(&run->history);
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

/* Files whose changes make a new version of the run; those with values make a folder a run. */
static bool is_of_run(const char *name, bool *has_values)
{
    if (strncmp(name, LS_TRACK_EVENTS, sizeof LS_TRACK_EVENTS - 1) == 0) return *has_values = true;
    if (strcmp(name, LS_TRACK_JSONL) == 0 || strcmp(name, LS_TRACK_CSV) == 0) return *has_values = true;
    return strcmp(name, LS_TRACK_CONFIG) == 0;
}

/* The hash does not depend on the order in which the system lists the files. */
static uint64_t hash_of(const char *name, const struct stat *status)
{
    int64_t facts[] = {(int64_t)ls_hash_of(name, strlen(name)), (int64_t)status->st_ino, status->st_size,
                       status->st_mtim.tv_sec, status->st_mtim.tv_nsec};
    return ls_hash_of(facts, sizeof facts);
}

/* `name`: of the folder, below the watched one; "." is the watched one. */
static void look_into(look *l, const char *name, int depth)
{
    char path[LS_TRACK_PATH], below[LS_TRACK_PATH];
    if (!ls_track_path(path, l->folder->path, name, NULL)) return;
    DIR *listing = opendir(path);
    if (!listing) return;
    uint64_t version = 0;
    bool has_values = false;
    for (const struct dirent *entry; (entry = readdir(listing));) {
        struct stat status;
        if (++l->entries > MOST_ENTRIES) {
            l->folder->more = true;
            break;
        }
        if (entry->d_name[0] == '.' || fstatat(dirfd(listing), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        bool fits = ls_track_path(below, name, entry->d_name, NULL);
        if (S_ISDIR(status.st_mode) && fits && depth < DEEPEST) look_into(l, below, depth + 1);
        if (S_ISREG(status.st_mode) && is_of_run(entry->d_name, &has_values))
            version += hash_of(entry->d_name, &status);
    }
    closedir(listing);
    ls_watched_run *run = has_values ? run_named(l->folder, name) : NULL;
    if (!run) return;
    run->version = version;
    run->found = true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(ls_watched_run *const *)a)->name, (*(ls_watched_run *const *)b)->name);
}

void ls_watched_look(ls_watched_folder *folder)
{
    int64_t now = now_ms();
    if (folder->looked && now - folder->looked < FRESH) return;
    folder->more = false;
    for (int i = 0; i < folder->count; i++) folder->runs[i]->found = false;
    look_into(&(look){.folder = folder}, ".", 0);
    int kept = 0;
    for (int i = 0; i < folder->count; i++) {
        if (folder->runs[i]->found) folder->runs[kept++] = folder->runs[i];
        else run_free(folder->runs[i]);
    }
    folder->count = kept;
    qsort(folder->runs, (size_t)kept, sizeof *folder->runs, by_name);
    folder->looked = now_ms();
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

static void forget(ls_watched_run *run)
{
    ls_history_clear(&run->history);
    run->values_read = 0;
    run->values_file[0] = run->values_file[1] = 0;
    run->problem.text[0] = '\0';
}

/* Read the lines that were added to values.jsonl since the last time. A line that is being written stays unread. */
static void read_more(ls_watched_run *run, int descriptor, const struct stat *status)
{
    enum { LOT = 64 << 20 }; /* bytes at a time */
    while (run->values_read < status->st_size && !run->problem.text[0]) {
        int64_t left = status->st_size - run->values_read;
        size_t wanted = left < LOT ? (size_t)left : LOT;
        char *text = ls_sys_alloc(wanted);
        ssize_t got = text ? pread(descriptor, text, wanted, run->values_read) : -1;
        const char *end = got > 0 ? memrchr(text, '\n', (size_t)got) : NULL;
        if (got < 0) ls_message_set(&run->problem, LS_TRACK_JSONL " cannot be read");
        else if (!end && wanted == LOT) ls_message_set(&run->problem, LS_TRACK_JSONL " has a line above 64 MB");
        else if (end && !ls_history_read_jsonl(&run->history, text, (size_t)(end - text) + 1, &run->problem) &&
                 !run->problem.text[0])
            ls_message_set(&run->problem, "no memory for the values");
        if (end) run->values_read += end - text + 1;
        ls_sys_free(text);
        if (!end) break;
    }
}

void ls_watched_read(const ls_watched_folder *folder, ls_watched_run *run)
{
    struct stat status;
    char path[LS_TRACK_PATH];
    if (run->read_version == run->version) return;
    int descriptor = ls_watched_open(folder, run, LS_TRACK_JSONL);
    bool lines = descriptor >= 0 && fstat(descriptor, &status) == 0;
    bool same = lines && status.st_dev == run->values_file[0] && status.st_ino == run->values_file[1] &&
                status.st_size >= run->values_read && !run->problem.text[0];
    if (!same) forget(run);
    if (lines) {
        run->values_file[0] = status.st_dev;
        run->values_file[1] = status.st_ino;
        read_more(run, descriptor, &status);
    } else if (ls_track_path(path, folder->path, run->name, &run->problem)) {
        ls_history_load(&run->history, path, &run->problem);
    }
    if (descriptor >= 0) close(descriptor);
    run->read_version = run->version;
}
