/* profile.c - lockstep profile: run a program and show where its time went. */
#include <lockstep.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "options.h"

/* The folder of a second run, and so on, in that of the first. */
#define NEXT_RUN "run_%d"

/* How a program ended. */
typedef struct ending {
    int error;  /* errno: it could not be started; 0: it was */
    int status; /* as of waitpid() */
} ending;

/* Wait until it ends, and pass on the signals that another process sends: whoever ends this command means the program.
 * Those of the terminal (Ctrl-C) reach the program without help. Both must be blocked. */
static int wait_for(pid_t process, const sigset_t *signals)
{
    int status = 0;
    siginfo_t got;
    while (waitpid(process, &status, WNOHANG) == 0) {
        bool sent = sigwaitinfo(signals, &got) > 0 && got.si_signo != SIGCHLD && got.si_code <= 0;
        if (sent) kill(process, got.si_signo);
    }
    return status;
}

static ending run_program(char **program)
{
    static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};
    int report[2]; /* closed when the program starts; errno if it cannot */
    ending how = {.error = 0};
    sigset_t signals, before;
    if (pipe2(report, O_CLOEXEC) != 0) return (ending){.error = errno};
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++) sigaddset(&signals, passed_on[i]);
    signal(SIGCHLD, SIG_DFL); /* ignored, it would never come */
    sigprocmask(SIG_BLOCK, &signals, &before);
    pid_t process = fork();
    if (process == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        execvp(program[0], program);
        how.error = errno;
        _exit(write(report[1], &how.error, sizeof how.error) < 0 ? 126 : 127);
    }
    if (process < 0) how.error = errno;
    close(report[1]);
    if (process > 0 && read(report[0], &how.error, sizeof how.error) <= 0) how.error = 0;
    close(report[0]);
    if (process > 0) how.status = wait_for(process, &signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return how;
}

/* The code that a shell would give; a program that failed to start or was killed is named. */
static int exit_code(const char *program, ending how)
{
    if (how.error) {
        fprintf(stderr, "lockstep profile: %s: %s\n", program, strerror(how.error));
        return how.error == ENOENT ? 127 : 126;
    }
    if (!WIFSIGNALED(how.status)) return WEXITSTATUS(how.status);
    int number = WTERMSIG(how.status);
    fprintf(stderr, "lockstep profile: %s was ended by signal %d (%s)\n", program, number, strsignal(number));
    return 128 + number;
}

/* "rank_0_of_2.events" and "rank_0_of_2.tables": what a process leaves until ls_profile_join(). "profile.begun": what a
 * run leaves that has not ended. */
static bool is_part(const char *name)
{
    int rank, world, end = 0;
    if (strcmp(name, "profile.begun") == 0) return true;
    if (sscanf(name, "rank_%d_of_%d%n", &rank, &world, &end) != 2) return false;
    return strcmp(name + end, ".events") == 0 || strcmp(name + end, ".tables") == 0;
}

/* Remove what processes of an earlier program have left, which nothing joined: of a launch that was killed, say. */
static void remove_parts(const char *folder)
{
    DIR *listing = opendir(folder);
    for (const struct dirent *entry; listing && (entry = readdir(listing));)
        if (is_part(entry->d_name)) unlinkat(dirfd(listing), entry->d_name, 0);
    if (listing) closedir(listing);
}

/* The folder of a run, counted from 1; false if it does not exist. */
static bool folder_of_run(char path[PATH_MAX + 32], const char *folder, int number)
{
    if (number == 1) snprintf(path, PATH_MAX + 32, "%s", folder);
    else snprintf(path, PATH_MAX + 32, "%s/" NEXT_RUN, folder, number);
    return access(path, F_OK) == 0;
}

/* Print the tables of the first process, and of the others what comes before the first empty line: the whole. */
static void show(const char *folder)
{
    char path[PATH_MAX + 64], line[600];
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

static void remove_parts_of_runs(const char *folder)
{
    char path[PATH_MAX + 32];
    for (int number = 1; folder_of_run(path, folder, number); number++) remove_parts(path);
}

/* Join what the program's processes have left, and show it: a folder for each run, of which most programs have one.
 * Returns how many there were; -1: they cannot be joined, which ls_finish() says. */
static int show_runs(ls_run *run, const char *folder)
{
    char path[PATH_MAX + 32];
    int shown = 0;
    for (int number = 1; folder_of_run(path, folder, number); number++) {
        bool joined = ls_profile_join(run, path);
        if (joined) show(path);
        else if (ls_error(run) != LS_ERR_STATE) return -1;
        else ls_clear_error(run); /* no process of it has ended, or it is of an earlier program */
        shown += joined;
    }
    return shown;
}

static int run_profile(int argc, char **argv)
{
    const char *folder = "profile";
    char full[PATH_MAX];
    const option_row rows[] = {{.name = "-o", .text = &folder}, {.name = "--output", .text = &folder}};
    int program = options_read_before_program(&command_profile, argc, argv, rows, 2);
    if (program < 0) return EXIT_USAGE;
    bool is_new = mkdir(folder, 0777) == 0;
    if ((!is_new && errno != EEXIST) || !realpath(folder, full)) {
        fprintf(stderr, "lockstep profile: %s: %s\n", folder, strerror(errno));
        return 1;
    }
    remove_parts_of_runs(full);
    setenv("LOCKSTEP_PROFILE", full, true);
    ending how = run_program(argv + program);
    unsetenv("LOCKSTEP_PROFILE");
    int code = exit_code(argv[program], how);
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    int shown = how.error ? 0 : show_runs(run, folder);
    if (shown >= 0) remove_parts_of_runs(full);
    if (shown == 0 && is_new) rmdir(full);
    if (shown == 0 && !how.error && !WIFSIGNALED(how.status))
        fprintf(stderr, "lockstep profile: %s has left no profile: it makes one between ls_init() and ls_finish()\n",
                argv[program]);
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
