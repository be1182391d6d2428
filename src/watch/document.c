/* document.c - what the page shows, as JSON. */
#include "watch/document.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "track/sink.h"
#include "track/status.h"
#include "watch/thin.h"

enum { MOST_SERIES = 500, LARGEST_JSON = 1 << 20 };

/* JavaScript's numbers have 53 bits. */
static void put_version(ls_json_writer *w, const char *key, uint64_t version)
{
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)version);
    ls_json_put_text(w, key, text);
}

/* What a request calls the run: its name with all but letters, digits and "-._~/" as %XX. JSON holds no text but UTF-8,
 * and the name of a folder may be any bytes. */
static void put_id(ls_json_writer *w, const ls_watched_run *run)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
    char id[3 * LS_TRACK_PATH], *end = id;
    for (const char *c = run->name; *c && end < id + sizeof id - 4; c++) {
        if (strchr(plain, *c)) *end++ = *c;
        else end += sprintf(end, "%%%02X", (unsigned)(unsigned char)*c);
    }
    *end = '\0';
    ls_json_put_text(w, "id", id);
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

void ls_document_put_list(ls_json_writer *w, const char *key, ls_watched_folder *folder)
{
    ls_watched_look(folder);
    ls_json_put_object(w, key);
    ls_json_put_text(w, "folder", last_part(folder->path));
    ls_json_put_number(w, "now", ls_clock_date());
    ls_json_put_bool(w, "more", folder->more);
    ls_json_put_text(w, "closed", folder->closed);
    ls_json_put_array(w, "runs");
    for (int i = 0; i < folder->count; i++) {
        ls_json_put_object(w, NULL);
        put_id(w, folder->runs[i]);
        ls_json_put_text(w, "name", folder->runs[i]->name);
        put_version(w, "version", folder->runs[i]->version);
        put_version(w, "life", folder->runs[i]->life);
        ls_json_put_end(w);
    }
    ls_json_put_end(w);
    ls_json_put_end(w);
}

/* Copy a JSON file of the run; null if it is missing, too large or damaged. */
static void put_file(ls_json_writer *w, const char *key, const ls_watched_folder *folder, const ls_watched_run *run,
                     const char *file)
{
    int descriptor = ls_watched_open(folder, run, file);
    char *text = descriptor >= 0 ? ls_sys_alloc(LARGEST_JSON) : NULL;
    ssize_t size = text ? read(descriptor, text, LARGEST_JSON) : -1;
    ls_json *root = size > 0 ? ls_json_read(text, (size_t)size, &(ls_message){{0}}) : NULL;
    if (root) ls_json_put_value(w, key, root);
    else ls_json_put_null(w, key);
    ls_json_free(root);
    ls_sys_free(text);
    if (descriptor >= 0) close(descriptor);
}

void ls_document_put_status(ls_json_writer *w, const char *key, const ls_watched_folder *folder,
                            const ls_watched_run *run)
{
    put_file(w, key, folder, run, LS_TRACK_STATUS);
}

static void put_series(ls_json_writer *w, const char *key, const ls_history *history)
{
    ls_json_put_array(w, key);
    for (int i = 0; i < history->count && i < MOST_SERIES; i++) {
        const ls_history_series *series = &history->series[i];
        ls_json_put_object(w, NULL);
        ls_json_put_text(w, "name", series->name);
        ls_json_put_integer(w, "count", series->count);
        ls_json_put_number(w, "last", series->count ? series->y[series->count - 1] : (double)NAN);
        ls_thin_put(w, series);
        ls_json_put_end(w);
    }
    ls_json_put_end(w);
}

void ls_document_put_run(ls_json_writer *w, const char *key, const ls_watched_folder *folder, ls_watched_run *run)
{
    ls_watched_read(folder, run);
    const ls_history *history = &run->values.history;
    const char *problem = run->values.problem.text;
    ls_json_put_object(w, key);
    put_id(w, run);
    ls_json_put_text(w, "name", run->name);
    put_version(w, "version", run->version);
    ls_json_put_text(w, "problem", problem[0] ? problem : NULL);
    put_file(w, "config", folder, run, LS_TRACK_CONFIG);
    ls_json_put_integer(w, "count", history->count);
    put_series(w, "series", history);
    put_series(w, "system", &run->system.history);
    ls_json_put_object(w, "times");
    ls_thin_put(w, &history->times);
    ls_json_put_end(w);
    ls_json_put_end(w);
}
