/* arrow.c - tables of Arrow that pyarrow wrote (samples/, made by make_arrow.py): read, refused by name, and damaged in
 * every byte. */
#include "formats/arrow.h"

#include "base/memory.h"
#include "check.h"
#include "folder.h"

static const char *samples = SAMPLES_DIR;

/* A sample, to be freed; in memory of exactly its size, so that a sanitizer sees the first byte read beyond it. */
static char *sample(const char *name, size_t *size)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", samples, name);
    char *text = file_text(path, size);
    CHECK_MSG(text, "%s is missing", path);
    if (!text) *size = 0;
    return text ? realloc(text, *size) : NULL;
}

static const ls_arrow_array *column(const ls_arrow *table, const char *name)
{
    return ls_arrow_child(&table->first->table, name);
}

static bool text_is(const ls_arrow_array *array, int64_t index, const char *text)
{
    size_t size;
    const char *bytes = ls_arrow_text(array, index, &size);
    return size == strlen(text) && memcmp(bytes, text, size) == 0;
}

static void every_kind_is_read(void)
{
    size_t size;
    char *bytes = sample("kinds.arrow", &size);
    ls_arrow table;
    ls_message why = {{0}};
    CHECK_MSG(ls_arrow_read(&table, bytes, size, &why) == LS_OK, "%s", why.text);
    CHECK(table.rows == 3 && table.table.child_count == 6 && !table.first->next);
    const ls_arrow_array *i8 = column(&table, "i8"), *u16 = column(&table, "u16"), *i64 = column(&table, "i64");
    CHECK(ls_arrow_integer(i8, 0) == -128 && ls_arrow_is_null(i8, 1) && ls_arrow_integer(i8, 2) == 5);
    CHECK(ls_arrow_integer(u16, 0) == 65535 && ls_arrow_integer(u16, 1) == 0 && ls_arrow_is_null(u16, 2));
    CHECK(ls_arrow_integer(i64, 0) == -((int64_t)1 << 62) && ls_arrow_integer(i64, 1) == 7);
    const ls_arrow_array *text = column(&table, "text");
    CHECK(text_is(text, 0, "") && !ls_arrow_is_null(text, 0) && ls_arrow_is_null(text, 1));
    CHECK(text_is(text, 2, "two\nlines"));
    const ls_arrow_array *list = column(&table, "list"), *inner = &list->children[0];
    int64_t count, first = ls_arrow_list(list, 0, &count);
    CHECK(count == 3 && inner->field->kind == LS_ARROW_LIST);
    first = ls_arrow_list(inner, first + 2, &count);
    CHECK(count == 1 && ls_arrow_integer(&inner->children[0], first) == 3);
    CHECK((ls_arrow_list(list, 1, &count), count == 0) && !ls_arrow_is_null(list, 1) && ls_arrow_is_null(list, 2));
    const ls_arrow_array *both = column(&table, "struct"), *a = ls_arrow_child(both, "a");
    CHECK(ls_arrow_integer(a, 0) == 255 && ls_arrow_is_null(both, 1) && ls_arrow_is_null(a, 2));
    CHECK(text_is(ls_arrow_child(both, "b"), 2, "yz") && !ls_arrow_child(both, "c"));
    ls_arrow_free(&table);
    free(bytes);
}

static void columns_of_other_types_are_passed_over(void)
{
    size_t size;
    char *bytes = sample("squad_wide.arrow", &size);
    ls_arrow table;
    ls_message why = {{0}};
    CHECK_MSG(ls_arrow_read(&table, bytes, size, &why) == LS_OK, "%s", why.text);
    CHECK(table.rows == 4 && text_is(column(&table, "question"), 3, "which 3?"));
    CHECK_TEXT(column(&table, "kind")->field->type, "dictionary");
    CHECK_TEXT(column(&table, "words")->field->type, "map");
    ls_arrow_free(&table);
    free(bytes);
}

static void what_is_not_read_is_named(void)
{
    static const char *const cases[][2] = {
        {"squad_compressed.arrow", "its batches are compressed"},
        {"view.arrow", "column \"seen\" has type utf8_view, which is not supported"},
        {"zip.pt", "it is not an Arrow file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size;
        char *bytes = sample(cases[i][0], &size);
        ls_arrow table;
        ls_message why = {{0}};
        CHECK(ls_arrow_read(&table, bytes, size, &why) != LS_OK);
        CHECK_MSG(strstr(why.text, cases[i][1]), "%s: %s", cases[i][0], why.text);
        free(bytes);
    }
}

/* Look at all values, as far as the table says that there are some. */
static uint64_t sum_of(const ls_arrow_array *array)
{
    uint64_t sum = 0; /* wraps around */
    int64_t count;
    size_t size;
    for (int64_t i = 0; i < array->count && array->field->kind != LS_ARROW_OTHER; i++) {
        sum += ls_arrow_is_null(array, i);
        if (array->field->kind == LS_ARROW_INTEGER) sum ^= (uint64_t)ls_arrow_integer(array, i);
        if (array->field->kind == LS_ARROW_LIST) sum += (uint64_t)ls_arrow_list(array, i, &count);
        if (array->field->kind != LS_ARROW_TEXT) continue;
        const char *text = ls_arrow_text(array, i, &size);
        for (size_t k = 0; k < size; k++) sum += (unsigned char)text[k];
    }
    for (int64_t i = 0; i < array->field->child_count; i++) sum += sum_of(&array->children[i]);
    return sum;
}

static volatile uint64_t seen; /* so that nothing is left out */

static bool read_all(const char *bytes, size_t size)
{
    ls_arrow table;
    ls_message why = {{0}};
    if (ls_arrow_read(&table, bytes, size, &why)) return false;
    for (const ls_arrow_batch *batch = table.first; batch; batch = batch->next) seen += sum_of(&batch->table);
    ls_arrow_free(&table);
    return true;
}

static void damage_does_no_harm(void)
{
    static const char *const names[] = {"kinds.arrow", "squad.arrow", "squad_wide.arrow"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        size_t size;
        char *bytes = sample(names[n], &size);
        CHECK(read_all(bytes, size));
        for (size_t cut = 0; cut < size; cut++) {
            char *part = malloc(cut ? cut : 1);
            memcpy(part, bytes, cut);
            bool is_read = read_all(part, cut);
            CHECK_MSG(!is_read || n == 1, "%s: the first %zu bytes are read", names[n],
                      cut); /* streams may end early */
            free(part);
        }
        for (size_t at = 0; at < size; at++)
            for (int bit = 0; bit < 8; bit++) {
                bytes[at] = (char)(bytes[at] ^ 1 << bit);
                read_all(bytes, size);
                bytes[at] = (char)(bytes[at] ^ 1 << bit);
            }
        free(bytes);
    }
}

static void memory_may_run_out(void)
{
    size_t size;
    char *bytes = sample("squad_wide.arrow", &size);
    bool done = false;
    for (uint64_t n = 1; !done && n < 1000; n++) {
        ls_arrow table;
        ls_message why = {{0}};
        ls_sys_fail_at(n);
        done = ls_arrow_read(&table, bytes, size, &why) == LS_OK;
        ls_sys_fail_at(0);
        CHECK_MSG(done || strstr(why.text, "no memory"), "%s", why.text);
        if (done) ls_arrow_free(&table);
    }
    CHECK(done);
    free(bytes);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--samples") == 0) samples = argv[2];
    else check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(every_kind_is_read);
    CHECK_RUN(columns_of_other_types_are_passed_over);
    CHECK_RUN(what_is_not_read_is_named);
    CHECK_RUN(damage_does_no_harm);
    CHECK_RUN(memory_may_run_out);
    return check_done();
}
