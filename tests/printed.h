/* printed.h - commands that a test gives to the shell, and what they print. */
#ifndef LOCKSTEP_TESTS_PRINTED_H
#define LOCKSTEP_TESTS_PRINTED_H

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "check.h"

static char output[1 << 22]; /* of the last command */

/* Run a command, and keep what it prints. Returns its exit code, 1000 + the signal if it was killed, -1 if it could not
 * be started. */
static inline int shell(const char *command)
{
    FILE *pipe = popen(command, "r");
    size_t length = pipe ? fread(output, 1, sizeof output - 1, pipe) : 0;
    output[length] = '\0';
    if (!pipe) return -1;
    int status = pclose(pipe);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

#define HAS(words) CHECK_MSG(strstr(output, words), "\"%s\" is not in:\n%s", words, output)
#define LACKS(words) CHECK_MSG(!strstr(output, words), "\"%s\" is in:\n%s", words, output)

#endif
