/* archive.c - files of tensors: safetensors, zip files of PyTorch and NumPy, pickles, npy. */
#include "formats/archive.h"

#include "base/memory.h"
#include "fuzz/fuzz.h"

static volatile char sink;

/* First and last byte of what an entry claims to hold. */
static void touch(const ls_archive_entry *e)
{
    uint64_t bytes;
    FUZZ_CHECK(ls_element_bytes(e->element, e->ndim, e->dim, &bytes));
    if (bytes == 0) return;
    uint64_t last = bytes - 1;
    if (e->stride) {
        last = (uint64_t)ls_element_bits(e->element) / 8;
        int64_t far = 0;
        for (int d = 0; d < e->ndim; d++) far += (e->dim[d] - 1) * e->stride[d];
        last = (uint64_t)far * last + last - 1;
    }
    sink = e->data[0];
    sink = e->data[last];
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    ls_errors errors = {0};
    ls_archive archive = {.errors = &errors};
    ls_pages *pages = ls_sys_alloc(sizeof *pages);
    char *copy = ls_sys_alloc(size);
    FUZZ_CHECK(pages && copy);
    if (size) memcpy(copy, bytes, size);
    *pages = (ls_pages){.bytes = copy, .size = size};
    bool ok = ls_archive_parse(&archive, "input", pages);
    FUZZ_CHECK(ok == (errors.code == LS_OK));
    for (int64_t i = 0; ok && i < archive.count; i++) touch(&archive.entries[i]);
    ls_archive_close(&archive);
    return 0;
}
