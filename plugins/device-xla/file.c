/* file.c - compiled programs in a folder, so that the second start of a program compiles nothing.
 *
 * A file is named after the program's text and what else it depends on (identity.c). It is written under another name
 * and renamed: processes that start together never see half of it. It begins with a hash of the rest: XLA would execute
 * whatever a damaged file has in place of instructions. Whatever goes wrong here is no failure: the program is
 * compiled. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
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

/* The program in an open file; free() it. NULL: it is damaged, or there is no memory for it. */
static char *read_program(FILE *f, size_t *count)
{
    uint64_t wanted[2], hash[2];
    struct stat about;
    if (fstat(fileno(f), &about) != 0 || about.st_size <= (off_t)sizeof wanted) return NULL;
    *count = (size_t)about.st_size - sizeof wanted;
    char *bytes = malloc(*count);
    bool whole = bytes && fread(wanted, sizeof wanted, 1, f) == 1 && fread(bytes, *count, 1, f) == 1;
    if (whole) xla_hash(bytes, *count, hash);
    if (whole && memcmp(hash, wanted, sizeof hash) == 0) return bytes;
    free(bytes);
    return NULL;
}

pjrt_loaded *xla_file_load(const xla_device *d, const shlo *text)
{
    char path[MOST_PATH];
    size_t count;
    ls_message ignored;
    pjrt_loaded *loaded = NULL;
    FILE *f = find_path(d, text, path) ? fopen(path, "rb") : NULL;
    if (!f) return NULL;
    char *bytes = read_program(f, &count);
    if (bytes && pjrt_restore(d->pjrt, bytes, count, &loaded, &ignored) != LS_OK) loaded = NULL;
    free(bytes);
    fclose(f);
    return loaded;
}

/* Processes with the same number may run on several hosts that share the folder, hence the time. */
static void write_temporary_name(const char *path, char *name, size_t size)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(name, size, "%s.%d.%09ld", path, (int)getpid(), now.tv_nsec);
}

static ls_status write_file(const char *path, const void *bytes, size_t count, ls_message *why)
{
    char temporary[MOST_PATH + 40];
    uint64_t hash[2];
    write_temporary_name(path, temporary, sizeof temporary);
    xla_hash(bytes, count, hash);
    home_make_folders(path);
    FILE *f = fopen(temporary, "wbx");
    bool done = f && fwrite(hash, sizeof hash, 1, f) == 1 && fwrite(bytes, count, 1, f) == 1;
    if (f) done = fclose(f) == 0 && done;
    if (done) done = rename(temporary, path) == 0;
    if (done) return LS_OK;
    xla_refuse(why, LS_ERR_IO, "%.100s: %s", path, strerror(errno));
    if (f) unlink(temporary);
    return LS_ERR_IO;
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
