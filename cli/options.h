/* options.h - the command lines of commands with a few options. `lockstep launch` has a table of its own. */
#ifndef LOCKSTEP_CLI_OPTIONS_H
#define LOCKSTEP_CLI_OPTIONS_H

#include "command.h"

/* One option, and the variable that it sets: exactly one of the three. */
typedef struct option_row {
    const char *name; /* "--config_file", "-o"; `-` and `_` are the same inside */
    bool *on;         /* a switch: it has no value */
    const char **text;
    double *number;
} option_row;

/* Read "--name value" and "--name=value". Arguments that are not options move to the front, to argv[1] and on: returns
 * how many there are, or -1 after a word on stderr about what cannot be understood. */
int options_read(const command *of, int argc, char **argv, const option_row *rows, int count);

#endif
