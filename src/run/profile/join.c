/* join.c - what the processes have measured, in one timeline and one page of tables. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "run/profile/profile.h"
#include "tensor/context.h"

/* "1, 3": those of a job of which others have left one. */
static void name_missing(const ls_profile_parts *parts, const char *folder)
{
    char missing[200] = "";
    int world = 0, at = 0;
    for (int i = 0; i < parts->count; i++)
        if (parts->of[i].world > world) world = parts->of[i].world;
    for (int rank = 0; rank < world; rank++) {
        while (at < parts->count && parts->of[at].rank < rank) at++;
        if (at < parts->count && parts->of[at].rank == rank) continue;
        size_t used = strlen(missing), room = sizeof missing - used;
        bool full = room < 20;
        if (full) snprintf(missing + used, room, ", ...");
        else snprintf(missing + used, room, "%s%d", used ? ", " : "", rank);
        if (full) break;
    }
    if (missing[0])
        ls_log_line(LS_LOG_WARN, "%s lacks the profiles of rank %s of %d: did they reach ls_finish()?", folder, missing,
                    world);
}

/* ---- joining ---- */

static bool append_part(ls_file_out *out, const char *path, ls_message *why)
{
    ls_file_bytes part;
    if (!ls_file_load(&part, path, SIZE_MAX, why)) return false;
    bool ok = ls_file_put(out, part.bytes, part.there, why);
    ls_file_unload(&part);
    return ok;
}

/* A file of all parts, between a beginning and an end. */
static bool join_parts(const ls_profile_parts *parts, const char *folder, const char *format, const char *const file[3],
                       ls_message *why)
{
    char path[LS_PROFILE_PATH];
    ls_file_out out;
    if (!ls_profile_path(path, folder, file[0], why) || !ls_file_create(&out, path, false, why)) return false;
    bool ok = ls_file_put(&out, file[1], strlen(file[1]), why);
    for (int i = 0; i < parts->count && ok; i++)
        ok = ls_profile_part(path, folder, parts->of[i].rank, parts->of[i].world, format, why) &&
             append_part(&out, path, why);
    ok =
        ok && ls_file_put(&out, file[2], strlen(file[2]), why) && ls_file_seal(&out, why) && ls_file_publish(&out, why);
    ls_file_discard(&out);
    return ok;
}

static void remove_part(const char *folder, int rank, int world)
{
    static const char *const formats[] = {LS_PROFILE_EVENTS, LS_PROFILE_TABLES};
    char path[LS_PROFILE_PATH];
    for (int i = 0; i < 2; i++)
        if (ls_profile_part(path, folder, rank, world, formats[i], NULL)) unlink(path);
}

/* Leaves those of a job of this many processes. */
static void remove_others(ls_profile_parts *parts, const char *folder, int world)
{
    int kept = 0;
    for (int i = 0; i < parts->count; i++) {
        if (parts->of[i].world == world) parts->of[kept++] = parts->of[i];
        else remove_part(folder, parts->of[i].rank, parts->of[i].world);
    }
    parts->count = kept;
}

/* `world`: as for ls_profile_join_job(); 0: of any job. */
static bool join(ls_run *run, const char *folder, int world)
{
    if (!run || ls_failed(run)) return false;
    if (!folder) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_profile_join: the folder is NULL"), false;
    /* Every event ends with a comma; the last of the array is about nothing. */
    static const char *const trace[] = {LS_PROFILE_TRACE, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n",
                                        "{\"name\":\"end\",\"ph\":\"M\",\"pid\":0,\"tid\":0,\"args\":{}}\n]}\n"};
    static const char *const text[] = {LS_PROFILE_TEXT, "", ""};
    ls_message why = {{0}};
    ls_profile_parts parts;
    bool listed = ls_profile_list(&parts, folder, &why);
    if (listed && world) remove_others(&parts, folder, world);
    if (listed && parts.count == 0)
        ls_fail(&run->errors, LS_ERR_STATE,
                "ls_profile_join: no process has left a profile in %s: did it call ls_init() and ls_finish()?", folder);
    else if (!listed || !join_parts(&parts, folder, LS_PROFILE_EVENTS, trace, &why) ||
             !join_parts(&parts, folder, LS_PROFILE_TABLES, text, &why))
        ls_fail(&run->errors, LS_ERR_IO, "ls_profile_join: %s", why.text[0] ? why.text : "out of memory");
    else { /* only now: what could not be joined, because the disk is full, can be joined later */
        for (int i = 0; i < parts.count; i++) remove_part(folder, parts.of[i].rank, parts.of[i].world);
        ls_profile_unclaim(folder);
        name_missing(&parts, folder);
    }
    ls_sys_free(parts.of);
    return !ls_failed(run);
}

bool ls_profile_join(ls_run *run, const char *folder)
{
    return join(run, folder, 0);
}

bool ls_profile_join_job(ls_run *run, const char *folder, int world)
{
    return join(run, folder, world);
}
