/* fuzz.h - shared by all harnesses: one function that gets bytes, and must return whatever they are.
 *
 * Each file here tests one parser of untrusted bytes. libFuzzer drives it (-DLOCKSTEP_FUZZ=ON, clang), or replay.c,
 * which gives it the files of a corpus: every `make test` does that, with any compiler. A finding becomes a file of the
 * corpus. */
#ifndef LOCKSTEP_TESTS_FUZZ_H
#define LOCKSTEP_TESTS_FUZZ_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size); /* the name that libFuzzer looks for; returns 0 */

/* A property that does not hold is a finding like a crash. */
#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition), abort();             \
    } while (0)

/* A copy in memory of exactly this size, so that a sanitizer sees the first byte read beyond it; free() it. */
__attribute__((unused)) static char *fuzz_copy(const uint8_t *bytes, size_t size)
{
    char *copy = malloc(size ? size : 1);
    FUZZ_CHECK(copy);
    if (size) memcpy(copy, bytes, size);
    return copy;
}

/* The same, zero-terminated. */
__attribute__((unused)) static char *fuzz_text(const uint8_t *bytes, size_t size)
{
    char *copy = malloc(size + 1);
    FUZZ_CHECK(copy);
    if (size) memcpy(copy, bytes, size);
    copy[size] = 0;
    return copy;
}

static char fuzz_folder_path[] = "/tmp/lockstep_fuzz_XXXXXX";

__attribute__((unused)) static void fuzz_folder_remove(void)
{
    DIR *folder = opendir(fuzz_folder_path);
    for (struct dirent *file; folder && (file = readdir(folder));)
        if (strcmp(file->d_name, ".") != 0 && strcmp(file->d_name, "..") != 0) unlinkat(dirfd(folder), file->d_name, 0);
    if (folder) closedir(folder);
    rmdir(fuzz_folder_path);
}

/* Write a file into a folder that is removed with this process; returns the folder's path. */
__attribute__((unused)) static const char *fuzz_folder_with(const char *name, const void *bytes, size_t size)
{
    static bool made;
    if (!made) {
        FUZZ_CHECK(mkdtemp(fuzz_folder_path));
        atexit(fuzz_folder_remove);
        made = true;
    }
    char path[256];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder_path, name);
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file && fwrite(bytes, 1, size, file) == size);
    fclose(file);
    return fuzz_folder_path;
}

/* The path of a file that holds the bytes, until the next call. */
__attribute__((unused)) static const char *fuzz_file(const uint8_t *bytes, size_t size)
{
    static int file = -1;
    static char path[64];
    if (file < 0) {
        file = memfd_create("fuzz", MFD_CLOEXEC);
        FUZZ_CHECK(file >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    FUZZ_CHECK(ftruncate(file, 0) == 0 && pwrite(file, bytes, size, 0) == (ssize_t)size);
    return path;
}

#endif
