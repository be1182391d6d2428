/* tables.c - what was measured, as text: the whole, then operators, modules and collectives, the longest first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "run/profile/profile.h"

enum { MOST_ROWS = 20 };

/* "12.3 s", "4.56 ms", "7.89 us" */
static const char *duration(double nanoseconds, char text[32])
{
    double size = nanoseconds / 1e3;
    const char *unit = "us";
    if (size >= 999.5) size /= 1e3, unit = "ms";
    if (size >= 999.5 && unit[0] == 'm') size /= 1e3, unit = "s";
    snprintf(text, 32, "%.*f %s", size < 9.995 ? 2 : size < 99.95 ? 1 : 0, size, unit);
    return text;
}

/* "12.3 %" */
static const char *percent(double part, double all, char text[32])
{
    snprintf(text, 32, "%.1f %%", 100 * part / all);
    return text;
}

/* ---- the whole ---- */

static double time_of(const ls_span_lane *lane, ls_span_kind kind)
{
    double sum = 0;
    for (int32_t i = 0; i < lane->total_count; i++)
        if (lane->totals[i].kind == kind) sum += (double)lane->totals[i].time;
    return sum;
}

static void put_share(ls_byte_buffer *p, const char *what, double time, double all, const char *about)
{
    char text[32], share[32];
    ls_byte_buffer_print(p, "  %-14s %10s %8s   %s\n", what, duration(time, text), percent(time, all, share), about);
}

static void put_whole(ls_byte_buffer *p, const ls_spans *spans, const ls_profiled *who)
{
    const ls_span_lane *program = &spans->program;
    double all = (double)(spans->ended - spans->began), operators = time_of(program, LS_SPAN_OPERATOR);
    double comm = time_of(program, LS_SPAN_COLLECTIVE) + time_of(program, LS_SPAN_COMM_WAIT);
    double data = time_of(program, LS_SPAN_DATA_WAIT), device = time_of(program, LS_SPAN_DEVICE_WAIT);
    double beside = time_of(&spans->background, LS_SPAN_COLLECTIVE);
    char text[32], about[100] = "waiting for other processes";
    ls_byte_buffer_print(p, "rank %d of %d on %s: %s\n", who->rank, who->world, who->host, duration(all, text));
    put_share(p, "operators", operators, all,
              who->asynchronous ? "submitting them: the device works on its own" : "computing");
    if (who->asynchronous) put_share(p, "device", device, all, "waiting for it");
    if (beside > 0)
        snprintf(about, sizeof about, "waiting for other processes; %s of collectives beside the program",
                 duration(beside, text));
    if (who->world > 1) put_share(p, "communication", comm, all, about);
    put_share(p, "data", data, all, "waiting for batches");
    put_share(p, "other", all - operators - comm - data - device, all,
              "the program, and the library between operators");
}

/* ---- rows ---- */

/* Totals of one name, or of one module. */
typedef struct row {
    const char *name;
    int64_t count, time, longest;
} row;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const row *)a)->name, ((const row *)b)->name);
}

static int by_time(const void *a, const void *b)
{
    int64_t x = ((const row *)a)->time, y = ((const row *)b)->time;
    return (x < y) - (x > y);
}

/* Sort and add up rows of the same name; returns how many are left, the longest first. */
static int32_t combine(row *rows, int32_t count)
{
    int32_t kept = 0;
    qsort(rows, (size_t)count, sizeof *rows, by_name);
    for (int32_t i = 0; i < count; i++) {
        if (kept == 0 || strcmp(rows[kept - 1].name, rows[i].name) != 0) {
            rows[kept++] = rows[i];
            continue;
        }
        row *same = &rows[kept - 1];
        same->count += rows[i].count;
        same->time += rows[i].time;
        if (rows[i].longest > same->longest) same->longest = rows[i].longest;
    }
    qsort(rows, (size_t)kept, sizeof *rows, by_time);
    return kept;
}

static void put_rows(ls_byte_buffer *p, const char *title, const row *rows, int32_t count, double all)
{
    if (count == 0) return;
    ls_byte_buffer_print(p, "\n%-34s %9s %10s %7s %10s %10s\n", title, "calls", "total", "", "mean", "longest");
    for (int32_t i = 0; i < count && i < MOST_ROWS; i++) {
        char total[32], share[32], mean[32], longest[32];
        ls_byte_buffer_print(p, "%-34.80s %9lld %10s %7s %10s %10s\n", rows[i].name, (long long)rows[i].count,
                             duration((double)rows[i].time, total), percent((double)rows[i].time, all, share),
                             duration((double)rows[i].time / (double)rows[i].count, mean),
                             duration((double)rows[i].longest, longest));
    }
    if (count > MOST_ROWS) ls_byte_buffer_print(p, "and %d more\n", count - MOST_ROWS);
}

/* Spans of a kind, by name or by the module that made them. */
static void put_table(ls_byte_buffer *p, const char *title, const ls_spans *spans, ls_span_kind kind, bool by_module)
{
    const ls_span_lane *lanes[] = {&spans->program, &spans->background};
    int32_t most = lanes[0]->total_count + lanes[1]->total_count, count = 0;
    row *rows = ls_sys_alloc(((size_t)most + 1) * sizeof *rows);
    if (!rows) {
        p->failed = true;
        return;
    }
    for (int l = 0; l < 2; l++) {
        for (int32_t i = 0; i < lanes[l]->total_count; i++) {
            const ls_span_total *t = &lanes[l]->totals[i];
            if (t->kind != kind || (by_module && !t->site)) continue;
            rows[count++] = (row){by_module ? t->site : t->name, t->count, t->time, t->longest};
        }
    }
    put_rows(p, title, rows, combine(rows, count), (double)(spans->ended - spans->began));
    ls_sys_free(rows);
}

char *ls_profile_tables(const ls_spans *spans, const ls_profiled *who)
{
    ls_byte_buffer p = {.bytes = NULL};
    int64_t dropped = spans->program.dropped + spans->background.dropped;
    put_whole(&p, spans, who);
    put_table(&p, "operator", spans, LS_SPAN_OPERATOR, false);
    put_table(&p, "module", spans, LS_SPAN_OPERATOR, true);
    put_table(&p, "collective", spans, LS_SPAN_COLLECTIVE, false);
    if (dropped)
        ls_byte_buffer_print(&p, "\nthe timeline lacks the last %lld spans; the tables have all\n", (long long)dropped);
    ls_byte_buffer_print(&p, "\n");
    if (!p.failed) return p.bytes;
    ls_byte_buffer_free(&p);
    return NULL;
}
