/* launch_options.h - the command line of `lockstep launch`: flags, then PET_* variables; read, checked,
 * kept as text. */
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
    const char *value[OPTION_COUNT]; /* NULL: not given; a switch that is on is "1" */
    char **program;                  /* the rest of argv; NULL: there is none */
    ls_launch_config config;         /* of the file; texts of values point here */
    char numbers[OPTION_COUNT][12];  /* and here */
} launch_options;

/* False when something cannot be understood or is refused; the message, one line, is in `why`. What flags leave open
 * comes from PET_* in `environment`, a list that ends with NULL. Texts stay in argv and environment. */
bool launch_options_read(launch_options *to, int argc, char **argv, const char *const *environment, char *why,
                         size_t size);

/* Take what is still open from a configuration file: the one that was given, else the one in force, else none. Says on
 * stderr when it is accelerate's, and when that asks for what is not supported. False: `why` says what is wrong. */
bool launch_options_configure(launch_options *options, char *why, size_t size);

/* Is this number the configuration file's? */
bool option_from_file(const launch_options *options, option which);

/* A whole number, not negative, and nothing else? */
bool is_count(const char *text);
/* Numbers among them; `fallback` when not given. */
int option_count(const launch_options *options, option which, int fallback);
double option_number(const launch_options *options, option which, double fallback);

/* One line per option; those that do nothing come last. */
void launch_options_list(FILE *to);

/* Of two spellings the one that was given. */
option given_of(const launch_options *options, option one, option other);

/* "--num_processes" */
const char *option_name(option which);
/* "NAME=value" that workers get for a given option, written to text; false: none. */
bool option_variable(const launch_options *options, option which, char *text, size_t size);

#endif
