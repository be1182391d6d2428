/* table.c - split tsv and csv into fields, in the memory of the file. */
#include "data/text/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/message.h"
#include "formats/arrow.h"

enum { LARGEST_FILE = 1 << 30 };

/* The rest to be split. Fields are written in place, or before if quotes were removed. */
typedef struct cutter {
    char *at, *end;
    char separator;
    int64_t line; /* of `at`, from 1 */
} cutter;

static bool add_field(ls_table *t, int64_t *count, ls_table_field field)
{
    if (*count == t->room) {
        int64_t room = 2 * t->room + 256;
        void *larger = ls_sys_realloc(t->fields, (size_t)room * sizeof *t->fields);
        if (!larger) return false;
        t->fields = larger;
        t->room = room;
    }
    t->fields[(*count)++] = field;
    return true;
}

/* A quoted field: a doubled quote is a quote. False: the quote does not end, or something follows it. */
static bool cut_quoted(cutter *c, ls_table_field *field)
{
    char *to = ++c->at;
    field->text = to;
    for (; c->at < c->end; c->at++) {
        if (*c->at == '"' && (c->at + 1 == c->end || c->at[1] != '"')) break;
        if (*c->at == '"') c->at++;
        if (*c->at == '\n') c->line++;
        *to++ = *c->at;
    }
    field->size = (size_t)(to - field->text);
    if (c->at == c->end) return false;
    c->at++;
    if (c->at + 1 < c->end && c->at[0] == '\r' && c->at[1] == '\n') c->at++;
    return c->at == c->end || *c->at == c->separator || *c->at == '\n';
}

static void cut_plain(cutter *c, ls_table_field *field)
{
    field->text = c->at;
    while (c->at < c->end && *c->at != c->separator && *c->at != '\n') c->at++;
    field->size = (size_t)(c->at - field->text);
    bool line_ends = c->at == c->end || *c->at == '\n';
    if (line_ends && field->size && field->text[field->size - 1] == '\r') field->size--;
}

/* The fields of one row; their number goes to `columns`. */
static ls_status cut_row(ls_table *t, cutter *c, int64_t *count, int64_t *columns, ls_message *why)
{
    int64_t line = c->line;
    for (*columns = 0;; c->at++) {
        ls_table_field field;
        bool quoted = c->separator == ',' && c->at < c->end && *c->at == '"';
        if (!quoted) cut_plain(c, &field);
        else if (!cut_quoted(c, &field))
            return ls_explain(why, LS_ERR_IO, "line %lld: a quoted field is not closed, or something follows its quote",
                              (long long)line);
        if (!add_field(t, count, field)) return ls_explain(why, LS_ERR_MEMORY, "no memory for the fields of a table");
        ++*columns;
        bool more = c->at < c->end && *c->at == c->separator;
        *((char *)(uintptr_t)field.text + field.size) = '\0'; /* replaces the separator or a quote */
        if (!more) break;
    }
    if (c->at < c->end) c->at++, c->line++;
    return LS_OK;
}

ls_status ls_table_cut(ls_table *t, char *text, size_t size, char separator, bool header, ls_message *why)
{
    *t = (ls_table){.memory = text, .header = header};
    cutter c = {text, text + size, separator, 1};
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) c.at += 3; /* a byte order mark */
    int64_t count = 0, rows = 0;
    while (c.at < c.end) {
        if (*c.at == '\n' || (*c.at == '\r' && c.at + 1 < c.end && c.at[1] == '\n')) { /* an empty line */
            c.at += *c.at == '\r' ? 2 : 1;
            c.line++;
            continue;
        }
        int64_t line = c.line, columns;
        ls_status status = cut_row(t, &c, &count, &columns, why);
        if (status) return status;
        if (!rows++) t->columns = columns;
        else if (columns != t->columns)
            return ls_explain(why, LS_ERR_IO, "line %lld has %lld columns, but the first has %lld", (long long)line,
                              (long long)columns, (long long)t->columns);
    }
    if (rows <= header) return ls_explain(why, LS_ERR_IO, "it has no rows");
    t->rows = rows - header;
    return LS_OK;
}

ls_status ls_table_read(ls_table *t, const char *path, char separator, bool header, ls_message *why)
{
    if (ls_is_arrow_file(path)) return ls_table_read_arrow(t, path, why);
    *t = (ls_table){0};
    size_t size;
    char *text = ls_file_read(path, LARGEST_FILE, &size, why);
    if (!text) return LS_ERR_IO;
    ls_message reason = {{0}};
    ls_status status = ls_table_cut(t, text, size, separator, header, &reason);
    return status ? ls_explain(why, status, "%s: %s", path, reason.text) : LS_OK;
}

void ls_table_free(ls_table *t)
{
    ls_sys_free(t->memory);
    ls_arena_free(&t->texts);
    ls_sys_free(t->fields);
    *t = (ls_table){0};
}

int64_t ls_table_column(const ls_table *t, const char *name)
{
    if (!t->header) {
        char *end;
        long number = strtol(name, &end, 10);
        return *name && !*end && number >= 0 && number < t->columns ? number : -1;
    }
    for (int64_t i = 0; i < t->columns; i++)
        if (strcmp(t->fields[i].text, name) == 0) return i;
    return -1;
}
