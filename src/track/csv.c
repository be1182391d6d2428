/* csv.c - values as a table: step, time, and a column per name.
 *
 * A new name gets a column at the right: the file is rewritten once, with an empty cell in the existing rows. A row is
 * a line; line breaks in texts become blanks. */
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/memory.h"
#include "track/append.h"
#include "track/sink.h"

typedef struct csv {
    ls_append file;
    char **columns; /* after step and time */
    size_t count, capacity;
    ls_byte_buffer row;
} csv;

static void put_text(ls_byte_buffer *row, const char *text)
{
    bool quotes = strpbrk(text, ",\"") || strpbrk(text, "\r\n");
    if (quotes) ls_byte_buffer_put(row, "\"", 1);
    for (; *text; text++) {
        char c = *text == '\n' || *text == '\r' ? ' ' : *text;
        ls_byte_buffer_put(row, &c, 1);
        if (c == '"') ls_byte_buffer_put(row, "\"", 1);
    }
    if (quotes) ls_byte_buffer_put(row, "\"", 1);
}

static bool add_column(csv *sink, const char *name, size_t length)
{
    if (sink->count == sink->capacity) {
        size_t capacity = sink->capacity ? sink->capacity * 2 : 16;
        char **grown = ls_sys_realloc(sink->columns, capacity * sizeof *grown);
        if (!grown) return false;
        sink->columns = grown;
        sink->capacity = capacity;
    }
    char *copy = ls_sys_alloc(length + 1);
    if (!copy) return false;
    memcpy(copy, name, length);
    sink->columns[sink->count++] = copy;
    return true;
}

static size_t column_of(const csv *sink, const char *name)
{
    size_t i = 0;
    while (i < sink->count && strcmp(sink->columns[i], name) != 0) i++;
    return i;
}

/* ---- the header ---- */

static void put_header(const csv *sink, ls_byte_buffer *to)
{
    ls_byte_buffer_print(to, "step,time");
    for (size_t i = 0; i < sink->count; i++) {
        ls_byte_buffer_put(to, ",", 1);
        put_text(to, sink->columns[i]);
    }
    ls_byte_buffer_put(to, "\n", 1);
}

/* The columns of a header line after step and time; `line` is overwritten. */
static bool read_header(csv *sink, char *line)
{
    if (strncmp(line, "step,time", 9) != 0 || (line[9] && line[9] != ',')) return false;
    for (char *c = line + 9; *c == ',';) {
        char *name = ++c, *end = name;
        bool quoted = *c == '"';
        if (quoted) c++;
        while (*c && (quoted || *c != ',')) {
            if (quoted && *c == '"' && *++c != '"') break; /* a doubled quote is a quote */
            *end++ = *c++;
        }
        if (!add_column(sink, name, (size_t)(end - name))) return false;
    }
    return true;
}

/* Rewrite all rows under a header that has grown by `added` columns. */
static bool widen(csv *sink, size_t added, ls_message *why)
{
    ls_file_bytes old;
    if (!ls_file_load(&old, sink->file.path, SIZE_MAX, why)) return false;
    ls_byte_buffer wide = {0};
    put_header(sink, &wide);
    const char *end = old.bytes + old.size, *row = memchr(old.bytes, '\n', old.size);
    for (const char *row_end; row && (row_end = memchr(row + 1, '\n', (size_t)(end - row - 1))); row = row_end) {
        ls_byte_buffer_put(&wide, row + 1, (size_t)(row_end - row - 1));
        for (size_t i = 0; i < added; i++) ls_byte_buffer_put(&wide, ",", 1);
        ls_byte_buffer_put(&wide, "\n", 1);
    }
    ls_file_unload(&old);
    ls_append widened;
    bool ok = !wide.failed && ls_file_write(sink->file.path, wide.bytes, wide.length, false, why) &&
              ls_append_open(&widened, sink->file.path, why);
    ls_byte_buffer_free(&wide);
    if (!ok) return false;
    ls_append_close(&sink->file);
    sink->file = widened;
    return true;
}

/* ---- the table ---- */

static void close_file(void *arg, bool succeeded)
{
    (void)succeeded;
    csv *sink = arg;
    if (!sink) return;
    for (size_t i = 0; i < sink->count; i++) ls_sys_free(sink->columns[i]);
    ls_sys_free(sink->columns);
    ls_byte_buffer_free(&sink->row);
    ls_append_close(&sink->file);
    ls_sys_free(sink);
}

/* Read the columns of an existing table. */
static bool read_columns(csv *sink, ls_message *why)
{
    ls_file_bytes table;
    if (!ls_file_load(&table, sink->file.path, SIZE_MAX, why)) return false;
    const char *end = memchr(table.bytes, '\n', table.size);
    size_t length = end ? (size_t)(end - table.bytes) : 0;
    char *header = ls_sys_alloc(length + 1);
    if (header) memcpy(header, table.bytes, length);
    ls_file_unload(&table);
    bool known = header && read_header(sink, header);
    if (header && !known)
        ls_message_set(why, "%.120s: starts with \"%.60s\", not with step,time", sink->file.path, header);
    ls_sys_free(header);
    return known;
}

static void *open_file(const char *folder, ls_message *why)
{
    char path[LS_TRACK_PATH];
    csv *sink = ls_sys_alloc(sizeof *sink);
    if (sink && ls_track_path(path, folder, LS_TRACK_CSV, why) && ls_append_open(&sink->file, path, why) &&
        (sink->file.size == 0 || read_columns(sink, why)))
        return sink;
    close_file(sink, false);
    return NULL;
}

static bool write_record(void *arg, const ls_track_record *record, ls_message *why)
{
    csv *sink = arg;
    size_t before = sink->count;
    bool ok = true;
    for (size_t i = 0; ok && i < record->count; i++) {
        const char *name = record->values[i].name;
        if (column_of(sink, name) == sink->count) ok = add_column(sink, name, strlen(name));
    }
    if (ok && (sink->count > before || sink->file.size == 0)) ok = widen(sink, sink->count - before, why);
    if (!ok) { /* the next call tries again */
        while (sink->count > before) ls_sys_free(sink->columns[--sink->count]);
        return false;
    }
    ls_byte_buffer *row = &sink->row;
    ls_byte_buffer_empty(row);
    int64_t ms = (int64_t)(record->time * 1000 + 0.5);
    ls_byte_buffer_print(row, "%lld,%lld.%03d", (long long)record->step, (long long)(ms / 1000), (int)(ms % 1000));
    for (size_t column = 0; column < sink->count; column++) {
        ls_byte_buffer_put(row, ",", 1);
        for (size_t i = 0; i < record->count; i++) {
            if (strcmp(record->values[i].name, sink->columns[column]) != 0) continue;
            if (record->text) put_text(row, record->text);
            else ls_byte_buffer_number(row, 9, record->values[i].number);
        }
    }
    ls_byte_buffer_put(row, "\n", 1);
    return !row->failed && ls_append_write(&sink->file, row->bytes, row->length, why);
}

const ls_sink_format ls_sink_csv = {"csv", open_file, write_record, NULL, close_file, false};
