/* file.c - compiled programs in a folder, so that the second start of a program compiles nothing.
 *
 * A file is named after the program's text and what else it depends on (identity.c). It is written under another name
 * and renamed: processes that start together never see half of it. Whatever goes wrong here is no failure: the program
 * is compiled. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../home.h"
#include "cache.h"
#include "hash.h"

enum { MOST_PATH = 600 };

/* False: no programs are kept. */
static bool find_folder(char *folder, size_t size)
{
    const char *named = getenv("LOCKSTEP_XLA_CACHE");
    if (named && strcmp(named, "off") == 0) return false;
    if (named && *named) return (size_t)snprintf(folder, size, "%s", named) < size;
    if (!home_folder(folder, size)) return false;
    size_t used = strlen(folder);
    return (size_t)snprintf(folder + used, size - used, "/xla") < size - used;
}

/* The chips that a program is compiled for: those of this process, and of all that it is connected with. */
static uint64_t hash_chips(const xla_device *d)
{
    uint64_t own[2], all[2] = {0};
    const int *ids = d->pjrt->chip_ids + d->team.first;
    xla_hash(ids, (size_t)d->team.count * sizeof *ids, own);
    if (d->joint.count) xla_hash(d->joint.ids, (size_t)d->joint.count * PJRT_MOST_CHIPS * sizeof *d->joint.ids, all);
    return own[0] ^ all[1];
}

static bool find_path(const xla_device *d, const shlo *text, char *path)
{
    char folder[400];
    uint64_t program[2];
    if (!find_folder(folder, sizeof folder)) return false;
    xla_hash(text->text, text->used, program);
    return snprintf(path, MOST_PATH, "%s/%016llx%016llx-%016llx-%016llx", folder, (unsigned long long)program[0],
                    (unsigned long long)program[1], (unsigned long long)d->pjrt->identity,
                    (unsigned long long)hash_chips(d)) < MOST_PATH;
}

pjrt_loaded *xla_file_load(const xla_device *d, const shlo *text)
{
    char path[MOST_PATH];
    struct stat about;
    ls_message ignored;
    pjrt_loaded *loaded = NULL;
    FILE *f = find_path(d, text, path) ? fopen(path, "rb") : NULL;
    if (!f) return NULL;
    char *bytes = fstat(fileno(f), &about) == 0 ? malloc((size_t)about.st_size + 1) : NULL;
    size_t count = bytes ? fread(bytes, 1, (size_t)about.st_size, f) : 0;
    bool complete = bytes && count == (size_t)about.st_size && count > 0;
    if (complete && pjrt_restore(d->pjrt, bytes, count, &loaded, &ignored) != LS_OK) loaded = NULL;
    free(bytes);
    fclose(f);
    return loaded;
}

static ls_status write_file(const char *path, const void *bytes, size_t count, ls_message *why)
{
    char temporary[MOST_PATH + 40];
    snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid());
    home_make_folders(path);
    FILE *f = fopen(temporary, "wb");
    bool done = f && fwrite(bytes, 1, count, f) == count;
    if (f) done = fclose(f) == 0 && done;
    if (done) done = rename(temporary, path) == 0;
    if (done) return LS_OK;
    unlink(temporary);
    return xla_refuse(why, LS_ERR_IO, "%.100s: %s", path, strerror(errno));
}

ls_status xla_file_save(const xla_device *d, const shlo *text, const pjrt_loaded *loaded, ls_message *why)
{
    char path[MOST_PATH];
    void *bytes;
    size_t count;
    if (!find_path(d, text, path)) return LS_OK;
    XLA_TRY(pjrt_save(d->pjrt, loaded, &bytes, &count, why));
    ls_status status = write_file(path, bytes, count, why);
    free(bytes);
    return status;
}
