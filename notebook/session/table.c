/* table.c - a tensor as an HTML table. */
#include "table.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_ROWS = 12, MOST_COLUMNS = 12, MOST_ELEMENTS = 1 << 22 };

static bool is_readable(ls_dtype type)
{
    return type != LS_F16 && type != LS_BF16;
}

static double element(const void *data, ls_dtype type, int64_t i)
{
    switch (type) {
    case LS_BOOL:
    case LS_U8: return ((const unsigned char *)data)[i];
    case LS_I8: return ((const signed char *)data)[i];
    case LS_I32: return ((const int32_t *)data)[i];
    case LS_I64: return (double)((const int64_t *)data)[i];
    case LS_F32: return (double)((const float *)data)[i];
    default: return ((const double *)data)[i];
    }
}

static void put_row(FILE *to, const void *data, ls_dtype type, int64_t begin, int64_t columns)
{
    fputs("<tr>", to);
    for (int64_t c = 0; c < columns && c < MOST_COLUMNS; c++)
        fprintf(to, "<td>%.5g</td>", element(data, type, begin + c));
    fputs(columns > MOST_COLUMNS ? "<td>&hellip;</td></tr>" : "</tr>", to);
}

static void put_table(FILE *to, ls_tensor *t, const void *data)
{
    int64_t rows = ls_ndim(t) == 2 ? ls_dim(t, 0) : 1, columns = ls_dim(t, -1);
    fputs("<table>", to);
    for (int64_t r = 0; r < rows && r < MOST_ROWS; r++) put_row(to, data, ls_dtype_of(t), r * columns, columns);
    if (rows > MOST_ROWS) fputs("<tr><td>&#8942;</td></tr>", to);
    fputs("</table><small>[", to);
    if (ls_ndim(t) == 2) fprintf(to, "%lld, ", (long long)rows);
    fprintf(to, "%lld] %s, %s</small>", (long long)columns, ls_dtype_name(ls_dtype_of(t)), ls_device_of(t));
}

char *table_of(ls_tensor *t)
{
    int64_t count = ls_numel(t);
    size_t size = (size_t)count * ls_dtype_size(ls_dtype_of(t));
    bool fits = ls_is_valid(t) && (ls_ndim(t) == 1 || ls_ndim(t) == 2) && count > 0 && count <= MOST_ELEMENTS;
    void *data = fits && is_readable(ls_dtype_of(t)) ? malloc(size) : NULL;
    char *table = NULL;
    size_t length;
    FILE *to = data && ls_read(t, data, size) ? open_memstream(&table, &length) : NULL;
    if (to) {
        put_table(to, t, data);
        fclose(to);
    }
    free(data);
    return table;
}
