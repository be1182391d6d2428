/* manifest.c - the list of files of a checkpoint, with the seal that it needs to be looked at. */
#include "checkpoint/manifest.h"

#include "base/hash.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    ls_hash hash;
    ls_hash_begin(&hash);
    ls_hash_add(&hash, bytes, size);
    char *text = malloc(size + 64);
    FUZZ_CHECK(text);
    if (size) memcpy(text, bytes, size);
    int seal = snprintf(text + size, 64, ",\n  \"xxh64\": \"%016llx\"\n}\n", (unsigned long long)ls_hash_end(&hash));
    ls_manifest manifest;
    ls_message why;
    ls_manifest_check(fuzz_folder_with(LS_MANIFEST, text, size + (size_t)seal), &manifest, &why);
    free(text);
    return 0;
}
