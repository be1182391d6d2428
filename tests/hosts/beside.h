/* beside.h - tests that run beside several hosts (hosts.c): start programs there, disturb their network. */
#ifndef LOCKSTEP_TESTS_BESIDE_H
#define LOCKSTEP_TESTS_BESIDE_H

#include "shell.h"

#include <dirent.h>

/* Call first: restart the test beside this many hosts, then continue as begin_shell(). If hosts cannot be created, all
 * tests are skipped. */
__attribute__((unused)) static void begin_beside(int hosts, int argc, char **argv)
{
    if (getenv("BESIDE_HOSTS") || run(HOSTS " 1 true") != 0) {
        if (!getenv("BESIDE_HOSTS"))
            snprintf(check_skip_all, sizeof check_skip_all, "%.*s", (int)strcspn(output, "\n"), output);
        begin_shell(argc, argv);
        return;
    }
    char count[16];
    snprintf(count, sizeof count, "%d", hosts);
    setenv("BESIDE_HOSTS", count, 1);
    execl(HOSTS, HOSTS, count, argv[0], argc > 1 ? argv[1] : NULL, (char *)NULL);
    perror(HOSTS);
    exit(1);
}

/* Start a shell's line on a host; its output goes to a file of the folder. */
__attribute__((unused)) static pid_t start_on(char host, const char *command, const char *name)
{
    char line[2300];
    snprintf(line, sizeof line, HOSTS " on %c %s", host, command);
    return start_line(line, name);
}

/* "up" or "down": the cable between a host and all others. */
__attribute__((unused)) static void set_cable(char host, const char *state)
{
    CHECK_MSG(run("ip link set host-%c %s", host, state) == 0, "%s", output);
}

/* From now on packets between a host and the others are delayed by `delay` milliseconds, and `loss` percent of them are
 * lost. */
__attribute__((unused)) static pid_t start_netem(char host, int delay, int loss)
{
    char line[256];
    snprintf(line, sizeof line, "$(dirname " HOSTS ")/netem host-%c %d %d", host, delay, loss);
    unlink(path("netem")); /* output of the previous one */
    pid_t pid = start_line(line, "netem");
    /* Without a time limit, for busy machines: it reports that it is ready, or it exits. */
    for (siginfo_t end = {0}; !end.si_pid && count_lines(path("netem"), "ready") == 0; usleep(1000))
        if (waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT) != 0) break;
    CHECK(count_lines(path("netem"), "ready") == 1);
    return pid;
}

__attribute__((unused)) static void end_netem(pid_t netem, char host)
{
    kill(netem, SIGTERM);
    end_of(netem);
    CHECK_MSG(run("ip link del sky && ip link set host-%c master bridge", host) == 0, "%s", output);
}

/* Processes of all hosts, including zombies: all, or those whose command line contains the text. */
__attribute__((unused)) static int count_processes(const char *text)
{
    DIR *processes = opendir("/proc");
    int count = 0;
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        char name[300], line[4096];
        if (atoi(entry->d_name) <= 0) continue;
        snprintf(name, sizeof name, "/proc/%s/cmdline", entry->d_name);
        FILE *file = fopen(name, "r");
        size_t length = file ? fread(line, 1, sizeof line - 1, file) : 0;
        if (file) fclose(file);
        for (size_t i = 0; i < length; i++)
            if (!line[i]) line[i] = ' ';
        line[length] = '\0';
        count += !text || strstr(line, text) != NULL;
    }
    if (processes) closedir(processes);
    return count;
}

#endif
