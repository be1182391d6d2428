/* command.h - a command of `lockstep`. Each has its own file and a row in the table of main.c. */
#ifndef LOCKSTEP_CLI_COMMAND_H
#define LOCKSTEP_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Exit codes: 0; 1 for a failure; 2 for an invalid command line. */
enum { EXIT_USAGE = 2 };

typedef struct command {
    const char *name;
    const char *summary;               /* one line of `lockstep help` */
    const char *usage;                 /* all of `lockstep help NAME`; ends with a line break */
    void (*more)(FILE *to);            /* prints what follows on that page; may be NULL */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
} command;

extern const command command_compile, command_completion, command_config, command_env, command_help, command_inspect,
    command_kernel, command_launch, command_plot, command_profile, command_test, command_tokenize, command_version,
    command_watch;

/* All commands in the order of `lockstep help`, terminated by NULL. */
extern const command *const commands[];

/* Write all of `lockstep help NAME`. */
void write_page(const command *about, FILE *to);

/* The name that was most likely meant; NULL if none is close. */
const char *nearest(const char *wanted, const char *const *names, size_t count);

/* Print "lockstep NAME: unknown option X" on stderr, with a hint at the help page; returns EXIT_USAGE. */
int no_such_option(const command *of, const char *option);

#endif
