/* table.c - tsv and csv: the first byte says which, and whether there is a header. */
#include "data/text/table.h"

#include "base/memory.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 1) return 0;
    char *text = ls_sys_alloc(size);
    FUZZ_CHECK(text);
    memcpy(text, bytes + 1, size - 1);
    ls_table table;
    ls_message why;
    if (!ls_table_cut(&table, text, size - 1, bytes[0] & 1 ? ',' : '\t', bytes[0] & 2, &why)) {
        FUZZ_CHECK(table.rows > 0 && table.columns > 0);
        for (int64_t row = 0; row < table.rows; row++)
            for (int64_t column = 0; column < table.columns; column++) {
                const ls_table_field *field = ls_table_at(&table, row, column);
                FUZZ_CHECK(field->text[field->size] == '\0' && strlen(field->text) <= field->size);
            }
        FUZZ_CHECK(ls_table_column(&table, "1") < table.columns);
    }
    ls_table_free(&table);
    return 0;
}
