/* shell.h - tests of the command: run it, read what it prints, start it in the background, end it. */
#ifndef LOCKSTEP_TESTS_SHELL_H
#define LOCKSTEP_TESTS_SHELL_H

#include "check.h"
#include "printed.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/ports.h"

#define LAUNCH LOCKSTEP_COMMAND " launch "

static char folder[64];
static pid_t shell_pid;

/* Run a shell command whose errors are kept too. Returns what shell() does. */
__attribute__((unused)) static int run(const char *format, ...)
{
    char command[4096], line[4200];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    snprintf(line, sizeof line, "{ %s; } 2>&1", command);
    return shell(line);
}

__attribute__((unused)) static bool says(const char *text)
{
    bool found = strstr(output, text) != NULL;
    if (!found) fprintf(stderr, "no \"%s\" in:\n%s\n", text, output);
    return found;
}

__attribute__((unused)) static const char *path(const char *name)
{
    static char text[2][200];
    static int turn;
    turn = !turn;
    snprintf(text[turn], sizeof text[turn], "%s/%s", folder, name);
    return text[turn];
}

__attribute__((unused)) static int count_lines(const char *file, const char *wanted)
{
    int count = 0;
    char line[256];
    FILE *from = fopen(file, "r");
    while (from && fgets(line, sizeof line, from)) count += strncmp(line, wanted, strlen(wanted)) == 0;
    if (from) fclose(from);
    return count;
}

__attribute__((unused)) static void wait_for(const char *file, const char *line, int count)
{
    for (int i = 0; i < 60000 && count_lines(file, line) < count; i++) usleep(1000);
}

/* Is `unshare` with these options allowed? Asked by tests that mount something, or start the first process of a
 * container. */
__attribute__((unused)) static bool may_unshare(const char *options)
{
    bool may = run("unshare %s", options) == 0;
    if (!may) check_skip("not allowed here: %s", output);
    return may;
}

__attribute__((unused)) static bool may_mount(void)
{
    return may_unshare("-m mount -t tmpfs none /tmp");
}

/* Start a shell command in the background; its output goes to a file of the folder. */
__attribute__((unused)) static pid_t start_line(const char *command, const char *name)
{
    pid_t pid = fork();
    if (pid) return pid;
    char line[2400];
    snprintf(line, sizeof line, "exec %s >%s 2>&1", command, path(name));
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    _exit(127);
}

__attribute__((unused)) static pid_t start_as(const char *arguments, const char *name)
{
    char line[2200];
    snprintf(line, sizeof line, LAUNCH "%s", arguments);
    return start_line(line, name);
}

__attribute__((unused)) static pid_t start(const char *arguments)
{
    return start_as(arguments, "out");
}

__attribute__((unused)) static int end_of(pid_t pid)
{
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

__attribute__((unused)) static bool is_alive(const char *pid_file)
{
    char text[32] = "";
    FILE *file = fopen(pid_file, "r");
    if (file && !fgets(text, sizeof text, file)) text[0] = '\0';
    if (file) fclose(file);
    return atoi(text) > 0 && kill(atoi(text), 0) == 0;
}

static void remove_folder(void)
{
    char line[100];
    snprintf(line, sizeof line, "rm -rf %s", folder);
    if (folder[0] && getpid() == shell_pid && system(line) != 0) fprintf(stderr, "%s is left\n", folder);
}

/* Replace the folder with a new, empty one. */
__attribute__((unused)) static void make_folder(void)
{
    remove_folder();
    strcpy(folder, "/tmp/launch_test_XXXXXX");
    if (!mkdtemp(folder)) exit(1);
    setenv("TMPDIR", folder, 1); /* so that leftovers of a killed launcher are removed with it */
}

/* Call first: makes a folder for files, and removes the user's configuration from the environment. */
__attribute__((unused)) static void begin_shell(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    shell_pid = getpid();
    atexit(remove_folder);
    make_folder();
    setenv("LOCKSTEP_HOME", folder, 1);
    setenv("HF_HOME", folder, 1);
}

#endif
