/* launchers.h - the launchers of a job of several hosts, each printing to its own file, and their exit codes. */
#ifndef LOCKSTEP_TESTS_LAUNCHERS_H
#define LOCKSTEP_TESTS_LAUNCHERS_H

#include "shell.h"

enum { MOST_HOSTS = 3 };

static pid_t job[MOST_HOSTS]; /* number i prints to the file host<i> of the folder */
static char words[1 << 16];   /* output of one of them and its workers */

/* Exit code of a host; its output is in `words`. */
static int end_host(int which)
{
    int code = end_of(job[which]);
    char name[16];
    snprintf(name, sizeof name, "host%d", which);
    FILE *file = fopen(path(name), "r");
    size_t length = file ? fread(words, 1, sizeof words - 1, file) : 0;
    words[length] = '\0';
    if (file) fclose(file);
    return code;
}

__attribute__((unused)) static bool host_says(const char *text)
{
    bool found = strstr(words, text) != NULL;
    if (!found) fprintf(stderr, "no \"%s\" in:\n%s\n", text, words);
    return found;
}

#endif
