/* idx.c - MNIST's files: one of the two is the input, the first byte says which. */
#include <lockstep.h>

#include "fuzz/fuzz.h"

/* A file of the other kind that is good. */
static const char *good(const char *bytes, size_t size)
{
    static char path[64];
    int file = memfd_create("good", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0 && write(file, bytes, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char images[] = "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x01\x10\x20",
                      labels[] = "\0\0\x08\x01\0\0\0\x02\0\x01";
    static ls_run *run;
    static char paths[2][64];
    if (!run) {
        run = ls_init(NULL, NULL);
        snprintf(paths[0], sizeof paths[0], "%s", good(images, sizeof images - 1));
        snprintf(paths[1], sizeof paths[1], "%s", good(labels, sizeof labels - 1));
    }
    if (size < 1) return 0;
    const char *input = fuzz_file(bytes + 1, size - 1);
    bool as_labels = bytes[0] & 1;
    ls_dataset *set = ls_mnist_new(run, as_labels ? paths[0] : input, as_labels ? input : paths[1]);
    FUZZ_CHECK((set != NULL) == (ls_error(run) == LS_OK));
    ls_dataset_free(set);
    ls_clear_error(run);
    return 0;
}
