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
    .summary = "show this machine, the settings, transports between hosts, GPUs and selected kernels",
    .usage =
        "usage: lockstep env [--json] [--config_file FILE]\n"
        "\n"
        "Prints what Lockstep found on this machine: CPUs and instruction sets, the environment variables that are\n"
        "set, the file that lockstep launch takes defaults from, the transports between hosts that can be loaded,\n"
        "the GPUs, and the instruction set selected for every kernel.\n"
        "\n"
        "  --json                print JSON\n"
        "  --config_file FILE    show this file instead of the one that lockstep launch would use\n",
    .run = run,
};
