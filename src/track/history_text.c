/* history_text.c - values read back from JSON lines and from tables. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "track/history.h"

/* ---- JSON lines ---- */

/* Add all numbers of a line; null means NaN. Without "step" the line number is the step. */
static bool add_line(ls_history *history, const ls_json *line)
{
    double step = ls_json_number(ls_json_get(line, "step"), (double)history->lines);
    for (const ls_json *value = ls_json_members(line); value; value = value->next) {
        bool counts = value->type == LS_JSON_INTEGER || value->type == LS_JSON_REAL || value->type == LS_JSON_NULL;
        if (!counts || strcmp(value->key, "step") == 0 || strcmp(value->key, "time") == 0) continue;
        if (!ls_history_add(history, value->key, strlen(value->key), step, ls_json_number(value, (double)NAN)))
            return false;
    }
    return ls_history_end_record(history, step, ls_json_number(ls_json_get(line, "time"), (double)NAN));
}

bool ls_history_read_jsonl(ls_history *history, const char *text, size_t size, ls_message *why)
{
    const char *end = text + size, *line_end;
    for (; (line_end = memchr(text, '\n', (size_t)(end - text))); history->lines++, text = line_end + 1) {
        if (line_end == text) continue;
        ls_message what = {{0}};
        ls_json *line = ls_json_read(text, (size_t)(line_end - text), &what);
        if (!line || line->type != LS_JSON_OBJECT) {
            ls_message_set(why, "line %lld is not a JSON object: %.150s", (long long)history->lines + 1, what.text);
            ls_json_free(line);
            return false;
        }
        bool ok = add_line(history, line);
        ls_json_free(line);
        if (!ok) return false;
    }
    return true;
}

/* ---- tables ---- */

/* A cell of a row without its quotes, truncated to fit; sets *at to the text after its comma, or to NULL after the
 * last. */
enum { CELL = 512 };
static size_t take_cell(const char **at, const char *end, char cell[CELL])
{
    size_t length = 0;
    const char *c = *at;
    bool quoted = c < end && *c == '"';
    if (quoted) c++;
    for (; c < end && (quoted || *c != ','); c++) {
        if (quoted && *c == '"' && (c + 1 == end || *++c != '"')) break; /* a doubled quote is a quote */
        if (length < CELL - 1) cell[length++] = *c;
    }
    cell[length] = '\0';
    while (c < end && *c != ',') c++;
    *at = c < end ? c + 1 : NULL;
    return length;
}

/* Parse a number in C locale notation, whatever the program's locale. */
static bool read_number(char cell[CELL], double *value)
{
    char *point = strchr(cell, '.'), *end;
    if (point) *point = localeconv()->decimal_point[0];
    *value = strtod(cell, &end);
    return end != cell && !*end;
}

/* The first line names the columns; the first column is the step. */
typedef struct header {
    const char *begin, *end;
} header;

static bool add_row(ls_history *history, header columns, const char *row, const char *row_end)
{
    char cell[CELL], name[CELL];
    double step, value, time = (double)NAN;
    const char *at = row, *names = columns.begin;
    take_cell(&names, columns.end, name);
    take_cell(&at, row_end, cell);
    if (!read_number(cell, &step)) return true;
    while (at && names) {
        size_t length = take_cell(&names, columns.end, name);
        if (take_cell(&at, row_end, cell) == 0 || !read_number(cell, &value)) continue;
        if (strcmp(name, "time") == 0) time = value;
        else if (!ls_history_add(history, name, length, step, value)) return false;
    }
    return ls_history_end_record(history, step, time);
}

bool ls_history_read_csv(ls_history *history, const char *text, size_t size, ls_message *why)
{
    const char *end = text + size, *row_end = memchr(text, '\n', size);
    if (!row_end) {
        ls_message_set(why, "the header is incomplete");
        return false;
    }
    const char *zero = memchr(text, 0, size);
    if (zero) {
        ls_message_set(why, "byte %zu is zero: this is not a text file", (size_t)(zero - text));
        return false;
    }
    header columns = {text, row_end};
    while (text = row_end + 1, (row_end = memchr(text, '\n', (size_t)(end - text))))
        if (!add_row(history, columns, text, row_end)) return false;
    return true;
}
