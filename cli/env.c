/* env.c - lockstep env: what the library found on this machine. */
#include <lockstep/env.h>

#include <stdio.h>

#include "options.h"

static int run(int argc, char **argv)
{
    bool json = false;
    const char *file = NULL;
    const option_row rows[] = {{.name = "--json", .on = &json}, {.name = "--config_file", .text = &file}};
    int left = options_read(&command_env, argc, argv, rows, 2);
    if (left > 0) return no_such_option(&command_env, argv[1]);
    if (left < 0) return EXIT_USAGE;
    ls_env_print(stdout, json, file);
    return 0;
}

const command command_env = {
    .name = "env",
    .summary = "this machine, the settings in force, transports between hosts, the kernels chosen",
    .usage =
        "usage: lockstep env [--json] [--config_file FILE]\n"
        "\n"
        "Prints what Lockstep found on this machine: CPUs and instruction sets, the environment variables in\n"
        "force, the file that lockstep launch takes defaults from, the transports between hosts that can be loaded,\n"
        "and for every kernel the instruction set it was chosen for.\n"
        "\n"
        "  --json                the same for programs\n"
        "  --config_file FILE    show this file, not the one that lockstep launch would take now\n",
    .run = run,
};
