/* version.c - lockstep version. */
#include <lockstep/version.h>

#include <stdio.h>

#include "command.h"

static int run(int argc, char **argv)
{
    if (argc > 1) return no_such_option(&command_version, argv[1]);
    printf("lockstep %s\n", ls_version());
    return 0;
}

const command command_version = {
    .name = "version",
    .summary = "print the version of the library",
    .usage = "usage: lockstep version\n",
    .run = run,
};
