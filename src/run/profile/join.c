/* join.c - what the processes have measured, in one timeline and one page of tables. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "run/profile/profile.h"
#include "tensor/context.h"

bool ls_profile_part(char path[LS_PROFILE_PATH], const char *folder, int rank, int world, const char *format,
                     ls_message *why)
{
    char name[64];
    snprintf(name, sizeof name, format, rank, world);
    if (snprintf(path, LS_PROFILE_PATH, "%s/%s", folder, name) < LS_PROFILE_PATH) return true;
    ls_message_set(why, "%.100s...: the path is too long", folder);
    return false;
}

/* ---- which processes have left a profile ---- */

typedef struct process {
    int rank, world;
} process;

static bool read_name(const char *name, process *by)
{
    int end = 0;
    return sscanf(name, LS_PROFILE_EVENTS "%n", &by->rank, &by->world, &end) == 2 && end > 0 && !name[end];
}

static int is_part(const struct dirent *entry)
{
    return read_name(entry->d_name, &(process){0});
}

static int by_rank(const struct dirent **a, const struct dirent **b)
{
    process x, y;
    bool both = read_name((*a)->d_name, &x) && read_name((*b)->d_name, &y);
    return both ? (x.rank > y.rank) - (x.rank < y.rank) : 0;
}

/* "1, 3": those of a job of which others have left one. */
static void name_missing(struct dirent *const *parts, int count, const char *folder)
{
    char missing[200] = "";
    int world = 0, at = 0;
    process by;
    for (int i = 0; i < count; i++)
        if (read_name(parts[i]->d_name, &by) && by.world > world) world = by.world;
    for (int rank = 0; rank < world; rank++) {
        while (at < count && read_name(parts[at]->d_name, &by) && by.rank < rank) at++;
        size_t used = strlen(missing);
        if ((at < count && by.rank == rank) || used > sizeof missing - 20) continue;
        snprintf(missing + used, sizeof missing - used, "%s%d", used ? ", " : "", rank);
    }
    if (missing[0])
        ls_log_line(LS_LOG_WARN, "%s lacks the profiles of rank %s of %d: did they reach ls_finish()?", folder, missing,
                    world);
}

/* ---- joining ---- */

/* Append a file to another and remove it. */
static bool take_part(ls_file_out *out, const char *path, ls_message *why)
{
    ls_file_bytes part;
    if (!ls_file_load(&part, path, SIZE_MAX, why)) return false;
    bool ok = ls_file_put(out, part.bytes, part.there, why);
    ls_file_unload(&part);
    unlink(path);
    return ok;
}

/* A file of all parts, between a beginning and an end. */
static bool join_parts(struct dirent *const *parts, int count, const char *folder, const char *format,
                       const char *const file[3], ls_message *why)
{
    char path[LS_PROFILE_PATH];
    ls_file_out out;
    process by;
    if (snprintf(path, sizeof path, "%s/%s", folder, file[0]) >= (int)sizeof path)
        return ls_message_set(why, "%.100s...: the path is too long", folder), false;
    if (!ls_file_create(&out, path, false, why)) return false;
    bool ok = ls_file_put(&out, file[1], strlen(file[1]), why);
    for (int i = 0; i < count && ok; i++)
        ok = read_name(parts[i]->d_name, &by) && ls_profile_part(path, folder, by.rank, by.world, format, why) &&
             take_part(&out, path, why);
    ok =
        ok && ls_file_put(&out, file[2], strlen(file[2]), why) && ls_file_seal(&out, why) && ls_file_publish(&out, why);
    ls_file_discard(&out);
    return ok;
}

bool ls_profile_join(ls_run *run, const char *folder)
{
    if (!run || ls_failed(run)) return false;
    /* Every event ends with a comma; the last of the array is about nothing. */
    static const char *const trace[] = {LS_PROFILE_TRACE, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n",
                                        "{\"name\":\"end\",\"ph\":\"M\",\"pid\":0,\"args\":{}}\n]}\n"};
    static const char *const text[] = {LS_PROFILE_TEXT, "", ""};
    ls_message why = {{0}};
    struct dirent **parts = NULL;
    int count = scandir(folder, &parts, is_part, by_rank);
    if (count < 0) return ls_fail(&run->errors, LS_ERR_IO, "ls_profile_join: %s: %s", folder, strerror(errno)), false;
    if (count == 0)
        ls_fail(&run->errors, LS_ERR_STATE,
                "ls_profile_join: no process has left a profile in %s: did it call ls_init() and ls_finish()?", folder);
    else if (!join_parts(parts, count, folder, LS_PROFILE_EVENTS, trace, &why) ||
             !join_parts(parts, count, folder, LS_PROFILE_TABLES, text, &why))
        ls_fail(&run->errors, LS_ERR_IO, "ls_profile_join: %s", why.text[0] ? why.text : "out of memory");
    else name_missing(parts, count, folder);
    for (int i = 0; i < count; i++) free(parts[i]);
    free(parts);
    return !ls_failed(run);
}
