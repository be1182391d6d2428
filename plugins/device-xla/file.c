/* file.c - compiled programs in a folder, so that the second start of a program compiles nothing.
 *
 * A file is named after its text, the compiler, and what the compiler knows about the chip. It is written under another
 * name and renamed: processes that start together never see half of it. Whatever goes wrong here is no failure: the
 * program is compiled. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache.h"
#include "hash.h"

enum { MOST_PATH = 600 };

/* False: no programs are kept. */
static bool find_folder(char *folder, size_t size)
{
    const char *named = getenv("LOCKSTEP_XLA_CACHE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (named && strcmp(named, "off") == 0) return false;
    if (named && *named) return (size_t)snprintf(folder, size, "%s", named) < size;
    if (cache && *cache) return (size_t)snprintf(folder, size, "%s/lockstep/xla", cache) < size;
    return home && (size_t)snprintf(folder, size, "%s/.cache/lockstep/xla", home) < size;
}

/* Code for one CPU may use instructions that another lacks. */
static void hash_cpu(uint64_t hash[2])
{
    char line[4000];
    FILE *f = fopen("/proc/cpuinfo", "r");
    hash[0] = hash[1] = 0;
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "flags", 5) != 0 && strncmp(line, "Features", 8) != 0) continue;
        xla_hash(line, strlen(line), hash);
        break;
    }
    if (f) fclose(f);
}

static bool find_path(const xla_device *d, const shlo *text, char *path)
{
    char folder[400];
    uint64_t program[2], machine[4], all[2];
    if (!find_folder(folder, sizeof folder)) return false;
    xla_hash(text->text, text->used, program);
    xla_hash(d->pjrt->version, strlen(d->pjrt->version), machine);
    hash_cpu(machine + 2);
    xla_hash(machine, sizeof machine, all);
    return snprintf(path, MOST_PATH, "%s/%016llx%016llx-%016llx-%d", folder, (unsigned long long)program[0],
                    (unsigned long long)program[1], (unsigned long long)all[0], d->chip) < MOST_PATH;
}

static void make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        mkdir(path, 0777);
        *at = '/';
    }
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
    if (count && pjrt_restore(d->pjrt, bytes, count, &loaded, &ignored) != LS_OK) loaded = NULL;
    free(bytes);
    fclose(f);
    return loaded;
}

static ls_status write_file(char *path, const void *bytes, size_t count, ls_message *why)
{
    char temporary[MOST_PATH + 40];
    snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid());
    make_folders(path);
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
