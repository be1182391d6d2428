/* logs.c - folders of a job. */
#include "launch/logs.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[] = {"stdout.log", "stderr.log", "error.json"};

/* Makes a folder and those above it. */
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
    const char *base = o->log_dir, *run = asked ? o->run_id : "lockstep";
    if (!base) base = ls_environment_get(plan->inherited, "TMPDIR");
    if (!base || !*base) base = "/tmp";
    int length = -1;
    if (!o->log_dir || make_folders(base)) length = snprintf(logs->root, sizeof logs->root, "%s/", base);
    if (length > 0 && length < 400) {
        char *name = logs->root + length;
        snprintf(name, 120, "%.100s_XXXXXX", run);
        for (; *name; name++)
            if (*name == '/') *name = '_';
        if (mkdtemp(logs->root)) {
            chmod(logs->root, 0755);
            return true;
        }
    }
    logs->root[0] = '\0';
    if (asked) ls_log_line(LS_LOG_ERROR, "launch: no folder for logs can be made in %s: %s", base, strerror(errno));
    return !asked;
}

bool ls_logs_begin(ls_logs *logs, int attempt)
{
    if (!logs->root[0]) return true;
    logs->attempts = attempt + 1;
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
    char path[700];
    for (int attempt = 0; logs->temporary && logs->root[0] && attempt < logs->attempts; attempt++) {
        for (int i = 0; i < logs->processes; i++) {
            for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
                ls_logs_path(logs, attempt, i, names[n], path, sizeof path);
                unlink(path);
            }
            snprintf(path, sizeof path, "%s/attempt_%d/%d", logs->root, attempt, i);
            rmdir(path);
        }
        snprintf(path, sizeof path, "%s/attempt_%d", logs->root, attempt);
        rmdir(path);
    }
    if (logs->temporary && logs->root[0]) rmdir(logs->root);
    logs->root[0] = '\0';
}
