/* progress.c - the progress bar: counts cheaply, draws rarely, and omits what does not fit.
 *
 * Bars nest (epochs around batches): the newest is on the terminal; the enclosing one returns when it ends. A program
 * may show them elsewhere, and then sees all of them. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <lockstep/data.h>
#include <lockstep/track.h>

#include "base/clock.h"
#include "base/opts.h"
#include "base/terminal.h"
#include "tensor/context.h"

enum { SHOWN_VALUES = 8, WORD = 24, PIECE = 96, WIDEST_BAR = 30, NARROWEST_BAR = 8, DISPLAY_COLUMNS = 100 };

static const double draw_every = 0.1;  /* seconds */
static const double rate_memory = 5.0; /* seconds after which the rate has mostly adapted to a change of speed */

typedef enum visibility {
    HIDDEN,    /* not shown by this process, or not wanted */
    LAST_LINE, /* not a terminal: one line at the end */
    TERMINAL,
    DISPLAY, /* by a function of the program */
} visibility;

/* Of the process: where it shows things does not depend on the run. */
static struct {
    ls_progress_fn *show;
    void *user;
    int64_t bars;
} display;

struct ls_progress {
    ls_object object;
    visibility visible;
    int64_t number; /* of those on the display */
    bool covered;   /* by a newer bar */
    bool in_batch;  /* between two calls of ls_progress_next() */
    int64_t total, done, done_before;
    char label[WORD * 2], unit[WORD], units[WORD + 2];
    int value_count;
    struct {
        char name[WORD];
        double value;
    } values[SHOWN_VALUES];
    double began, drawn;           /* seconds of the monotonic clock */
    int64_t drawn_done;            /* steps at the last drawing */
    double weighted_steps, weight; /* of the running mean of the rate */
};

/* ---- the line ---- */

/* The parts of the line, from left to right. */
typedef enum piece { LABEL, PERCENT, BAR, COUNT, RATE, TIME, VALUES, PIECES = VALUES + SHOWN_VALUES } piece;

typedef struct layout {
    char text[PIECES][PIECE]; /* empty: omitted */
} layout;

static void write_duration(char *to, size_t size, double seconds)
{
    int64_t s = seconds < 1e15 ? (int64_t)(seconds + 0.5) : 0;
    int64_t hours = s / 3600, minutes = s / 60 % 60;
    if (hours >= 48) snprintf(to, size, "%lldd %lldh", (long long)(hours / 24), (long long)(hours % 24));
    else if (hours) snprintf(to, size, "%lld:%02d:%02d", (long long)hours, (int)minutes, (int)(s % 60));
    else snprintf(to, size, "%d:%02d", (int)minutes, (int)(s % 60));
}

static void write_rate(char *to, size_t size, double rate, const ls_progress *bar)
{
    if (rate >= 1e4) snprintf(to, size, "%.1fk %s/s", rate * 1e-3, bar->units);
    else if (rate >= 100) snprintf(to, size, "%.0f %s/s", rate, bar->units);
    else if (rate >= 1) snprintf(to, size, "%.1f %s/s", rate, bar->units);
    else if (rate > 0) snprintf(to, size, "%.3g s/%s", 1 / rate, bar->unit);
    else to[0] = '\0';
}

static double mean_rate(const ls_progress *bar, double at)
{
    double seconds = at - bar->began;
    return seconds > 0 ? (double)(bar->done - bar->done_before) / seconds : 0;
}

/* The recent rate: a running mean over the intervals between drawings. */
static double recent_rate(ls_progress *bar, double at)
{
    double seconds = at - bar->drawn;
    double keep = exp(-seconds / rate_memory);
    if (seconds > 0) {
        bar->weighted_steps = keep * bar->weighted_steps + (1 - keep) * (double)(bar->done - bar->drawn_done) / seconds;
        bar->weight = keep * bar->weight + (1 - keep);
    }
    return bar->weight > 0 ? bar->weighted_steps / bar->weight : 0;
}

static void write_bar(const ls_progress *bar, char *to, int width)
{
    double part = bar->total > 0 ? (double)bar->done / (double)bar->total : 0;
    int filled = (int)(fmin(part, 1) * width);
    to[0] = '[';
    for (int i = 0; i < width; i++) to[1 + i] = i < filled ? '=' : ' ';
    if (filled < width && filled > 0) to[filled] = '>';
    to[1 + width] = ']';
    to[2 + width] = '\0';
}

static size_t width_of(const layout *l)
{
    size_t width = 0;
    for (int i = 0; i < PIECES; i++)
        if (l->text[i][0]) width += ls_terminal_width_of(l->text[i]) + (width == 0 ? 0 : i > COUNT ? 2 : 1);
    return width;
}

/* Omit parts until the line fits, least important first. */
static void make_fit(layout *l, size_t room)
{
    static const piece least_first[] = {RATE,       TIME,       VALUES + 7, VALUES + 6, VALUES + 5,
                                        VALUES + 4, VALUES + 3, VALUES + 2, VALUES + 1, LABEL,
                                        VALUES,     PERCENT,    COUNT};
    for (size_t i = 0; i < sizeof least_first / sizeof *least_first && width_of(l) > room; i++)
        l->text[least_first[i]][0] = '\0';
}

static void join(const layout *l, char line[LS_TERMINAL_STATUS])
{
    size_t length = 0;
    line[0] = '\0';
    for (int i = 0; i < PIECES; i++) {
        if (!l->text[i][0] || length + PIECE + 3 > LS_TERMINAL_STATUS) continue;
        const char *space = length == 0 ? "" : i > COUNT ? "  " : " ";
        length += (size_t)snprintf(line + length, LS_TERMINAL_STATUS - length, "%s%s", space, l->text[i]);
    }
    ls_printable(line, LS_TERMINAL_STATUS, line);
}

static void write_values(const ls_progress *bar, layout *l)
{
    for (int i = 0; i < bar->value_count; i++)
        snprintf(l->text[VALUES + i], PIECE, "%s %.4g", bar->values[i].name, bar->values[i].value);
}

/* The line for a terminal of `columns`; at the end it shows the time taken, not the time left. */
static void compose(ls_progress *bar, double at, bool at_end, int columns, char line[LS_TERMINAL_STATUS])
{
    layout l = {{{0}}};
    double rate = at_end ? mean_rate(bar, at) : recent_rate(bar, at);
    char duration[32];
    snprintf(l.text[LABEL], PIECE, "%s", bar->label);
    write_rate(l.text[RATE], PIECE, rate, bar);
    if (bar->total > 0) {
        snprintf(l.text[PERCENT], PIECE, "%3.0f%%", floor(100 * (double)bar->done / (double)bar->total));
        snprintf(l.text[COUNT], PIECE, "%lld/%lld", (long long)bar->done, (long long)bar->total);
    } else {
        snprintf(l.text[COUNT], PIECE, "%lld %s", (long long)bar->done, bar->done == 1 ? bar->unit : bar->units);
    }
    if (at_end || bar->total <= 0) {
        write_duration(duration, sizeof duration, at - bar->began);
        snprintf(l.text[TIME], PIECE, "in %s", duration);
    } else if (rate > 0) {
        write_duration(duration, sizeof duration, fmax((double)(bar->total - bar->done), 0) / rate);
        snprintf(l.text[TIME], PIECE, "%s left", duration);
    }
    write_values(bar, &l);
    size_t room = (size_t)columns - 1; /* a terminal may wrap after its last column */
    make_fit(&l, room);
    size_t used = width_of(&l);
    if (bar->total > 0 && used + 3 + NARROWEST_BAR <= room) {
        size_t width = room - used - 3;
        write_bar(bar, l.text[BAR], width < WIDEST_BAR ? (int)width : WIDEST_BAR);
    }
    join(&l, line);
}

/* Not a terminal: print one sentence. */
static void print_summary(const ls_progress *bar, double at)
{
    char duration[32], rate[PIECE], line[LS_TERMINAL_STATUS];
    write_duration(duration, sizeof duration, at - bar->began);
    write_rate(rate, sizeof rate, mean_rate(bar, at), bar);
    int64_t steps = bar->done - bar->done_before;
    size_t length =
        (size_t)snprintf(line, sizeof line, "%s%s%lld %s in %s%s%s", bar->label, bar->label[0] ? ": " : "",
                         (long long)steps, steps == 1 ? bar->unit : bar->units, duration, rate[0] ? ", " : "", rate);
    for (int i = 0; i < bar->value_count; i++)
        length += (size_t)snprintf(line + length, sizeof line - length, ", %s %.4g", bar->values[i].name,
                                   bar->values[i].value);
    ls_printable(line, sizeof line, line);
    length = strlen(line);
    line[length] = '\n';
    ls_terminal_write(stderr, line, length + 1);
}

static void send_to_display(const ls_progress *bar, const char *line, bool ended)
{
    if (!display.show) return;
    display.show(&(ls_progress_state){bar->number, line, bar->done, bar->total, ended}, display.user);
}

static void draw(ls_progress *bar, double at)
{
    int columns = bar->visible == DISPLAY ? DISPLAY_COLUMNS : ls_terminal_columns(STDERR_FILENO);
    char line[LS_TERMINAL_STATUS] = "";
    if (columns > 1) compose(bar, at, false, columns, line);
    bar->drawn = at;
    bar->drawn_done = bar->done;
    if (bar->visible == DISPLAY) send_to_display(bar, line, false);
    else if (!bar->covered) ls_terminal_status(line);
}

/* ---- bars of a run ---- */

/* The newest bar other than this one, which is on the terminal. */
static ls_progress *newest_except(const ls_progress *bar)
{
    for (ls_object *o = bar->object.run->objects; o; o = o->older) {
        ls_progress *other = (ls_progress *)o;
        if (o->kind == LS_OBJECT_PROGRESS && other != bar && other->visible == TERMINAL) return other;
    }
    return NULL;
}

static void end(void *object)
{
    ls_progress *bar = object;
    double at = ls_clock_seconds();
    char line[LS_TERMINAL_STATUS + 1] = "";
    if (bar->visible == LAST_LINE) print_summary(bar, at);
    if (bar->visible == DISPLAY) {
        compose(bar, at, true, DISPLAY_COLUMNS, line);
        send_to_display(bar, line, true);
    }
    if (bar->visible != TERMINAL) return;
    int columns = ls_terminal_columns(STDERR_FILENO);
    if (columns > 1) compose(bar, at, true, columns, line);
    if (!bar->covered) ls_terminal_status("");
    size_t length = strlen(line);
    line[length] = '\n';
    ls_terminal_write(stderr, line, length + 1);
    ls_progress *outer = bar->covered ? NULL : newest_except(bar);
    if (outer) outer->covered = false;
}

ls_progress *ls_progress_new_sized(ls_run *run, int64_t total, const ls_progress_opts *opts, size_t opts_size)
{
    if (!run || ls_failed(run)) return NULL;
    ls_progress_opts o = LS_OPTS_READ(ls_progress_opts, opts, opts_size);
    if (total < 0 || o.done < 0) {
        ls_fail(&run->errors, LS_ERR_VALUE,
                "ls_progress_new: a total of %lld and %lld done before: neither may be negative", (long long)total,
                (long long)o.done);
        return NULL;
    }
    ls_progress *bar = ls_object_new(run, LS_OBJECT_PROGRESS, sizeof *bar, end);
    if (!bar) return NULL;
    bar->total = total;
    bar->done = bar->done_before = bar->drawn_done = o.done;
    snprintf(bar->label, sizeof bar->label, "%s", o.label ? o.label : "");
    snprintf(bar->unit, sizeof bar->unit, "%s", o.unit ? o.unit : "step");
    size_t length = strlen(bar->unit);
    const char *end = bar->unit + length;
    bool ends_in_sibilant = length > 1 && (strchr("sx", end[-1]) || (end[-1] == 'h' && strchr("cs", end[-2])));
    snprintf(bar->units, sizeof bar->units, "%s%s", bar->unit, ends_in_sibilant ? "es" : "s"); /* steps, batches */
    bar->began = bar->drawn = ls_clock_seconds();
    if (o.quiet || (!ls_is_main(run) && !o.every_process)) return bar;
    bar->visible = display.show ? DISPLAY : ls_terminal_columns(STDERR_FILENO) ? TERMINAL : LAST_LINE;
    if (bar->visible == DISPLAY) bar->number = ++display.bars;
    ls_progress *outer = bar->visible == TERMINAL ? newest_except(bar) : NULL;
    if (outer) outer->covered = true;
    if (bar->visible != LAST_LINE) draw(bar, bar->began);
    return bar;
}

void ls_progress_register_display(ls_progress_fn *show, void *user)
{
    display.show = show;
    display.user = user;
}

void ls_progress_step(ls_progress *bar, int64_t steps)
{
    if (!bar) return;
    bar->done += steps;
    if (bar->visible < TERMINAL || bar->covered) return;
    double at = ls_clock_seconds();
    if (at - bar->drawn >= draw_every) draw(bar, at);
}

bool ls_progress_next(ls_progress *bar, ls_loader *loader, ls_batch *batch)
{
    if (bar && bar->in_batch) ls_progress_step(bar, 1);
    bool more = ls_next(loader, batch);
    if (bar) bar->in_batch = more;
    return more;
}

void ls_progress_show(ls_progress *bar, const char *name, double value)
{
    if (!bar || !name || ls_failed(bar->object.run)) return; /* values of a failed run are poison */
    int i = 0;
    while (i < bar->value_count && strncmp(bar->values[i].name, name, WORD - 1) != 0) i++;
    if (i == SHOWN_VALUES) return;
    if (i == bar->value_count) {
        snprintf(bar->values[i].name, WORD, "%s", name);
        bar->value_count++;
    }
    bar->values[i].value = value;
}

void ls_progress_free(ls_progress *bar)
{
    ls_object_free(bar);
}
