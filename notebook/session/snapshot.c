/* snapshot.c - the session as it was before a cell. */
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "session.h"

static bool has_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks) return true; /* perhaps */
    int count = 0;
    for (struct dirent *entry; (entry = readdir(tasks));) count += entry->d_name[0] != '.';
    closedir(tasks);
    return count > 1;
}

static int status_of(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0) continue;
    return status;
}

/* ---- Memory ----
 *
 * Both processes share all pages until one writes to them. In the worst case the cell rewrites everything, and the
 * session exists twice: there must be room for that, or the system would end a process that did nothing wrong. */

/* A number of bytes in a file that consists of it; `otherwise` if there is none, as for "max". */
static double number_in(const char *path, double otherwise)
{
    FILE *file = fopen(path, "re");
    double number;
    if (!file || fscanf(file, "%lf", &number) != 1) number = otherwise;
    if (file) fclose(file);
    return number;
}

/* What a container counts as used although it gives it up when asked: pages of files that nothing has read lately. */
static double spare_file_bytes(void)
{
    double bytes = 0;
    char line[256];
    FILE *file = fopen("/sys/fs/cgroup/memory.stat", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "inactive_file %lf", &bytes) == 1) break;
    if (file) fclose(file);
    return bytes;
}

/* What the system, or the container, can still give. */
static double available_bytes(void)
{
    double kilobytes = HUGE_VAL;
    char line[256];
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lf kB", &kilobytes) == 1) break;
    if (file) fclose(file);
    double limit = number_in("/sys/fs/cgroup/memory.max", HUGE_VAL);
    double used = number_in("/sys/fs/cgroup/memory.current", 0) - spare_file_bytes();
    return fmin(1024 * kilobytes, limit - used);
}

/* Pages that are not those of a file: programs and libraries are shared for ever. */
static double own_bytes(void)
{
    double resident = 0, shared = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%*f %lf %lf", &resident, &shared) != 2) resident = shared = 0;
    if (file) fclose(file);
    return (resident - shared) * (double)sysconf(_SC_PAGESIZE);
}

/* ---- The two processes ---- */

snapshot_obstacle snapshot_prevented_by(void)
{
    if (has_threads()) return SNAPSHOT_THREADS;
    return own_bytes() > available_bytes() ? SNAPSHOT_MEMORY : SNAPSHOT_POSSIBLE;
}

snapshot_state snapshot_begin(void)
{
    fflush(NULL); /* or both would write what is buffered */
    pid_t child = fork();
    if (child < 0) return SNAPSHOT_NONE;
    if (child == 0) {
        setpgid(0, 0);                    /* interrupts and the kernel's SIGKILL reach the cell, not the snapshot */
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* the snapshot dies with the kernel, and this with the snapshot */
        return SNAPSHOT_TAKEN;
    }
    session_message restored = {.event = SESSION_RESTORED, .process = getpid()};
    restored.status = status_of(child);
    kill(-child, SIGKILL); /* what the cell has started and left behind */
    session_send(&restored, NULL, 0);
    return SNAPSHOT_RESTORED;
}

void snapshot_end(void)
{
    pid_t snapshot = getppid();
    prctl(PR_SET_PDEATHSIG, 0);
    kill(snapshot, SIGKILL);
    const struct timespec moment = {.tv_nsec = 50 * 1000};
    while (getppid() == snapshot) nanosleep(&moment, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the kernel is the parent now */
}
