/* arrow_program.c - print a table of Arrow, a row in a line of json: for arrow_peer.py. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "formats/arrow.h"

static void put(ls_json_writer *w, const char *key, const ls_arrow_array *array, int64_t index)
{
    const ls_arrow_field *field = array->field;
    int64_t count, first;
    size_t size;
    if (field->kind == LS_ARROW_OTHER || ls_arrow_is_null(array, index)) {
        ls_json_put_null(w, key);
    } else if (field->kind == LS_ARROW_INTEGER) {
        ls_json_put_integer(w, key, ls_arrow_integer(array, index));
    } else if (field->kind == LS_ARROW_TEXT) {
        const char *bytes = ls_arrow_text(array, index, &size);
        ls_arena memory = {0};
        ls_json_put_text(w, key, ls_arena_text(&memory, bytes, size));
        ls_arena_free(&memory);
    } else if (field->kind == LS_ARROW_LIST) {
        ls_json_put_array(w, key);
        first = ls_arrow_list(array, index, &count);
        for (int64_t i = 0; i < count; i++) put(w, NULL, &array->children[0], first + i);
        ls_json_put_end(w);
    } else {
        ls_json_put_object(w, key);
        for (int64_t i = 0; i < field->child_count; i++) put(w, field->children[i].name, &array->children[i], index);
        ls_json_put_end(w);
    }
}

int main(int argc, char **argv)
{
    ls_file_bytes file;
    ls_arrow table;
    ls_message why = {{0}};
    if (argc != 2 || !ls_file_load(&file, argv[1], SIZE_MAX, &why) ||
        ls_arrow_read(&table, file.bytes, file.there, &why)) {
        fprintf(stderr, "%s\n", why.text);
        return 1;
    }
    for (const ls_arrow_batch *batch = table.first; batch; batch = batch->next)
        for (int64_t i = 0; i < batch->rows; i++) {
            ls_json_writer w = {0};
            put(&w, NULL, &batch->table, i);
            char *line = ls_json_take(&w, NULL);
            puts(line);
            ls_sys_free(line);
        }
    ls_arrow_free(&table);
    ls_file_unload(&file);
    return 0;
}
