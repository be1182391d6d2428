/* inspect.c - lockstep inspect: show the contents of a checkpoint. */
#include <lockstep.h>

#include <stdio.h>

#include "options.h"

static int run_inspect(int argc, char **argv)
{
    bool json = false;
    const option_row rows[] = {{.name = "--json", .on = &json}};
    int left = options_read(&command_inspect, argc, argv, rows, 1);
    if (left == 0) fputs("lockstep inspect: which file? Give a file or a folder; see lockstep help inspect\n", stderr);
    if (left > 1) fprintf(stderr, "lockstep inspect: one at a time, not %s and %s\n", argv[1], argv[2]);
    if (left != 1) return EXIT_USAGE;
    ls_run *run = ls_init(NULL, NULL);
    ls_inspect(run, argv[1], stdout, json);
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
