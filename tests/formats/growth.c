/* growth.c - work grows linearly with the size of a file, whoever wrote it. Work is counted, not timed: the comparison
 * functions of this file replace those of libc in the whole program. */
#include "formats/files.h"

#include <lockstep/track.h>

#include "base/json.h"

static ls_run *run;
static uint64_t comparisons;

static int compare(const char *a, const char *b, size_t size)
{
    comparisons++;
    for (; size; size--, a++, b++)
        if (*a != *b || !*a) return (unsigned char)*a - (unsigned char)*b;
    return 0;
}

int strcmp(const char *a, const char *b)
{
    return compare(a, b, SIZE_MAX);
}

int strncmp(const char *a, const char *b, size_t size)
{
    return compare(a, b, size);
}

int memcmp(const void *a, const void *b, size_t size)
{
    comparisons++;
    const unsigned char *x = a, *y = b;
    for (; size; size--, x++, y++)
        if (*x != *y) return *x - *y;
    return 0;
}

/* Comparisons that a sort and a few tables need for this many names. */
static void check_work(const char *what, int64_t names)
{
    uint64_t most = 60 * (uint64_t)names;
    CHECK_MSG(comparisons > 0 && comparisons < most, "%s: %llu comparisons for %lld names", what,
              (unsigned long long)comparisons, (long long)names);
}

typedef struct text {
    char *bytes;
    size_t size, capacity;
} text;

__attribute__((format(printf, 2, 3))) static void put(text *t, const char *format, ...)
{
    if (t->capacity - t->size < 64) t->bytes = realloc(t->bytes, t->capacity = 2 * t->capacity + 64);
    va_list args;
    va_start(args, format);
    t->size += (size_t)vsnprintf(t->bytes + t->size, 64, format, args);
    va_end(args);
}

/* An attack on hash tables without a secret key: keys that collide under FNV-1a. */
static void colliding_keys_are_read_quickly(void)
{
    enum { COUNT = 1500, SLOTS = 4096 };
    text t = {0};
    put(&t, "{");
    int found = 0;
    for (int i = 0; found < COUNT; i++) {
        char key[16];
        int length = snprintf(key, sizeof key, "%x", (unsigned)i);
        uint64_t hash = 0xcbf29ce484222325u;
        for (int k = 0; k < length; k++) hash = (hash ^ (unsigned char)key[k]) * 0x100000001b3u;
        if (((hash ^ hash >> 32) & (SLOTS - 1)) == 0) put(&t, "%s\"%s\":1", found++ ? "," : "", key);
    }
    put(&t, "}");
    ls_message why;
    comparisons = 0;
    ls_json *json = ls_json_read(t.bytes, t.size, &why);
    check_work("JSON", COUNT);
    CHECK_MSG(json && json->count == COUNT, "%s", why.text);
    ls_json_free(json);
    free(t.bytes);
}

/* The last of many names is not in the shard. */
static void a_name_that_is_missing_is_found_quickly(void)
{
    enum { COUNT = 4000 };
    text header = {0}, index = {0};
    put(&header, "{");
    put(&index, "{\"weight_map\":{");
    for (int i = 0; i < COUNT; i++) {
        put(&header, "%s\"t%d\":{\"dtype\":\"U8\",", i ? "," : "", i);
        put(&header, "\"shape\":[0],\"data_offsets\":[0,0]}");
        put(&index, "\"t%d\":\"made.safetensors\",", i);
    }
    put(&header, "}");
    put(&index, "\"gone\":\"made.safetensors\"}}");
    put(&header, "%c", 0);
    put_safetensors(header.bytes, 0);
    put_file(in_folder("made.index.json"), index.bytes, index.size);
    comparisons = 0;
    CHECK_REFUSED(run, ls_contents_read(run, in_folder("made.index.json")), LS_ERR_IO,
                  "tensor gone, which the index puts into this shard, is not in it");
    check_work("an index", COUNT);
    free(header.bytes);
    free(index.bytes);
}

static void a_table_of_many_columns_is_read_quickly(void)
{
    enum { COUNT = 4000 };
    text table = {0};
    put(&table, "step");
    for (int i = 0; i < COUNT; i++) put(&table, ",c%d", i);
    for (int row = 1; row <= 2; row++) {
        put(&table, "\n%d", row);
        for (int i = 0; i < COUNT; i++) put(&table, ",%d", i);
    }
    put(&table, "\n");
    put_file(in_folder("wide.csv"), table.bytes, table.size);
    comparisons = 0;
    ls_history *history = ls_history_read(run, in_folder("wide.csv"));
    check_work("a table", COUNT);
    CHECK(ls_history_count(history) == COUNT);
    ls_plot *plot = ls_plot_new(run);
    ls_plot_add_history(plot, history, NULL);
    CHECK_REFUSED(run, ls_error(run) == LS_OK, LS_ERR_VALUE, "more than 500 panels");
    ls_plot_free(plot);
    ls_history_free(history);
    free(table.bytes);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    begin_files();
    run = ls_init(NULL, NULL);
    CHECK_RUN(colliding_keys_are_read_quickly);
    CHECK_RUN(a_name_that_is_missing_is_found_quickly);
    CHECK_RUN(a_table_of_many_columns_is_read_quickly);
    CHECK(ls_finish(run) == 0);
    end_files();
    return check_done();
}
