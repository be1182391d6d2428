/* events.c - spans as events of a Chrome trace, which Perfetto opens too: processes are ranks, threads are lanes. */
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "run/profile/profile.h"

static const char *const categories[LS_SPAN_KINDS] = {"operator", "collective", "wait", "wait", "wait"};
static const char *const prefixes[LS_SPAN_KINDS] = {"", "", "wait: ", "wait: ", "wait: "};

/* The threads of a process. Perfetto takes thread 0 of all processes for one and the same. */
enum { PROGRAM = 1, BACKGROUND };

typedef struct event_writer {
    ls_file_out out;
    ls_json_writer line;
    int rank;
    int64_t origin; /* as of ls_clock_ns() */
    bool ok;
} event_writer;

static void end_line(event_writer *w, ls_message *why)
{
    size_t length;
    ls_json_put_end(&w->line);
    const char *text = ls_json_view(&w->line, &length);
    w->ok = w->ok && text && ls_file_put(&w->out, text, length, why) && ls_file_put(&w->out, ",\n", 2, why);
}

/* Microseconds, which readers multiply by 1000 and cut off. A quotient that is a little too small would cost a
 * nanosecond, and Perfetto drops a span that ends after the next one has begun. */
static void put_time(event_writer *w, const char *key, int64_t nanoseconds)
{
    double microseconds = (double)nanoseconds / 1e3;
    if (microseconds * 1e3 < (double)nanoseconds) microseconds = nextafter(microseconds, INFINITY);
    ls_json_put_number(&w->line, key, microseconds);
}

static void put_span(event_writer *w, const ls_span_lane *lane, const ls_time_span *span, int thread, ls_message *why)
{
    const ls_span_total *total = &lane->totals[span->total];
    char name[160];
    snprintf(name, sizeof name, "%s%s", prefixes[total->kind], total->name);
    ls_json_restart(&w->line);
    ls_json_put_object(&w->line, NULL);
    ls_json_put_text(&w->line, "name", name);
    ls_json_put_text(&w->line, "cat", categories[total->kind]);
    ls_json_put_text(&w->line, "ph", "X");
    put_time(w, "ts", span->began - w->origin);
    put_time(w, "dur", span->time);
    ls_json_put_integer(&w->line, "pid", w->rank);
    ls_json_put_integer(&w->line, "tid", thread);
    if (total->site) {
        ls_json_put_object(&w->line, "args");
        ls_json_put_text(&w->line, "module", total->site);
        ls_json_put_end(&w->line);
    }
    end_line(w, why);
}

static void put_lane(event_writer *w, const ls_span_lane *lane, int thread, ls_message *why)
{
    for (const ls_span_chunk *chunk = lane->first; chunk && w->ok; chunk = chunk->next)
        for (int32_t i = 0; i < chunk->count && w->ok; i++) put_span(w, lane, &chunk->spans[i], thread, why);
}

static void put_name(event_writer *w, const char *what, int thread, const char *name, ls_message *why)
{
    ls_json_restart(&w->line);
    ls_json_put_object(&w->line, NULL);
    ls_json_put_text(&w->line, "name", what);
    ls_json_put_text(&w->line, "ph", "M");
    ls_json_put_integer(&w->line, "pid", w->rank);
    ls_json_put_integer(&w->line, "tid", thread);
    ls_json_put_object(&w->line, "args");
    ls_json_put_text(&w->line, "name", name);
    ls_json_put_end(&w->line);
    end_line(w, why);
}

bool ls_profile_write_events(const ls_spans *spans, const ls_profiled *who, const char *path, ls_message *why)
{
    event_writer w = {.rank = who->rank, .origin = who->origin};
    char name[200];
    snprintf(name, sizeof name, "rank %d on %s", who->rank, who->host);
    w.ok = ls_file_create(&w.out, path, false, why);
    if (!w.ok) return false;
    put_name(&w, "process_name", PROGRAM, name, why);
    put_name(&w, "thread_name", PROGRAM, "program", why);
    if (spans->background.count) put_name(&w, "thread_name", BACKGROUND, "communication", why);
    put_lane(&w, &spans->program, PROGRAM, why);
    put_lane(&w, &spans->background, BACKGROUND, why);
    w.ok = w.ok && ls_file_seal(&w.out, why) && ls_file_publish(&w.out, why);
    ls_file_discard(&w.out);
    ls_sys_free(ls_json_take(&w.line, NULL));
    return w.ok;
}
