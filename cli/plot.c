/* plot.c - lockstep plot: draw recorded values. */
#include <lockstep.h>

#include <stdio.h>
#include <string.h>

#include "options.h"

typedef struct request {
    const char *output, *keys, *title;
    double smooth, width, height;
    bool log_x, log_y, beside;
    char **runs;
    int run_count;
} request;

/* The name of a run in the legend: the last part of its path. */
static void name_of(const char *path, char name[256])
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    size_t begin = length;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    snprintf(name, 256, "%.*s", (int)(length - begin), path + begin);
}

static void describe(const ls_history *history, const char *path)
{
    printf("%s:", path);
    for (int i = 0; i < ls_history_count(history); i++) {
        ls_curve curve = ls_history_at(history, i);
        double last = curve.count ? curve.y[curve.count - 1] : 0;
        char name[512]; /* names come from files */
        printf("%s %s (%lld points, last %.4g)", i ? "," : "", ls_printable(name, sizeof name, curve.name),
               (long long)curve.count, last);
    }
    putchar('\n');
}

static void draw(ls_run *run, const request *r)
{
    ls_plot *plot = ls_plot_new(run, .title = r->title, .smooth = r->smooth, .width = (int)r->width,
                                .height = (int)r->height, .log_x = r->log_x, .log_y = r->log_y, .beside = r->beside);
    for (int i = 0; i < r->run_count && !ls_error(run); i++) {
        char name[256];
        name_of(r->runs[i], name);
        ls_history *history = ls_history_read(run, r->runs[i]);
        if (history) describe(history, r->runs[i]);
        ls_plot_add_history(plot, history, r->keys, .name = r->run_count > 1 ? name : NULL);
    }
    if (ls_plot_write(plot, r->output)) printf("%s\n", r->output);
}

static int run_plot(int argc, char **argv)
{
    request r = {.output = "curve.svg", .width = LS_AUTO, .height = LS_AUTO};
    const option_row rows[] = {
        {.name = "-o", .text = &r.output},         {.name = "--output", .text = &r.output},
        {.name = "--keys", .text = &r.keys},       {.name = "--title", .text = &r.title},
        {.name = "--smooth", .number = &r.smooth}, {.name = "--width", .number = &r.width},
        {.name = "--height", .number = &r.height}, {.name = "--log_x", .on = &r.log_x},
        {.name = "--log_y", .on = &r.log_y},       {.name = "--log", .on = &r.log_y},
        {.name = "--beside", .on = &r.beside},
    };
    r.run_count = options_read(&command_plot, argc, argv, rows, (int)(sizeof rows / sizeof *rows));
    r.runs = argv + 1;
    if (r.run_count == 0)
        fprintf(stderr, "lockstep plot: give the folder of a run, or a file in it; see lockstep help plot\n");
    if (r.run_count <= 0) return EXIT_USAGE;
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    draw(run, &r);
    return ls_finish(run);
}

const command command_plot = {
    .name = "plot",
    .summary = "plot the recorded values of runs",
    .usage = "usage: lockstep plot RUN... [-o curve.svg] [options]\n"
             "\n"
             "Plots the values recorded by trackers. A RUN is a folder, or one of the files in it: values.jsonl,\n"
             "values.csv, events.out.tfevents.*. Several runs are drawn in one plot, each in its own colour.\n"
             "\n"
             "  -o FILE          output file, .svg or .png (curve.svg)\n"
             "  --keys A,B+C     values to draw, one panel each; joined by + in one panel (all)\n"
             "  --smooth S       0 to below 1: draw running means, with the values faintly behind (0)\n"
             "  --log-x --log-y  logarithmic axes\n"
             "  --beside         runs side by side, with the same axes, instead of in one plot\n"
             "  --title TEXT     title above the plot\n"
             "  --width N --height N   size in pixels\n",
    .run = run_plot,
};
