/* env.c - lockstep env: what the library found on this machine. */
#include <lockstep/env.h>

#include <stdio.h>
#include <string.h>

#include "command.h"

static int run(int argc, char **argv)
{
    bool json = false;
    const char *file = NULL;
    for (int i = 1; i < argc; i++) {
        size_t name = strcspn(argv[i], "=");
        bool config = (name == 13 && strncmp(argv[i], "--config_file", name) == 0) ||
                      (name == 13 && strncmp(argv[i], "--config-file", name) == 0);
        if (strcmp(argv[i], "--json") == 0) json = true;
        else if (config && argv[i][name]) file = argv[i] + name + 1;
        else if (config && argv[i + 1]) file = argv[++i];
        else return no_such_option(&command_env, argv[i]);
    }
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
