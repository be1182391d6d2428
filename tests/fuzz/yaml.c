/* yaml.c - the YAML of accelerate's files. */
#include "base/yaml.h"

#include "base/memory.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    ls_message why;
    char *copy = fuzz_copy(bytes, size);
    ls_json *json = ls_yaml_read(copy, size, &why);
    ls_json_writer w = {.indent = 2};
    if (json) ls_json_put_value(&w, NULL, json);
    if (json) ls_sys_free(ls_json_take(&w, NULL));
    ls_json_free(json);
    free(copy);
    return 0;
}
