/* names.c - the keyed hash has the values of others' SipHash-1-3, and tables of names find what was put in. */
#include "base/names.h"

#include "base/hash.h"
#include "base/memory.h"
#include "check.h"

static void the_hash_is_siphash_1_3(void)
{
    static const uint64_t none[2] = {0, 0}, counting[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
    static const struct {
        const char *text;
        uint64_t hash; /* of CPython 3.11 with PYTHONHASHSEED=0 */
    } rows[] = {{"a", 0x407448d2b89b1813u},
                {"weights", 0xe8d0e1eb46e632aau},
                {"weights.", 0x56d90e04b348befau},
                {"layer3.2.conv1.weight", 0x4c4a5fa5f24fd7fdu}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_MSG(ls_hash_with_key(none, rows[i].text, strlen(rows[i].text)) == rows[i].hash, "%s", rows[i].text);
    CHECK(ls_hash_with_key(counting, "", 0) == 0xabac0158050fc4dcu);
    CHECK(ls_hash_keyed("a", 1) == ls_hash_keyed("a", 1) && ls_hash_keyed("a", 1) != rows[0].hash);
}

enum { COUNT = 5000 };
static char texts[COUNT][16];

static void every_name_is_found_and_no_other(void)
{
    ls_name_table names = {0};
    CHECK(ls_name_table_find(&names, "n1", 2) == LS_NAME_TABLE_NONE);
    for (int i = 0; i < COUNT; i++) {
        snprintf(texts[i], sizeof texts[i], "n%d", i);
        CHECK(ls_name_table_add(&names, texts[i], strlen(texts[i]), i) == i);
    }
    CHECK(names.count == COUNT && ls_name_table_add(&names, "n17", 3, 4) == 17 && names.count == COUNT);
    for (int i = 0; i < COUNT; i++) CHECK(ls_name_table_find(&names, texts[i], strlen(texts[i])) == i);
    CHECK(ls_name_table_find(&names, "n", 1) == LS_NAME_TABLE_NONE && ls_name_table_find(&names, "n17", 2) == 1);
    CHECK(ls_name_table_add(&names, "a\0b", 3, COUNT) == COUNT &&
          ls_name_table_find(&names, "a\0c", 3) == LS_NAME_TABLE_NONE);
    CHECK(ls_name_table_add(&names, "", 0, 7) == 7 && ls_name_table_find(&names, "", 0) == 7);
    ls_name_table_free(&names);
    ls_sys_fail_at(1);
    CHECK(ls_name_table_add(&names, "a", 1, 0) == LS_NAME_TABLE_MEMORY &&
          ls_name_table_find(&names, "a", 1) == LS_NAME_TABLE_NONE);
    ls_sys_fail_at(0);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(the_hash_is_siphash_1_3);
    CHECK_RUN(every_name_is_found_and_no_other);
    return check_done();
}
