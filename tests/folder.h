/* folder.h - a private folder of a test, below its working folder, and files in it. */
#ifndef LOCKSTEP_TESTS_FOLDER_H
#define LOCKSTEP_TESTS_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static inline int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

static inline void folder_remove(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Create an empty folder. */
static inline void folder_fresh(const char *path)
{
    folder_remove(path);
    mkdir(path, 0777);
}

/* All bytes of a file, zero-terminated; free() it. NULL if it cannot be read. */
static inline char *file_text(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    char *text = NULL;
    size_t length = 0, got;
    do {
        text = realloc(text, length + 65536 + 1);
        got = fread(text + length, 1, 65536, file);
        length += got;
    } while (got);
    fclose(file);
    text[length] = '\0';
    if (size) *size = length;
    return text;
}

/* Run a command: what it printed and said, by way of a file; free() it. *code: as it exited, -1 if it was killed. */
static inline char *said_by(const char *command, const char *file, int *code)
{
    char line[4096];
    snprintf(line, sizeof line, "{ %s\n} > '%s' 2>&1", command, file);
    int status = system(line);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    char *said = file_text(file, NULL);
    return said ? said : calloc(1, 1);
}

static inline void file_append(const char *path, const char *text)
{
    FILE *file = fopen(path, "ab");
    fputs(text, file);
    fclose(file);
}

#endif
