/* choices.c - choices in a file, which several programs may read and extend at the same time: lines are appended, each
 * by one call of write(), and of several lines for one key the last counts. */
#include "choices.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../home.h"

enum { SLOTS = 4096, MOST = 3072, LINE = 16 + 1 + 2 + 1 }; /* hash, space, number, newline */

typedef struct choice {
    uint64_t hash; /* 0: the slot is free */
    int chosen;
} choice;

struct cuda_choices {
    int file; /* -1: there is none */
    int count;
    choice slot[SLOTS]; /* by hash, the next free one after a collision */
};

/* FNV-1a; never 0. */
static uint64_t hash_of(const void *key, size_t size)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char *)key)[i]) * 1099511628211u;
    return hash ? hash : 1;
}

/* Of this hash, or free. There is always a free one. */
static choice *slot_of(cuda_choices *choices, uint64_t hash)
{
    size_t at = (size_t)(hash % SLOTS);
    while (choices->slot[at].hash && choices->slot[at].hash != hash) at = (at + 1) % SLOTS;
    return &choices->slot[at];
}

/* False: there is no room. */
static bool remember(cuda_choices *choices, uint64_t hash, int chosen)
{
    choice *slot = slot_of(choices, hash);
    if (!slot->hash && choices->count == MOST) return false;
    choices->count += !slot->hash;
    *slot = (choice){hash, chosen};
    return true;
}

/* ---- the file ---- */

/* A line, without its newline: exactly what cuda_choices_keep() writes. */
static bool read_line(const char *line, size_t length, uint64_t *hash, int *chosen)
{
    if (length != LINE - 1 || line[16] != ' ') return false;
    for (size_t i = 0; i < length; i++)
        if (i < 16 ? !isxdigit((unsigned char)line[i]) : i > 16 && !isdigit((unsigned char)line[i])) return false;
    *hash = strtoull(line, NULL, 16);
    *chosen = (line[17] - '0') * 10 + line[18] - '0';
    return *hash != 0;
}

static void read_all(cuda_choices *choices)
{
    static const size_t most = (size_t)LINE * 2 * MOST; /* lines come twice where two programs tried at once */
    char *text = malloc(most);
    ssize_t got = text ? read(choices->file, text, most) : 0;
    size_t length = got > 0 ? (size_t)got : 0;
    for (size_t begin = 0; begin < length;) {
        const char *newline = memchr(text + begin, '\n', length - begin);
        size_t end = newline ? (size_t)(newline - text) : length;
        uint64_t hash;
        int chosen;
        if (newline && read_line(text + begin, end - begin, &hash, &chosen)) remember(choices, hash, chosen);
        begin = end + 1;
    }
    free(text);
    /* Longer than programs make it: damaged. Its end would never be read, and written again by every program. */
    int ignored = length == most ? ftruncate(choices->file, 0) : 0; /* one that may only be read stays as it is */
    (void)ignored;
}

/* For reading alone if it may not be written. -1: there is none, or something else is in its place: a pipe would be
 * waited for. */
static int open_file(const char *path)
{
    struct stat found;
    int how = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, file = open(path, how | O_RDWR | O_CREAT | O_APPEND, 0600);
    if (file < 0) file = open(path, how | O_RDONLY);
    if (file < 0 || (fstat(file, &found) == 0 && S_ISREG(found.st_mode))) return file;
    close(file);
    return -1;
}

cuda_choices *cuda_choices_open(const char *name)
{
    cuda_choices *choices = calloc(1, sizeof *choices);
    if (!choices) return NULL;
    char path[4096];
    choices->file = -1;
    if (!home_folder(path, sizeof path)) return choices;
    size_t used = strlen(path);
    snprintf(path + used, sizeof path - used, "/%s", name);
    for (char *c = path + used + 1; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '.') *c = '-';
    home_make_folders(path);
    choices->file = open_file(path);
    if (choices->file >= 0) read_all(choices);
    return choices;
}

void cuda_choices_close(cuda_choices *choices)
{
    if (!choices) return;
    if (choices->file >= 0) close(choices->file);
    free(choices);
}

int cuda_choices_find(const cuda_choices *choices, const void *key, size_t size)
{
    const choice *slot = slot_of((cuda_choices *)(uintptr_t)choices, hash_of(key, size));
    return slot->hash ? slot->chosen : CUDA_CHOICE_UNKNOWN;
}

void cuda_choices_keep(cuda_choices *choices, const void *key, size_t size, int chosen)
{
    uint64_t hash = hash_of(key, size);
    if (chosen < 0 || chosen > CUDA_MOST_CHOICE || !remember(choices, hash, chosen) || choices->file < 0) return;
    char line[LINE + 1];
    snprintf(line, sizeof line, "%016llx %02d\n", (unsigned long long)hash, chosen);
    if (write(choices->file, line, LINE) == LINE) return;
    close(choices->file); /* a full disk, say: the next program tries again */
    choices->file = -1;
}
