/* job.h - jobs of `lockstep launch` on several hosts: start them, disturb them, check how they end. */
#ifndef LOCKSTEP_TESTS_JOB_H
#define LOCKSTEP_TESTS_JOB_H

#include "beside.h"
#include "launchers.h"

#include <time.h>

__attribute__((unused)) static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static char host_name(int which)
{
    return (char)('a' + which);
}

/* The launcher of one host, with two workers. `where`: how hosts find each other. */
static void start_launcher(int which, const char *where, const char *options, const char *program)
{
    char line[1600], name[16];
    snprintf(name, sizeof name, "host%d", which);
    snprintf(line, sizeof line,
             "env LOCKSTEP_TERMINATION_LOG=%s/log%d " LAUNCH
             "%s --nproc-per-node 2 --no-pin --shutdown-timeout 10 %s %s",
             folder, which, where, options, program);
    close(open(path(name), O_CREAT | O_WRONLY, 0644));
    snprintf(name, sizeof name, "log%d", which);
    close(open(path(name), O_CREAT | O_WRONLY, 0644)); /* as Kubernetes does */
    snprintf(name, sizeof name, "host%d", which);
    job[which] = start_on(host_name(which), line, name);
}

/* One host of a job with fixed ranks; host a leads. The port is always the same: it must be free again. */
__attribute__((unused)) static void start_host(int which, int hosts, const char *options, const char *program)
{
    char where[128];
    snprintf(where, sizeof where, "--nnodes %d --node-rank %d --master-addr a --master-port 4000", hosts, which);
    start_launcher(which, where, options, program);
}

__attribute__((unused)) static void start_hosts(int hosts, const char *options, const char *program)
{
    make_folder();
    for (int i = 0; i < hosts; i++) start_host(i, hosts, options, program);
}

/* All hosts must exit with this code, and print this text. */
__attribute__((unused)) static void expect_ends(int hosts, int code, const char *text)
{
    for (int i = 0; i < hosts; i++) {
        int got = end_host(i);
        CHECK_MSG(got == code, "host %c ended with %d, expected %d:\n%s", host_name(i), got, code, words);
        CHECK(host_says(text));
    }
}

/* Wait until a host has printed the cause of a failure. */
__attribute__((unused)) static void wait_for_cause(int which)
{
    char name[16];
    snprintf(name, sizeof name, "host%d", which);
    for (int i = 0; i < 6000 && run("grep -q 'first cause' %s", path(name)) != 0; i++) usleep(10000);
}

/* Kubernetes would show this. */
__attribute__((unused)) static bool termination_log_says(int which, const char *text)
{
    char name[16];
    snprintf(name, sizeof name, "log%d", which);
    run("cat %s", path(name));
    return says(text);
}

/* Number of processes before the first job: no job may leave orphans or zombies. */
static int processes_before;

__attribute__((unused)) static void expect_nothing_left(void)
{
    for (int i = 0; i < 60000 && count_processes(NULL) > processes_before; i++) usleep(1000);
    CHECK_MSG(count_processes(NULL) == processes_before, "%d processes, %d before", count_processes(NULL),
              processes_before);
}

/* ---- Workers that wait for a signal to end: they write "ready RANK PID" and "saved" to the file "marks" ---- */

__attribute__((unused)) static const char *waiting_workers(void)
{
    static char program[256];
    snprintf(program, sizeof program, WORKER " save %s/marks", folder);
    return program;
}

/* Start a job of them, and wait until all are ready. */
__attribute__((unused)) static void start_waiting(int hosts, const char *options)
{
    make_folder();
    const char *program = waiting_workers();
    for (int i = 0; i < hosts; i++) start_host(i, hosts, options, program);
    wait_for(path("marks"), "ready", 2 * hosts);
}

__attribute__((unused)) static pid_t pid_of_rank(int rank)
{
    char line[256];
    int found, pid, last = 0;
    FILE *file = fopen(path("marks"), "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "ready %d %d", &found, &pid) == 2 && found == rank) last = pid;
    if (file) fclose(file);
    CHECK_MSG(last, "rank %d is not there", rank);
    return last;
}

#endif
