/* files.h - a folder for the files of a test, and files made by hand. */
#ifndef LOCKSTEP_TESTS_FORMATS_FILES_H
#define LOCKSTEP_TESTS_FORMATS_FILES_H

#include <lockstep.h>

#include <dirent.h>
#include <unistd.h>

#include "base/file.h"
#include "check.h"

/* In memory if possible: some files are made thousands of times. */
static char test_folder[] = "/dev/shm/lockstep_formats_XXXXXX";

/* "FOLDER/name", valid for the next few calls. */
__attribute__((unused)) static char *in_folder(const char *name)
{
    static char paths[8][256];
    static int turn;
    char *path = paths[turn++ % 8];
    snprintf(path, 256, "%s/%s", test_folder, name);
    return path;
}

/* Number of files in the folder; with `clean` they are removed. */
__attribute__((unused)) static int files_in(const char *folder, bool clean)
{
    DIR *dir = opendir(folder);
    int count = 0;
    for (struct dirent *item; dir && (item = readdir(dir));) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0) continue;
        count++;
        if (clean) unlinkat(dirfd(dir), item->d_name, 0);
    }
    if (dir) closedir(dir);
    return count;
}

__attribute__((unused)) static void begin_files(void)
{
    if (mkdtemp(test_folder)) return;
    snprintf(test_folder, sizeof test_folder, "/tmp/lockstep_formats_XXXXXX");
    if (!mkdtemp(test_folder)) abort();
}

__attribute__((unused)) static void end_files(void)
{
    files_in(test_folder, true);
    rmdir(test_folder);
}

__attribute__((unused)) static void put_file(const char *path, const void *bytes, size_t size)
{
    ls_message why;
    CHECK_MSG(ls_file_write(path, bytes, size, false, &why), "%s", why.text);
}

/* Write a safetensors file with this header followed by zeros; returns its path. */
__attribute__((unused)) static char *put_safetensors(const char *header, size_t data)
{
    size_t length = strlen(header);
    char *bytes = calloc(1, 8 + length + data), *path = in_folder("made.safetensors");
    for (int i = 0; i < 8; i++) bytes[i] = (char)(length >> 8 * i & 0xff);
    memcpy(bytes + 8, header, length);
    put_file(path, bytes, 8 + length + data);
    free(bytes);
    return path;
}

/* The call fails with this code and a message that contains `says`; the error is cleared. */
#define CHECK_REFUSED(run, call, code, says)                                                                           \
    do {                                                                                                               \
        CHECK(!(call));                                                                                                \
        CHECK_MSG(ls_error(run) == (code) && strstr(ls_error_message(run), says), "\"%s\" does not say \"%s\"",        \
                  ls_error_message(run), says);                                                                        \
        ls_clear_error(run);                                                                                           \
    } while (0)

/* An element of a tensor as double; NaN if there is no such tensor. */
__attribute__((unused)) static double number_at(const ls_state *state, const char *name, int64_t i)
{
    ls_tensor *t = ls_state_find(state, name);
    if (!t || i >= ls_numel(t)) return NAN;
    double *all = malloc((size_t)ls_numel(t) * sizeof *all);
    ls_tensor *wide = ls_cast(t, LS_F64);
    double value = ls_read(wide, all, (size_t)ls_numel(t) * sizeof *all) ? all[i] : NAN;
    ls_drop(wide);
    free(all);
    return value;
}

#endif
