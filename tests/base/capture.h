/* capture.h - run a function in a child process with an environment of its own and read what it writes to stderr.
 *
 * Settings are read once per process, so each case needs a fresh one: call this before anything else asks for them. */
#ifndef LOCKSTEP_TESTS_CAPTURE_H
#define LOCKSTEP_TESTS_CAPTURE_H

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns the wait status. `environment` is "NAME=value" or NULL; text gets what was written, cut to its size. */
static inline int run_captured(char *environment, int (*body)(void), char *text, size_t size)
{
    int ends[2];
    if (pipe(ends) != 0) return -1;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        if (environment) putenv(environment);
        _exit(body());
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t got;
    while (length + 1 < size && (got = read(ends[0], text + length, size - 1 - length)) > 0) length += (size_t)got;
    text[length] = '\0';
    close(ends[0]);
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

#endif
