/* compile.c - lockstep compile: what the steps of a program would need on TPUs that are not here. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "options.h"

enum { LONGEST_LINE = 800 };

/* The chips, and what was found about programs so far. */
typedef struct findings {
    const char *topology;
    long long chips, used, memory; /* memory of each; 0: unknown */
    char kind[80];
    long long most,
        last; /* bytes that a program needs: the most of any, the most of the last step that had a new one */
    long long last_step;
    int programs;
    bool refused; /* the last, by the compiler */
} findings;

/* "1.5 GiB" */
static const char *in_words(long long bytes, char text[16])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1000 && unit < 4; unit++) value /= 1024;
    snprintf(text, 16, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

/* ---- what device xla reports: see plugins/device-xla/rehearse.c ---- */

static void show_chips(findings *f, const char *line)
{
    char text[16];
    if (sscanf(line, "%lld %lld %lld %79[^\n]", &f->chips, &f->used, &f->memory, f->kind) < 4) return;
    printf("%s: %lld x %s", f->topology, f->chips, f->kind);
    if (f->memory) printf(", %s each", in_words(f->memory, text));
    printf(", %lld of them used", f->used);
    printf("\n\n%6s %9s %10s %10s %10s %11s %10s %10s %10s %9s\n", "step", "operators", "arguments", "results",
           "aliased", "temporaries", "peak", "others", "code", "GFLOP");
}

static void show_program(findings *f, const char *line)
{
    enum { CODE, ARGUMENTS, RESULTS, ALIASED, TEMPORARIES, PEAK, OTHERS, COUNT };
    static const int order[COUNT] = {ARGUMENTS, RESULTS, ALIASED, TEMPORARIES, PEAK, OTHERS, CODE};
    long long step, calls, bytes[COUNT];
    double operations;
    char text[16];
    if (sscanf(line, "%lld %lld %lld %lld %lld %lld %lld %lld %lld %lf", &step, &calls, &bytes[CODE], &bytes[ARGUMENTS],
               &bytes[RESULTS], &bytes[ALIASED], &bytes[TEMPORARIES], &bytes[PEAK], &bytes[OTHERS], &operations) != 10)
        return;
    printf("%6lld %9lld", step, calls);
    for (int i = 0; i < COUNT; i++) printf(i == 3 ? " %11s" : " %10s", in_words(bytes[order[i]], text));
    printf(" %9.3g\n", operations / 1e9);
    long long needed = bytes[PEAK] + bytes[OTHERS] + bytes[CODE];
    if (step != f->last_step) f->last = 0;
    if (needed > f->last) f->last = needed;
    if (needed > f->most) f->most = needed;
    f->last_step = step;
    f->programs++;
}

static void show_refused(findings *f, const char *line)
{
    long long step, calls;
    int reason = 0;
    if (sscanf(line, "%lld %lld %n", &step, &calls, &reason) < 2) return;
    printf("%6lld %9lld %s", step, calls, line + reason);
    f->refused = true;
}

/* Show what comes until so many steps have ended, a program was refused, or the program itself has ended. */
static void follow(findings *f, FILE *reports, int steps)
{
    char line[LONGEST_LINE];
    int ended = 0;
    while (ended < steps && !f->refused && fgets(line, sizeof line, reports)) {
        if (strncmp(line, "chips ", 6) == 0) show_chips(f, line + 6);
        if (strncmp(line, "program ", 8) == 0) show_program(f, line + 8);
        if (strncmp(line, "refused ", 8) == 0) show_refused(f, line + 8);
        if (strncmp(line, "step ", 5) == 0) ended = atoi(line + 5);
        fflush(stdout);
    }
}

/* ---- the program ---- */

static void prepare(const char *topology, int to)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", to);
    setenv("LOCKSTEP_XLA_REPORT", path, 1);
    setenv("LOCKSTEP_XLA_TOPOLOGY", topology, 1);
    setenv("LOCKSTEP_DEVICE", "xla", 1);
    setenv("LOCKSTEP_USE_CPU", "0", 1);
}

static _Noreturn void become(char **program, const char *topology, const int ends[2])
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    close(ends[0]);
    prepare(topology, ends[1]);
    execvp(program[0], program);
    fprintf(stderr, "lockstep compile: %s: %s\n", program[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* Returns the exit code of the program, 0 if it was ended after its steps; -1: it could not be started. */
static int rehearse(findings *f, char **program, int steps)
{
    int ends[2], status = 0;
    if (pipe(ends) != 0) return -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) become(program, f->topology, ends);
    close(ends[1]);
    FILE *reports = fdopen(ends[0], "r");
    if (child < 0 || !reports) return -1;
    follow(f, reports, steps);
    bool ended_here = !feof(reports);
    if (ended_here) kill(child, SIGKILL); /* it would go on training, on the CPU, or run out of memory there */
    fclose(reports);
    if (waitpid(child, &status, 0) < 0) return -1;
    if (ended_here) return 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int judge(const findings *f, const char *program, int code)
{
    char needed[16], most[16], memory[16];
    if (!f->chips && code == 0)
        fprintf(stderr, "lockstep compile: %s has not used device xla: does it name another?\n", program);
    if (!f->chips || code) return code ? code : EXIT_FAILURE;
    if (!f->programs && !f->refused) {
        fprintf(stderr, "lockstep compile: %s has computed nothing\n", program);
        return EXIT_FAILURE;
    }
    if (f->refused) {
        printf("\nThe program cannot be compiled for %s. If it needs too much memory: a smaller batch, or bf16, needs "
               "less\n",
               f->topology);
        return EXIT_FAILURE;
    }
    bool fits = !f->memory || f->most <= f->memory;
    printf("\nStep %lld needs %s of each chip, the whole program %s", f->last_step, in_words(f->last, needed),
           in_words(f->most, most));
    if (f->memory) printf(": %s %s", fits ? "fits into" : "does not fit into", in_words(f->memory, memory));
    putchar('\n');
    return fits ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int run(int argc, char **argv)
{
    findings f = {.topology = NULL};
    double steps = 2;
    const option_row rows[] = {{.name = "--topology", .text = &f.topology}, {.name = "--steps", .number = &steps}};
    int program = options_read_before_program(&command_compile, argc, argv, rows, 2);
    if (program < 0) return EXIT_USAGE;
    if (!f.topology || steps < 1) {
        fputs(f.topology ? "lockstep compile: --steps must be at least 1\n"
                         : "lockstep compile: name the chips: --topology v5e:2x2\n",
              stderr);
        return EXIT_USAGE;
    }
    int code = rehearse(&f, argv + program, steps < INT32_MAX ? (int)steps : INT32_MAX);
    if (code < 0) return perror("lockstep compile"), EXIT_FAILURE;
    return judge(&f, argv[program], code);
}

const command command_compile = {
    .name = "compile",
    .summary = "show what the steps of a program would need on TPUs that are not here",
    .usage =
        "usage: lockstep compile --topology NAME [--steps N] PROGRAM [ARGUMENTS...]\n"
        "\n"
        "    lockstep compile --topology v5e:2x2 ./pets images/\n"
        "\n"
        "Runs the program until N of its optimiser steps have ended. What it computes is compiled for a chip of the\n"
        "topology, which needs libtpu (pip install libtpu) but no TPU, and computed on the CPU so that the program "
        "goes\n"
        "on. Prints for every compiled program what it needs of the chip's memory, the size of its code and its "
        "number\n"
        "of floating-point operations, and exits with 1 if it does not fit. The first step creates the optimiser's\n"
        "state: the second is like all that follow. See docs/tpu.md.\n"
        "\n"
        "  --topology NAME   v2:2x2, v3:2x2, v4:2x2x1, v5e:1x1, v5e:2x2, v5p:2x2x1, v6e:2x2, tpu7x:2x2x1, ...\n"
        "  --steps N         end the program after so many steps (2)\n",
    .run = run,
};
