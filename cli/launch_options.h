/* launch_options.h - the command line of `lockstep launch`: flags, then PET_* variables; parsed, checked, kept as
 * text. */
#ifndef LOCKSTEP_CLI_LAUNCH_OPTIONS_H
#define LOCKSTEP_CLI_LAUNCH_OPTIONS_H

#include <lockstep/launch.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum option {
#define OPTION(symbol, ...) OPTION_##symbol,
#include "launch_options.def"
#undef OPTION
    OPTION_COUNT
} option;

typedef struct launch_options {
    const char *value[OPTION_COUNT]; /* NULL: not given; "1" for a switch */
    char **program;                  /* the rest of argv; NULL: none */
    ls_launch_config config;         /* from the file; values may point here */
    char numbers[OPTION_COUNT][12];  /* or here */
    bool from_file[OPTION_COUNT];
} launch_options;

/* False on failure, with a one-line message in `why`. Options not given by flags come from PET_* in `environment`,
 * which is terminated by NULL. Values point into argv and environment. */
bool launch_options_read(launch_options *to, int argc, char **argv, const char *const *environment, char *why,
                         size_t size);

/* Fill in options that are not given from a configuration file: the given one, else the default one, else none. Reports
 * on stderr if it is accelerate's, and what in it is not supported. False on failure, with the reason in `why`. */
bool launch_options_configure(launch_options *options, char *why, size_t size);

/* Is it a non-negative integer and nothing else? */
bool is_count(const char *text);
/* The value as a number; `fallback` if not given. */
int option_count(const launch_options *options, option which, int fallback);
double option_number(const launch_options *options, option which, double fallback);

/* Print one line per option; those without effect come last. */
void launch_options_list(FILE *to);

/* The one of two spellings that was given. */
option given_of(const launch_options *options, option one, option other);

/* "--num_processes" */
const char *option_name(option which);
/* Write the "NAME=value" that workers get for a given option to `text`; false: none. */
bool option_variable(const launch_options *options, option which, char *text, size_t size);

#endif
