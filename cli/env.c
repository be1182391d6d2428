/* env.c - lockstep env: what the library found on this machine. */
#include <lockstep/env.h>

#include <stdio.h>
#include <string.h>

#include "command.h"

static int run(int argc, char **argv)
{
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !json) return no_such_option(&command_env, argv[argc - 1]);
    ls_env_print(stdout, json);
    return 0;
}

const command command_env = {
    .name = "env",
    .summary = "this machine, the settings in force, transports between hosts, the kernels chosen",
    .usage =
        "usage: lockstep env [--json]\n"
        "\n"
        "Prints what Lockstep found on this machine: CPUs and instruction sets, the environment variables in\n"
        "force, the file that lockstep launch takes defaults from, the transports between hosts that can be loaded,\n"
        "and for every kernel the instruction set it was chosen for.\n"
        "\n"
        "  --json    the same for programs\n",
    .run = run,
};
