/* table.h - tables in tsv, csv or Arrow files: fields by row and column name. */
#ifndef LOCKSTEP_DATA_TEXT_TABLE_H
#define LOCKSTEP_DATA_TEXT_TABLE_H

#include <lockstep/base.h>

#include "base/arena.h"

typedef struct ls_table_field {
    const char *text; /* in the table's memory, zero-terminated */
    size_t size;
} ls_table_field;

typedef struct ls_table {
    char *memory;           /* of the file, split in place */
    ls_arena texts;         /* fields that are copies */
    ls_table_field *fields; /* [rows, columns], after the header if there is one */
    int64_t rows, columns, room;
    bool header;
} ls_table;

/* Read a file of any of these formats. With the separator ',' quotes are those of RFC 4180: "a ""b"", c"; with a tab
 * they are ordinary characters. Empty lines are skipped; rows of another length than the first are refused, with the
 * line. An Arrow file always has a header; its columns of text and integers are read. */
ls_status ls_table_read(ls_table *table, const char *path, char separator, bool header, ls_message *why);
/* Split a zero-terminated text of `size` bytes into fields; the text is modified and owned by the table. */
ls_status ls_table_cut(ls_table *table, char *text, size_t size, char separator, bool header, ls_message *why);
/* Read an Arrow file with all of its parts. */
ls_status ls_table_read_arrow(ls_table *table, const char *path, ls_message *why);
void ls_table_free(ls_table *table);

/* The index of the column with this name or, without a header, with this number; -1 if there is none. */
int64_t ls_table_column(const ls_table *table, const char *name);

static inline const ls_table_field *ls_table_at(const ls_table *table, int64_t row, int64_t column)
{
    return &table->fields[(row + table->header) * table->columns + column];
}

#endif
