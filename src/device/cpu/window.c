/* window.c - every pixel of a picture computed from a window of another one.
 *
 * Workers share the rows of y. In channels-last memory a row is one kernel call for all channels; otherwise it is one
 * call per channel. */
#include "device/cpu/window.h"

#include "base/parallel.h"
#include "device/cpu/cpu.h"
#include "device/cpu/grid.h"
#include "kernels/combine.h"

#include <string.h>

enum { TABLES, INVERSE_WEIGHTS, FIRSTS }; /* scratch slots */

typedef struct windowing {
    const ls_windows *windows;
    ls_taps taps[2];
    const ls_combine_table *kernels;
    ls_window_row row; /* common to all rows */
} windowing;

/* ---- Tables --------------------------------------------------------------------------------------------------- */

static int64_t *take(int64_t **memory, int64_t count)
{
    int64_t *taken = *memory;
    *memory += count;
    return taken;
}

/* Invert a table of inputs per output into one of outputs per input; weights are filled in once `most` is known. */
static void invert(const ls_taps *taps, ls_taps *turned)
{
    memset(turned->count, 0, (size_t)turned->outputs * sizeof *turned->count);
    for (int64_t i = 0; i < taps->outputs; i++) {
        for (int64_t t = 0; t < taps->count[i]; t++) {
            int64_t to = taps->first[i] + t;
            if (turned->count[to]++ == 0) turned->first[to] = i;
            if (turned->most < turned->count[to]) turned->most = turned->count[to];
        }
    }
}

static void invert_weights(const ls_taps *taps, ls_taps *turned)
{
    for (int64_t i = 0; i < taps->outputs; i++) {
        for (int64_t t = 0; t < taps->count[i]; t++) {
            int64_t to = taps->first[i] + t;
            turned->weight[to * turned->most + i - turned->first[to]] = taps->weight[i * taps->most + t];
        }
    }
}

static bool make_tables(const ls_call *call, const ls_windows *windows, ls_taps taps[2])
{
    const ls_operand *to = windows->turned ? windows->x : windows->y, *from = windows->turned ? windows->y : windows->x;
    ls_taps made[2] = {{0}};
    int64_t words = 0;
    for (int axis = 0; axis < 2; axis++) {
        made[axis].outputs = to->dim[LS_H + axis];
        made[axis].inputs = from->dim[LS_H + axis];
        made[axis].most = windows->most[axis];
        made[axis].spread = windows->spread[axis];
        words += made[axis].outputs * (2 + made[axis].most) + made[axis].inputs * 2;
    }
    int64_t *memory = ls_scratch((ls_worker){0, 1}, TABLES, (size_t)words * sizeof *memory);
    if (!memory) return false;
    for (int axis = 0; axis < 2; axis++) {
        made[axis].first = take(&memory, made[axis].outputs);
        made[axis].count = take(&memory, made[axis].outputs);
        made[axis].weight = (double *)take(&memory, made[axis].outputs * made[axis].most);
        windows->fill(call, axis, &made[axis]);
        taps[axis] = made[axis];
        if (!windows->turned) continue;
        taps[axis] = (ls_taps){.outputs = made[axis].inputs, .inputs = made[axis].outputs, .spread = 1};
        taps[axis].first = take(&memory, taps[axis].outputs);
        taps[axis].count = take(&memory, taps[axis].outputs);
        invert(&made[axis], &taps[axis]);
    }
    if (!windows->turned) return true;
    words = taps[0].outputs * taps[0].most + taps[1].outputs * taps[1].most;
    memory = ls_scratch((ls_worker){0, 1}, INVERSE_WEIGHTS, (size_t)words * sizeof *memory);
    if (!memory) return false;
    for (int axis = 0; axis < 2; axis++) {
        taps[axis].weight = (double *)take(&memory, taps[axis].outputs * taps[axis].most);
        invert_weights(&made[axis], &taps[axis]);
    }
    return true;
}

/* ---- Rows ----------------------------------------------------------------------------------------------------- */

static void *pixel(const ls_operand *picture, int64_t n, int64_t c, int64_t h)
{
    if (!picture) return NULL;
    int64_t at = n * picture->stride[LS_N] + c * picture->stride[LS_C] + h * picture->stride[LS_H];
    return (char *)picture->data + at * (int64_t)ls_dtype_size(picture->dtype);
}

static void copy_pixels(char *y, const char *x, const ls_window_row *row, size_t size)
{
    size_t bytes = (size_t)row->channels * size;
    for (int64_t i = 0; i < row->pixels; i++)
        memcpy(y + i * row->step * (int64_t)size, x + row->x.first[i] * (int64_t)size, bytes);
}

static void make_rows(void *arg, int64_t begin, int64_t end)
{
    const windowing *job = arg;
    const ls_windows *windows = job->windows;
    const ls_operand *x = windows->x, *y = windows->y, *where = windows->where;
    const ls_taps *rows = &job->taps[0];
    ls_window_row row = job->row;
    int64_t planes = y->dim[LS_C] / row.channels;
    for (int64_t item = begin; item < end; item++) {
        int64_t h = item % rows->outputs, c = item / rows->outputs % planes, n = item / rows->outputs / planes;
        int64_t first = rows->count[h] ? rows->first[h] : 0;
        row.down = rows->count[h];
        void *to = pixel(y, n, c, h);
        const void *from = pixel(x, n, c, first);
        if (windows->kind == LS_WINDOWS_COPY && row.channels > 1) {
            copy_pixels(to, from, &row, ls_dtype_size(y->dtype));
        } else if (windows->kind == LS_WINDOWS_SUM || windows->kind == LS_WINDOWS_COPY) {
            row.weight.down = rows->weight + h * rows->most;
            job->kernels->sum(y->dtype, to, from, &row);
        } else if (windows->kind == LS_WINDOWS_MAX) {
            row.at.origin = (int32_t)(first * x->dim[LS_W]);
            job->kernels->max(y->dtype, to, pixel(where, n, c, h), from, &row);
        } else {
            row.at.origin = (int32_t)(h * y->dim[LS_W]);
            job->kernels->chosen(y->dtype, to, pixel(where, n, c, first), from, &row);
        }
    }
}

/* Layout of a row's windows in an operand; `first` has room for one entry per pixel. */
static ls_window_walk walk_in(const ls_operand *picture, const ls_taps taps[2], int64_t *first)
{
    int64_t beside = picture->stride[LS_W];
    for (int64_t i = 0; i < taps[1].outputs; i++) first[i] = taps[1].count[i] ? taps[1].first[i] * beside : 0;
    return (ls_window_walk){first, taps[0].spread * picture->stride[LS_H], taps[1].spread * beside};
}

static bool is_channels_last(const ls_operand *picture)
{
    return !picture || picture->stride[LS_C] == 1 || picture->dim[LS_C] == 1;
}

ls_status ls_cpu_windows(const ls_call *call, const ls_windows *windows, ls_message *why)
{
    const ls_operand *x = windows->x, *y = windows->y, *where = windows->where;
    int64_t channels = y->dim[LS_C], columns = y->dim[LS_W];
    if (y->dim[LS_N] * channels * y->dim[LS_H] * columns == 0) return LS_OK;
    windowing job = {.windows = windows};
    int64_t *firsts = ls_scratch((ls_worker){0, 1}, FIRSTS, 2 * (size_t)columns * sizeof *firsts);
    if (!firsts || !make_tables(call, windows, job.taps))
        return ls_explain(why, LS_ERR_MEMORY, "no memory for the tables of windows");

    const ls_taps *taps = job.taps;
    bool dense = is_channels_last(x) && is_channels_last(y) && is_channels_last(where);
    ls_window_row *row = &job.row;
    row->pixels = columns;
    row->channels = dense ? channels : 1;
    row->step = y->stride[LS_W];
    row->across = taps[1].count;
    row->x = walk_in(x, taps, firsts);
    if (windows->kind == LS_WINDOWS_SUM || windows->kind == LS_WINDOWS_COPY) {
        row->weight.across = taps[1].weight;
        row->weight.pitch = taps[1].most;
    } else if (windows->kind == LS_WINDOWS_MAX) {
        row->at.walk = (ls_window_walk){taps[1].first, taps[0].spread * x->dim[LS_W], taps[1].spread};
        row->at.step = where ? where->stride[LS_W] : 0;
    } else {
        row->at.walk = walk_in(where, taps, firsts + columns);
    }
    job.kernels = row->channels == 1 ? &ls_combine_ref : ls_combine_kernels(); /* vector kernels need channels */
    int64_t rows = y->dim[LS_N] * (channels / row->channels) * y->dim[LS_H];
    int64_t cost = columns * row->channels * taps[0].most * taps[1].most;
    ls_parallel_for(rows, 1 + 16384 / (cost + 1), make_rows, &job);
    return LS_OK;
}
