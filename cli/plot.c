/* plot.c - lockstep plot: recorded values as a picture. */
#include <lockstep.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

typedef struct request {
    const char *output, *keys, *title;
    double smooth;
    int width, height;
    bool log_x, log_y;
    char **runs;
    int run_count;
} request;

/* ---- the command line ---- */

static bool read_number(const char *text, double *number)
{
    char *end;
    *number = strtod(text, &end);
    return *text && !*end;
}

/* Takes the option at *i, and its value where it has one. */
static bool take_option(request *r, int argc, char **argv, int *i)
{
    const char *option = argv[*i];
    if (strcmp(option, "--log-y") == 0 || strcmp(option, "--log") == 0) return r->log_y = true;
    if (strcmp(option, "--log-x") == 0) return r->log_x = true;
    if (*i + 1 >= argc) return false;
    const char *value = argv[*i + 1];
    double number = 0;
    bool is_number = read_number(value, &number);
    if (strcmp(option, "-o") == 0 || strcmp(option, "--output") == 0) r->output = value;
    else if (strcmp(option, "--keys") == 0) r->keys = value;
    else if (strcmp(option, "--title") == 0) r->title = value;
    else if (strcmp(option, "--smooth") == 0 && is_number) r->smooth = number;
    else if (strcmp(option, "--width") == 0 && is_number) r->width = (int)number;
    else if (strcmp(option, "--height") == 0 && is_number) r->height = (int)number;
    else return false;
    ++*i;
    return true;
}

/* Runs are left at the front of argv. */
static bool read_arguments(request *r, int argc, char **argv, const char **wrong)
{
    for (int i = 1; i < argc; i++) {
        *wrong = argv[i];
        if (argv[i][0] != '-') r->runs[r->run_count++] = argv[i];
        else if (!take_option(r, argc, argv, &i)) return false;
    }
    return true;
}

/* ---- the picture ---- */

/* What tells runs apart in the legend: the last part of the path. */
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
        char name[512]; /* names stand in files */
        printf("%s %s (%lld points, last %.4g)", i ? "," : "", ls_printable(name, sizeof name, curve.name),
               (long long)curve.count, last);
    }
    putchar('\n');
}

static void draw(ls_run *run, const request *r)
{
    ls_plot *plot = ls_plot_new(run, .title = r->title, .smooth = r->smooth, .width = r->width, .height = r->height,
                                .log_x = r->log_x, .log_y = r->log_y);
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
    request r = {.output = "curve.svg", .width = LS_AUTO, .height = LS_AUTO, .runs = argv};
    const char *wrong = NULL;
    if (!read_arguments(&r, argc, argv, &wrong)) return no_such_option(&command_plot, wrong);
    if (r.run_count == 0) {
        fprintf(stderr, "lockstep plot: which run? Give a folder, or a file in it; see lockstep help plot\n");
        return EXIT_USAGE;
    }
    ls_run *run = ls_init(NULL, NULL);
    draw(run, &r);
    return ls_finish(run);
}

const command command_plot = {
    .name = "plot",
    .summary = "a picture of what runs have recorded",
    .usage = "usage: lockstep plot RUN... [-o curve.svg] [options]\n"
             "\n"
             "Draws what trackers have recorded. A RUN is a folder, or one of the files in it: values.jsonl,\n"
             "values.csv, events.out.tfevents.*. Several are drawn on one picture, each in a colour of its own.\n"
             "\n"
             "  -o FILE          the picture, .svg or .png; curve.svg\n"
             "  --keys A,B+C     what to draw, each in a panel, joined by + in one; everything\n"
             "  --smooth S       0 to below 1: draw running means, the values faintly behind; 0\n"
             "  --log-x --log-y  logarithmic axes\n"
             "  --title TEXT     above the picture\n"
             "  --width N --height N   of the picture in pixels\n",
    .run = run_plot,
};
