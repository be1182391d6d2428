/* plot.c - create, fill and write a plot. */
#include "track/plot/plot.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/opts.h"
#include "tensor/context.h"

enum { SMALLEST = 100, LARGEST = 16384, MOST_PANELS = 500 };

static void clear(void *object)
{
    ls_arena_free(&((ls_plot *)object)->arena);
}

static const char *copy_text(ls_plot *plot, const char *text)
{
    char *copy = text ? ls_arena_text(&plot->arena, text, strlen(text)) : NULL;
    if (text && !copy) ls_fail(&plot->object.run->errors, LS_ERR_MEMORY, "ls_plot: no memory for \"%.100s\"", text);
    return copy;
}

static bool side_fits(ls_run *run, const char *side, int pixels)
{
    bool fits = pixels == LS_AUTO || (pixels >= SMALLEST && pixels <= LARGEST);
    if (!fits)
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_plot_new: .%s = %d pixels; it must be from %d to %d", side, pixels,
                SMALLEST, LARGEST);
    return fits;
}

ls_plot *ls_plot_new_sized(ls_run *run, const ls_plot_opts *opts, size_t opts_size)
{
    if (!run || ls_failed(run)) return NULL;
    ls_plot_opts o = LS_OPTS_READ(ls_plot_opts, opts, opts_size);
    if (!side_fits(run, "width", o.width) || !side_fits(run, "height", o.height)) return NULL;
    if (!(o.smooth >= 0 && o.smooth < 1)) {
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_plot_new: smooth is %g; it must be at least 0 and below 1", o.smooth);
        return NULL;
    }
    ls_plot *plot = ls_object_new(run, LS_OBJECT_PLOT, sizeof *plot, clear);
    if (!plot) return NULL;
    plot->opts = o;
    plot->opts.title = copy_text(plot, o.title);
    plot->opts.x_label = copy_text(plot, o.x_label);
    return plot;
}

void ls_plot_free(ls_plot *plot)
{
    ls_object_free(plot);
}

/* ---- curves ---- */

static ls_plot_panel *panel_named(ls_plot *plot, const char *title)
{
    for (ls_plot_panel *p = plot->first; p; p = p->next)
        if (strcmp(p->title, title) == 0) return p;
    if (plot->count == MOST_PANELS) {
        ls_fail(&plot->object.run->errors, LS_ERR_VALUE, "ls_plot: more than %d panels; select what to draw by keys",
                MOST_PANELS);
        return NULL;
    }
    ls_plot_panel *panel = ls_arena_take(&plot->arena, sizeof *panel);
    if (!panel || !(panel->title = copy_text(plot, title))) return NULL;
    if (plot->last) plot->last->next = panel;
    else plot->first = panel;
    plot->last = panel;
    plot->count++;
    return panel;
}

static const double *copy_numbers(ls_plot *plot, const double *numbers, int64_t count)
{
    double *copy = ls_arena_take(&plot->arena, ((size_t)count + 1) * sizeof *copy);
    if (copy && count) memcpy(copy, numbers, (size_t)count * sizeof *copy);
    return copy;
}

void ls_plot_add(ls_plot *plot, const char *title, ls_curve curve)
{
    if (!plot || ls_failed(plot->object.run)) return;
    ls_errors *errors = &plot->object.run->errors;
    if (curve.count < 0 || (curve.count > 0 && (!curve.x || !curve.y))) {
        ls_fail(errors, LS_ERR_VALUE, "ls_plot_add: %lld points but no values", (long long)curve.count);
        return;
    }
    ls_plot_panel *panel = panel_named(plot, title ? title : "");
    ls_plot_curve *entry = ls_arena_take(&plot->arena, sizeof *entry);
    const char *name = copy_text(plot, curve.name ? curve.name : "");
    const double *x = copy_numbers(plot, curve.x, curve.count), *y = copy_numbers(plot, curve.y, curve.count);
    if (!panel || !entry || !name || !x || !y) {
        ls_fail(errors, LS_ERR_MEMORY, "ls_plot_add: no memory for %lld points", (long long)curve.count);
        return;
    }
    entry->curve = (ls_curve){.name = name, .count = curve.count, .x = x, .y = y};
    if (panel->last) panel->last->next = entry;
    else panel->first = entry;
    panel->last = entry;
    panel->count++;
}

/* Add one series of a history to a panel; the legend names the run and, if the panel has other series, the series. */
static void add_recorded(ls_plot *plot, const char *panel, ls_curve curve, const char *run_name, bool shared)
{
    char label[512];
    if (run_name && shared) snprintf(label, sizeof label, "%s %s", run_name, curve.name);
    else snprintf(label, sizeof label, "%s", run_name ? run_name : curve.name);
    curve.name = label;
    ls_plot_add(plot, panel, curve);
}

void ls_plot_add_history_sized(ls_plot *plot, const ls_history *history, const char *keys,
                               const ls_plot_add_history_opts *opts, size_t opts_size)
{
    if (!plot || !history || ls_failed(plot->object.run)) return;
    ls_plot_add_history_opts o = LS_OPTS_READ(ls_plot_add_history_opts, opts, opts_size);
    for (int i = 0; !keys && i < ls_history_count(history); i++) {
        ls_curve curve = ls_history_at(history, i);
        add_recorded(plot, curve.name, curve, o.name, false);
    }
    while (keys && *keys) {
        char panel[256], key[256];
        size_t panel_length = strcspn(keys, ","), length;
        snprintf(panel, sizeof panel, "%.*s", (int)panel_length, keys);
        bool shared = strchr(panel, '+') != NULL;
        for (const char *at = panel; *at; at += length + (at[length] == '+')) {
            length = strcspn(at, "+");
            snprintf(key, sizeof key, "%.*s", (int)length, at);
            ls_curve curve = ls_history_find(history, key);
            if (curve.count == 0) {
                ls_fail(&plot->object.run->errors, LS_ERR_VALUE, "ls_plot_add_history: \"%s\" was not recorded", key);
                return;
            }
            add_recorded(plot, panel, curve, o.name, shared);
        }
        keys += panel_length + (keys[panel_length] == ',');
    }
}

/* ---- writing ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length > end_length && strcmp(text + length - end_length, end) == 0;
}

bool ls_plot_write(ls_plot *plot, const char *path)
{
    if (!plot || ls_failed(plot->object.run)) return false;
    ls_errors *errors = &plot->object.run->errors;
    bool png = path && ends_with(path, ".png");
    if (!png && !(path && ends_with(path, ".svg"))) {
        ls_fail(errors, LS_ERR_VALUE, "ls_plot_write: \"%s\" must end in .svg or .png", path ? path : "");
        return false;
    }
    int width, height;
    ls_plot_size(plot, &width, &height);
    ls_canvas *canvas = png ? ls_canvas_png(width, height) : ls_canvas_svg(width, height);
    ls_byte_buffer file = {0};
    bool ok = canvas && ls_plot_draw(plot, canvas);
    if (canvas) canvas->table->finish(canvas, &file);
    ls_message why = {{0}};
    if (!ok || file.failed)
        ls_fail(errors, LS_ERR_MEMORY, "ls_plot_write: no memory for %d x %d pixels", width, height);
    else if (!ls_file_write(path, file.bytes, file.length, false, &why))
        ls_fail(errors, LS_ERR_IO, "ls_plot_write: %s", why.text);
    ls_byte_buffer_free(&file);
    return !ls_failed(plot->object.run);
}
