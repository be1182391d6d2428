/* replay.c - give a harness every file of a folder, in the place of libFuzzer. */
#include <dirent.h>

#include "fuzz/fuzz.h"

static void replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    FUZZ_CHECK(file && fseek(file, 0, SEEK_END) == 0);
    long size = ftell(file);
    FUZZ_CHECK(size >= 0);
    uint8_t *bytes = malloc((size_t)size + 1);
    rewind(file);
    FUZZ_CHECK(bytes && fread(bytes, 1, (size_t)size, file) == (size_t)size);
    fclose(file);
    LLVMFuzzerTestOneInput(bytes, (size_t)size);
    free(bytes);
}

int main(int argc, char **argv)
{
    struct dirent **entries;
    int count = argc == 2 ? scandir(argv[1], &entries, NULL, alphasort) : -1, replayed = 0;
    if (count < 0) return fprintf(stderr, "usage: %s CORPUS\n", argv[0]), 2;
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') replay(path), replayed++;
        free(entries[i]);
    }
    free(entries);
    printf("%d inputs\n", replayed);
    return replayed ? 0 : 1;
}
