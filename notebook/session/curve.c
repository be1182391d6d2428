/* curve.c - curves that grow below a cell while it trains.
 *
 * All curves of a cell are in one picture, which is replaced. It is drawn again at most a few times a second, and whole
 * when the run ends or, if the run goes on, when the cell ends. */
#include <lockstep/notebook.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "display.h"
#include "session.h"

enum { MOST_CURVES = 16, LONGEST_NAME = 64 };
static const double draw_every = 0.3; /* seconds */

typedef struct growing_curve {
    char name[LONGEST_NAME];
    double *x, *y;
    size_t count, capacity;
} growing_curve;

/* Of the running cell: cells have no session to pass around. */
static struct {
    growing_curve curves[MOST_CURVES];
    int count;
    ls_run *run; /* that draws them; NULL: it has ended, or there are none */
    bool changed;
    double drawn; /* when, by the monotonic clock */
} picture;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static growing_curve *find(const char *name)
{
    for (int i = 0; i < picture.count; i++)
        if (strncmp(picture.curves[i].name, name, LONGEST_NAME - 1) == 0) return &picture.curves[i];
    if (picture.count == MOST_CURVES) return NULL;
    growing_curve *made = &picture.curves[picture.count++];
    snprintf(made->name, sizeof made->name, "%s", name);
    return made;
}

static bool add(growing_curve *to, double x, double y)
{
    if (to->count == to->capacity) {
        size_t capacity = to->capacity ? 2 * to->capacity : 256;
        double *more_x = realloc(to->x, capacity * sizeof *more_x);
        if (more_x) to->x = more_x;
        double *more_y = realloc(to->y, capacity * sizeof *more_y);
        if (more_y) to->y = more_y;
        if (!more_x || !more_y) return false;
        to->capacity = capacity;
    }
    to->x[to->count] = x;
    to->y[to->count++] = y;
    return true;
}

static void draw(void)
{
    char path[TEMPORARY_PATH];
    if (!picture.run || !picture.changed || !temporary_file(path, ".svg")) return;
    bool failed = ls_error(picture.run) != LS_OK;
    ls_plot *plot = ls_plot_new(picture.run, .width = 520 * (picture.count > 1 ? 2 : 1), .height = 320);
    for (int i = 0; i < picture.count; i++) {
        const growing_curve *one = &picture.curves[i];
        ls_plot_add(plot, one->name, (ls_curve){one->name, (int64_t)one->count, one->x, one->y});
    }
    if (ls_plot_write(plot, path)) display_file("curves", "image/svg+xml", path);
    else if (!failed) ls_clear_error(picture.run); /* no room for what is only shown: the run continues without */
    ls_plot_free(plot);
    unlink(path);
    picture.changed = false;
    picture.drawn = now();
}

void ls_notebook_curve(ls_run *run, const char *name, double step, double value)
{
    growing_curve *curve = run && name ? find(name) : NULL;
    if (!curve || !add(curve, step, value)) return;
    picture.run = run;
    picture.changed = true;
    if (now() - picture.drawn > draw_every) draw();
}

void curves_end(void)
{
    draw();
    for (int i = 0; i < picture.count; i++) {
        free(picture.curves[i].x);
        free(picture.curves[i].y);
    }
    memset(&picture, 0, sizeof picture);
}

void curves_finish(const ls_run *run)
{
    if (run != picture.run) return;
    draw();
    picture.run = NULL;
}
