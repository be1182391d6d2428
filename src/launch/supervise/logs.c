/* logs.c - the log folders of a job. */
#include "launch/supervise/logs.h"

#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A lock file in a temporary folder: locked as long as its launcher lives, however it ends. */
#define LOCK_FILE ".launcher"

static int delete_entry(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about, (void)kind, (void)place;
    remove(path);
    return 0;
}

/* Remove folders of launchers that were killed: those with an unlocked lock file. */
static void sweep(const char *base)
{
    enum { LETTERS = 6 }; /* random ones after the name */
    DIR *folder = opendir(base);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[700], lock[720];
        struct stat about;
        if (strncmp(entry->d_name, "lockstep_", 9) != 0 || strlen(entry->d_name) != 9 + LETTERS) continue;
        snprintf(path, sizeof path, "%.400s/%s", base, entry->d_name);
        snprintf(lock, sizeof lock, "%s/" LOCK_FILE, path);
        int file = lstat(path, &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == geteuid()
                       ? open(lock, O_RDWR | O_NOFOLLOW | O_CLOEXEC)
                       : -1;
        if (file < 0) continue;
        if (flock(file, LOCK_EX | LOCK_NB) == 0) nftw(path, delete_entry, 8, FTW_DEPTH | FTW_PHYS);
        close(file);
    }
    if (folder) closedir(folder);
}

/* The lock file appears in the folder already locked: an unlocked one belongs to a dead launcher. */
static int create_lock_file(const char *root)
{
    char fresh[700], lock[700];
    snprintf(fresh, sizeof fresh, "%s/" LOCK_FILE ".new", root);
    snprintf(lock, sizeof lock, "%s/" LOCK_FILE, root);
    int file = open(fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0 && (flock(file, LOCK_EX | LOCK_NB) != 0 || rename(fresh, lock) != 0)) {
        close(file);
        file = -1;
    }
    return file;
}

/* Create a folder and its parents. */
static bool make_folders(const char *path)
{
    char folder[600];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0777) != 0 && errno != EEXIST) return false;
        *slash = '/';
    }
    return mkdir(folder, 0777) == 0 || errno == EEXIST;
}

static bool any(const uint8_t *streams, int count)
{
    for (int i = 0; i < count; i++)
        if (streams[i]) return true;
    return false;
}

bool ls_logs_open(ls_logs *logs, const ls_plan *plan)
{
    const ls_launch_opts *o = &plan->opts;
    memset(logs, 0, sizeof *logs);
    logs->processes = o->num_processes;
    bool asked = o->log_dir || any(plan->teed, o->num_processes) || any(plan->redirected, o->num_processes);
    logs->temporary = !asked;
    logs->lock = -1;
    const char *base = o->log_dir, *run = asked ? o->run_id : "lockstep";
    if (!base) base = ls_environment_get(plan->inherited, "TMPDIR");
    if (!base || !*base) base = "/tmp";
    if (!asked) sweep(base);
    int length = -1;
    if (!o->log_dir || make_folders(base)) length = snprintf(logs->root, sizeof logs->root, "%s/", base);
    if (length > 0 && length < 400) {
        char *name = logs->root + length;
        snprintf(name, 120, "%.100s_XXXXXX", run);
        for (; *name; name++)
            if (*name == '/') *name = '_';
        if (mkdtemp(logs->root)) {
            chmod(logs->root, 0755);
            if (!asked) logs->lock = create_lock_file(logs->root);
            return true;
        }
    }
    logs->root[0] = '\0';
    if (asked) ls_log_line(LS_LOG_ERROR, "launch: cannot create a log folder in %s: %s", base, strerror(errno));
    return !asked;
}

bool ls_logs_begin(ls_logs *logs, int attempt)
{
    if (!logs->root[0]) return true;
    for (int i = 0; i < logs->processes; i++) {
        char folder[700];
        snprintf(folder, sizeof folder, "%s/attempt_%d", logs->root, attempt);
        if (i == 0 && mkdir(folder, 0777) != 0 && errno != EEXIST) return false;
        snprintf(folder, sizeof folder, "%s/attempt_%d/%d", logs->root, attempt, i);
        if (mkdir(folder, 0777) != 0 && errno != EEXIST) return false;
    }
    return true;
}

void ls_logs_path(const ls_logs *logs, int attempt, int local_rank, const char *name, char *path, size_t size)
{
    path[0] = '\0';
    if (logs->root[0]) snprintf(path, size, "%s/attempt_%d/%d/%s", logs->root, attempt, local_rank, name);
}

void ls_logs_close(ls_logs *logs)
{
    if (logs->temporary && logs->root[0]) {
        nftw(logs->root, delete_entry, 8, FTW_DEPTH | FTW_PHYS);
        if (logs->lock >= 0) close(logs->lock);
    }
    logs->root[0] = '\0';
}
