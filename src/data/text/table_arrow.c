/* table_arrow.c - Arrow tables as rows of texts: text columns unchanged, integer columns as decimal digits. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/text/table.h"
#include "formats/arrow.h"

static bool is_shown(const ls_arrow_field *field)
{
    return field->kind == LS_ARROW_TEXT || field->kind == LS_ARROW_INTEGER;
}

static bool set_field(ls_table *t, ls_table_field *to, const char *text, size_t size)
{
    *to = (ls_table_field){ls_arena_text(&t->texts, text, size), size};
    return to->text != NULL;
}

/* A null is an empty text. */
static bool set_value(ls_table *t, ls_table_field *to, const ls_arrow_array *column, int64_t index)
{
    char digits[24];
    size_t size = 0;
    const char *text = digits;
    bool is_null = ls_arrow_is_null(column, index);
    if (!is_null && column->field->kind == LS_ARROW_TEXT) text = ls_arrow_text(column, index, &size);
    else if (!is_null)
        size = (size_t)snprintf(digits, sizeof digits, "%lld", (long long)ls_arrow_integer(column, index));
    return set_field(t, to, text, size);
}

/* The names of the columns. */
static ls_status set_header(ls_table *t, const ls_arrow_field *table, ls_message *why)
{
    for (int64_t i = 0; i < table->child_count; i++) t->columns += is_shown(&table->children[i]);
    if (!t->columns) return ls_explain(why, LS_ERR_IO, "it has no columns of text");
    t->fields = ls_sys_alloc((size_t)t->columns * sizeof *t->fields);
    bool ok = t->fields != NULL;
    ls_table_field *to = t->fields;
    for (int64_t i = 0; ok && i < table->child_count; i++) {
        const char *name = table->children[i].name;
        if (is_shown(&table->children[i])) ok = set_field(t, to++, name, strlen(name));
    }
    return ok ? LS_OK : ls_explain(why, LS_ERR_MEMORY, "no memory for its columns");
}

static bool has_header(const ls_table *t, const ls_arrow_field *table)
{
    int64_t columns = 0;
    for (int64_t i = 0; i < table->child_count; i++) {
        if (!is_shown(&table->children[i])) continue;
        if (columns == t->columns || strcmp(t->fields[columns].text, table->children[i].name) != 0) return false;
        columns++;
    }
    return columns == t->columns;
}

static ls_status add_batch(ls_table *t, const ls_arrow_batch *batch, ls_message *why)
{
    size_t rows = (size_t)(1 + t->rows + batch->rows);
    ls_table_field *to = ls_sys_realloc(t->fields, rows * (size_t)t->columns * sizeof *to);
    if (!to) return ls_explain(why, LS_ERR_MEMORY, "no memory for its rows");
    t->fields = to;
    to += (1 + t->rows) * t->columns;
    for (int64_t row = 0; row < batch->rows; row++)
        for (int64_t i = 0; i < batch->table.field->child_count; i++) {
            const ls_arrow_array *column = &batch->table.children[i];
            if (is_shown(column->field) && !set_value(t, to++, column, row))
                return ls_explain(why, LS_ERR_MEMORY, "no memory for its texts");
        }
    t->rows += batch->rows;
    return LS_OK;
}

static ls_status add_part(const ls_arrow *part, bool *more, ls_message *why, void *user)
{
    ls_table *t = user;
    (void)more;
    ls_status status = t->fields ? LS_OK : set_header(t, &part->table, why);
    if (!status && !has_header(t, &part->table))
        status = ls_explain(why, LS_ERR_IO, "its columns differ from those of the first part");
    for (const ls_arrow_batch *batch = part->first; batch && !status; batch = batch->next)
        status = add_batch(t, batch, why);
    return status;
}

ls_status ls_table_read_arrow(ls_table *t, const char *path, ls_message *why)
{
    *t = (ls_table){.header = true};
    ls_status status = ls_arrow_read_parts(path, add_part, t, why);
    if (!status && !t->rows) status = ls_explain(why, LS_ERR_IO, "%s: it has no rows", path);
    return status;
}
