/* lost.c - a benchmark program: how long until a process learns that the one it waits for was killed. */
#include "bench.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/shm/shm.h"

static ls_comm *join(int file, int rank, ls_message *why)
{
    ls_segment *segment = ls_segment_open(dup(file), 2, why);
    ls_comm *comm = segment ? ls_shm_join(segment, rank, why) : NULL;
    ls_segment_release(segment);
    return comm;
}

/* Join, but never call the collective. */
static pid_t start_silent(int file)
{
    ls_message why;
    pid_t pid = fork();
    if (pid != 0) return pid;
    ls_comm *comm = join(file, 1, &why);
    while (comm) pause();
    _exit(1);
}

/* Kill it while the caller waits, and record the time. */
static pid_t start_killer(pid_t victim, double *when)
{
    pid_t pid = fork();
    if (pid != 0) return pid;
    usleep(50000);
    *when = bench_now();
    kill(victim, SIGKILL);
    _exit(0);
}

/* Seconds; 0 if it could not be measured. */
static double lose_one(double *when)
{
    ls_message why = {{0}};
    float number = 1;
    int file = ls_segment_make(2, &why);
    if (file < 0) return 0;
    pid_t silent = start_silent(file), killer = -1;
    ls_comm *comm = join(file, 0, &why);
    ls_status status = LS_OK;
    double told = 0;
    if (comm) {
        killer = start_killer(silent, when);
        status = ls_comm_all_reduce(comm, &number, 1, LS_F32, LS_REDUCE_SUM, "bench", &why);
        told = bench_now();
    } else {
        kill(silent, SIGKILL);
    }
    if (killer > 0) waitpid(killer, NULL, 0);
    waitpid(silent, NULL, 0);
    ls_comm_close(comm);
    close(file);
    return status ? told - *when : 0;
}

int bench_lost_peer(void)
{
    double *when = mmap(NULL, sizeof *when, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), slowest = 0;
    for (int i = 0; when != MAP_FAILED && i < 5; i++) {
        double seconds = lose_one(when);
        if (seconds <= 0) return 1;
        if (seconds > slowest) slowest = seconds;
    }
    printf("%.6g\n", 1e3 * slowest);
    return 0;
}
