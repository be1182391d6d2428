/* table.h - tables in text files, tsv or csv: fields by row and by the name of their column. */
#ifndef LOCKSTEP_DATA_TEXT_TABLE_H
#define LOCKSTEP_DATA_TEXT_TABLE_H

#include <lockstep/base.h>

typedef struct ls_table_field {
    const char *text; /* in the table's memory, zero-terminated */
    size_t size;
} ls_table_field;

typedef struct ls_table {
    char *memory;           /* of the file, in which fields were cut */
    ls_table_field *fields; /* [rows, columns], after the header where there is one */
    int64_t rows, columns, room;
    bool header;
} ls_table;

/* Read a file. With a separator of ',' quotes are those of RFC 4180: "a ""b"", c"; with a tab they are characters like
 * others. Empty lines are left out; rows of another length than the first are refused, with the line. */
ls_status ls_table_read(ls_table *table, const char *path, char separator, bool header, ls_message *why);
/* Cut a text of `size` bytes, with a zero behind them, into fields; it is changed, and becomes the table's. */
ls_status ls_table_cut(ls_table *table, char *text, size_t size, char separator, bool header, ls_message *why);
void ls_table_free(ls_table *table);

/* The number of the column with this name, or, without a header, of this number; -1 where there is none. */
int64_t ls_table_column(const ls_table *table, const char *name);

static inline const ls_table_field *ls_table_at(const ls_table *table, int64_t row, int64_t column)
{
    return &table->fields[(row + table->header) * table->columns + column];
}

#endif
