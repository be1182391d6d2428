/* snapshot.c - the session as it was before a cell. */
#include <dirent.h>
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

snapshot_state snapshot_begin(void)
{
    if (has_threads()) return SNAPSHOT_NONE;
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
