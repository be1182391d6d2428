/* watch.c - lockstep watch: show runs in the browser. */
#include <lockstep.h>

#include <stdio.h>

#include "options.h"

static int run_watch(int argc, char **argv)
{
    const char *export_to = NULL;
    double port = LS_WATCH_PORT;
    const option_row rows[] = {{.name = "--port", .number = &port}, {.name = "--export", .text = &export_to}};
    int left = options_read(&command_watch, argc, argv, rows, (int)(sizeof rows / sizeof *rows));
    if (left > 1) fprintf(stderr, "lockstep watch: give one folder, not %s and %s\n", argv[1], argv[2]);
    if (left < 0 || left > 1) return EXIT_USAGE;
    const char *folder = left == 1 ? argv[1] : ".";
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    if (!export_to) ls_watch(run, folder, .port = (int)port);
    else if (ls_watch_export(run, folder, export_to)) printf("%s\n", export_to);
    return ls_finish(run);
}

const command command_watch = {
    .name = "watch",
    .summary = "show runs in the browser while they train",
    .usage = "usage: lockstep watch [FOLDER] [--port N | --export page.html]\n"
             "\n"
             "Serves a page on this machine that shows the runs in FOLDER (the current one) and below: curves as they\n"
             "grow, several runs in one plot, settings, checkpoints, and what each process does. Open the address\n"
             "that is printed. For a machine that you reach with ssh: ssh -L 6116:127.0.0.1:6116 HOST. End it with\n"
             "Ctrl-C.\n"
             "\n"
             "  --port N         port of the page; 0: any that is free (6116)\n"
             "  --export FILE    write the page as it is now into one HTML file that needs no server, and end\n",
    .run = run_watch,
};
