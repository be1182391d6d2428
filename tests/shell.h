/* shell.h - commands that a test gives to the shell, and what they print. */
#ifndef LOCKSTEP_TESTS_SHELL_H
#define LOCKSTEP_TESTS_SHELL_H

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "check.h"

static char output[1 << 16]; /* of the last command */

/* Run a command, and keep what it prints. Returns its exit code, -1 if it was killed. */
static inline int shell(const char *command)
{
    FILE *pipe = popen(command, "r");
    size_t length = pipe ? fread(output, 1, sizeof output - 1, pipe) : 0;
    output[length] = '\0';
    int status = pipe ? pclose(pipe) : -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define HAS(words) CHECK_MSG(strstr(output, words), "\"%s\" is not in:\n%s", words, output)
#define LACKS(words) CHECK_MSG(!strstr(output, words), "\"%s\" is in:\n%s", words, output)

#endif
