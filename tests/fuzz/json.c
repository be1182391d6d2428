/* json.c - JSON: what was read and written again reads as the same. */
#include "base/json.h"

#include "base/memory.h"
#include "fuzz/fuzz.h"

static char *written(const ls_json *value, size_t *length)
{
    ls_json_writer w = {0};
    ls_json_put_value(&w, NULL, value);
    char *text = ls_json_take(&w, length);
    FUZZ_CHECK(text);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    ls_message why;
    char *copy = fuzz_copy(bytes, size);
    ls_json *json = ls_json_read(copy, size, &why);
    if (json) {
        size_t length, again;
        char *first = written(json, &length);
        ls_json *second = ls_json_read(first, length, &why);
        FUZZ_CHECK(second);
        char *text = written(second, &again);
        FUZZ_CHECK(again == length && memcmp(text, first, length) == 0);
        ls_sys_free(text);
        ls_sys_free(first);
        ls_json_free(second);
    }
    ls_json_free(json);
    free(copy);
    return 0;
}
