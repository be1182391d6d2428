/* inspect.c - lockstep inspect: show the contents of a checkpoint. */
#include <lockstep.h>

#include <stdio.h>

#include "options.h"

static int run_inspect(int argc, char **argv)
{
    bool json = false;
    const option_row rows[] = {{.name = "--json", .on = &json}};
    int left = options_read(&command_inspect, argc, argv, rows, 1);
    if (left == 0) fputs("lockstep inspect: give a file or a folder; see lockstep help inspect\n", stderr);
    if (left > 1) fprintf(stderr, "lockstep inspect: give one file at a time, not %s and %s\n", argv[1], argv[2]);
    if (left != 1) return EXIT_USAGE;
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    ls_inspect(run, argv[1], stdout, json);
    return ls_finish(run);
}

const command command_inspect = {
    .name = "inspect",
    .summary = "list the contents of a checkpoint: names, types, shapes, sizes",
    .usage = "usage: lockstep inspect FILE|FOLDER [--json]\n"
             "\n"
             "Lists the tensors in a safetensors, PyTorch or NumPy file, in the shards named by an index, or in the\n"
             "checkpoint in a folder. For the checkpoint of a training run it shows the state of the run. No code in\n"
             "a file is executed; a damaged file is refused with the reason.\n"
             "\n"
             "  --json    print JSON\n",
    .run = run_inspect,
};
