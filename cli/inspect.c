/* inspect.c - lockstep inspect: what is in a checkpoint. */
#include <lockstep.h>

#include <stdio.h>
#include <string.h>

#include "command.h"

static int run_inspect(int argc, char **argv)
{
    const char *path = NULL;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) json = true;
        else if (argv[i][0] == '-') return no_such_option(&command_inspect, argv[i]);
        else if (!path) path = argv[i];
        else return fprintf(stderr, "lockstep inspect: one at a time, not %s and %s\n", path, argv[i]), EXIT_USAGE;
    }
    if (!path) {
        fputs("lockstep inspect: which file? Give a file or a folder; see lockstep help inspect\n", stderr);
        return EXIT_USAGE;
    }
    ls_run *run = ls_init(NULL, NULL);
    ls_inspect(run, path, stdout, json);
    return ls_finish(run);
}

const command command_inspect = {
    .name = "inspect",
    .summary = "what is in a checkpoint: names, types, shapes, sizes",
    .usage = "usage: lockstep inspect FILE|FOLDER [--json]\n"
             "\n"
             "Lists the tensors of a file of safetensors, PyTorch or NumPy, of the shards that an index names, or of\n"
             "the checkpoint in a folder. A folder that holds the state of a training run is described by that.\n"
             "Nothing in a file is run; a damaged one is refused with the reason.\n"
             "\n"
             "  --json    the same for programs\n",
    .run = run_inspect,
};
