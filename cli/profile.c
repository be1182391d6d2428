/* profile.c - lockstep profile: run a program and show where its time went. */
#include <lockstep.h>

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "options.h"

/* Options come before the program; those after it are its own. Returns the index of the program. */
static int find_program(int argc, char **argv)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        bool takes_next = strcmp(argv[i], "-o") == 0 || strcmp(argv[i], "--output") == 0;
        if (strcmp(argv[i], "--") == 0) return i + 1;
        if (takes_next) i++;
    }
    return i < argc ? i : argc;
}

/* Run it with its output and signals its own; returns its exit code as a shell would. */
static int run_program(char **program)
{
    pid_t process = fork();
    if (process == 0) {
        execvp(program[0], program);
        fprintf(stderr, "lockstep profile: %s: %s\n", program[0], strerror(errno));
        _exit(errno == ENOENT ? 127 : 126);
    }
    int status = 0;
    signal(SIGINT, SIG_IGN); /* Ctrl-C ends the program; what it measured is shown */
    while (process > 0 && waitpid(process, &status, 0) < 0 && errno == EINTR) {}
    if (process < 0) fprintf(stderr, "lockstep profile: cannot start a process: %s\n", strerror(errno));
    return process < 0 ? 1 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Print the tables of the first process, and of the others what comes before the first empty line: the whole. */
static void show(const char *folder)
{
    char path[PATH_MAX + 16], line[600];
    int rank = -1;
    bool shown = true;
    snprintf(path, sizeof path, "%s/profile.txt", folder);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        bool begins = strncmp(line, "rank ", 5) == 0;
        rank += begins;
        shown = begins || (shown && (rank == 0 || line[0] != '\n'));
        if (shown) fputs(line, stdout);
    }
    if (file) fclose(file);
    printf("%s/trace.json opens in ui.perfetto.dev\n", folder);
}

static int run_profile(int argc, char **argv)
{
    const char *folder = "profile";
    char full[PATH_MAX];
    const option_row rows[] = {{.name = "-o", .text = &folder}, {.name = "--output", .text = &folder}};
    int program = find_program(argc, argv), own = program < argc && strcmp(argv[program - 1], "--") == 0;
    if (options_read(&command_profile, program - own, argv, rows, 2) != 0) return EXIT_USAGE;
    if (program >= argc) {
        fputs("lockstep profile: give a program; see lockstep help profile\n", stderr);
        return EXIT_USAGE;
    }
    if ((mkdir(folder, 0777) != 0 && errno != EEXIST) || !realpath(folder, full)) {
        fprintf(stderr, "lockstep profile: %s: %s\n", folder, strerror(errno));
        return 1;
    }
    setenv("LOCKSTEP_PROFILE", full, true);
    int code = run_program(argv + program);
    unsetenv("LOCKSTEP_PROFILE");
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    if (ls_profile_join(run, full)) show(folder);
    int joined = ls_finish(run);
    return code ? code : joined;
}

const command command_profile = {
    .name = "profile",
    .summary = "run a program and show where its time went",
    .usage = "usage: lockstep profile [-o FOLDER] PROGRAM [ARGUMENTS...]\n"
             "\n"
             "Runs a program, or a launcher with its programs (lockstep profile lockstep launch -n 2 ./train), and\n"
             "prints where the time of its runs went: operators, modules, waiting for other processes, for data and\n"
             "for the device. FOLDER/profile.txt has the tables of all processes, FOLDER/trace.json a timeline of\n"
             "them that opens in Perfetto (ui.perfetto.dev) and chrome://tracing. Exits as the program does.\n"
             "\n"
             "  -o, --output FOLDER   where the files go (profile)\n",
    .run = run_profile,
};
