/* options.h - options of simple commands. `lockstep launch` has its own table. */
#ifndef LOCKSTEP_CLI_OPTIONS_H
#define LOCKSTEP_CLI_OPTIONS_H

#include "command.h"

/* One option and the variable it sets: exactly one of the three. */
typedef struct option_row {
    const char *name; /* "--config_file", "-o"; `-` and `_` inside are equivalent */
    bool *on;         /* a switch, without a value */
    const char **text;
    double *number;
} option_row;

/* Parse "--name value" and "--name=value". Other arguments move to the front, to argv[1] and up: returns their number,
 * or -1 after a message on stderr. */
int options_read(const command *of, int argc, char **argv, const option_row *rows, int count);
/* The same for a command that runs a program, whose own options follow its name, or "--". Returns the index of the
 * program, or -1 after a message on stderr. */
int options_read_before_program(const command *of, int argc, char **argv, const option_row *rows, int count);

#endif
