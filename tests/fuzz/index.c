/* index.c - an index of shards, beside one shard that exists. */
#include "formats/index.h"

#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char shard[] =
        "\x39\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}    1";
    static bool has_shard;
    if (!has_shard) fuzz_folder_with("s", shard, sizeof shard - 1);
    has_shard = true;
    char path[256];
    snprintf(path, sizeof path, "%s/index.json", fuzz_folder_with("index.json", bytes, size));
    ls_errors errors = {0};
    ls_archive archive = {.errors = &errors};
    FUZZ_CHECK(ls_archive_open_index(&archive, path) == (errors.code == LS_OK));
    ls_archive_close(&archive);
    return 0;
}
