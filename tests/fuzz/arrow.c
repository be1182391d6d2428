/* arrow.c - tables of Arrow: whatever is read has values that lie in the file. */
#include "formats/arrow.h"

#include "fuzz/fuzz.h"

static const char *file;
static size_t file_size;
static volatile int64_t seen; /* so that no value is left out */

static void look_at(const ls_arrow_array *array)
{
    const ls_arrow_field *field = array->field;
    int64_t values = field->kind == LS_ARROW_LIST ? array->children[0].count : 0, count;
    size_t size;
    for (int64_t i = 0; i < array->count && i < 1 << 16; i++) {
        if (field->kind != LS_ARROW_OTHER) seen += ls_arrow_is_null(array, i);
        if (field->kind == LS_ARROW_INTEGER) seen ^= ls_arrow_integer(array, i);
        if (field->kind == LS_ARROW_LIST) {
            int64_t first = ls_arrow_list(array, i, &count);
            FUZZ_CHECK(first >= 0 && count >= 0 && count <= values - first);
        }
        if (field->kind != LS_ARROW_TEXT) continue;
        const char *text = ls_arrow_text(array, i, &size);
        FUZZ_CHECK(!size || (text >= file && size <= file_size - (size_t)(text - file)));
    }
    for (int64_t i = 0; i < field->child_count; i++) {
        FUZZ_CHECK(array->children[i].field == &field->children[i]);
        FUZZ_CHECK(field->kind != LS_ARROW_STRUCT || array->children[i].count >= array->count);
        look_at(&array->children[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *copy = fuzz_copy(bytes, size);
    ls_arrow table;
    ls_message why = {{0}};
    file = copy;
    file_size = size;
    if (ls_arrow_read(&table, copy, size, &why)) FUZZ_CHECK(*why.text && !table.first);
    else {
        int64_t rows = 0;
        for (const ls_arrow_batch *batch = table.first; batch; batch = batch->next) {
            rows += batch->rows;
            look_at(&batch->table);
        }
        FUZZ_CHECK(rows == table.rows);
        ls_arrow_free(&table);
    }
    free(copy);
    return 0;
}
