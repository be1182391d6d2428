/* profile.c - begin and end a profile: device tables are wrapped, so that operators are measured only meanwhile. */
#include "run/profile/profile.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/opts.h"
#include "run/session.h"

/* ---- operators ---- */

typedef ls_status run_fn(void *device, ls_stream *stream, const ls_call *call, ls_message *why);

/* The devices that are measured. Global, because a device's functions get nothing but its handle, and kept after the
 * profile, because another thread may still be inside one. */
enum { MOST_DEVICES = 16 };
static struct {
    void *handle;
    run_fn *run;
} wrapped[MOST_DEVICES];
static int wrapped_count;

static ls_status measured_run(void *device, ls_stream *stream, const ls_call *call, ls_message *why)
{
    int i = 0;
    while (wrapped[i].handle != device) i++;
    int64_t began = ls_spans_clock();
    ls_status status = wrapped[i].run(device, stream, call, why);
    ls_spans_add(LS_SPAN_OPERATOR, ls_op_name(call->op), call->site, began);
    return status;
}

static void wrap_devices(ls_run *run)
{
    wrapped_count = 0;
    for (ls_device *d = run->devices; d && wrapped_count < MOST_DEVICES; d = d->next) {
        wrapped[wrapped_count].handle = d->handle;
        wrapped[wrapped_count++].run = d->table.run;
        d->table.run = measured_run;
    }
}

static void unwrap_devices(ls_run *run)
{
    for (ls_device *d = run->devices; d; d = d->next)
        for (int i = 0; i < wrapped_count && d->table.run == measured_run; i++)
            if (wrapped[i].handle == d->handle) d->table.run = wrapped[i].run;
}

/* ---- files ---- */

static bool path_of(char path[LS_PROFILE_PATH], const char *folder, const char *name, ls_message *why)
{
    if (snprintf(path, LS_PROFILE_PATH, "%s/%s", folder, name) < LS_PROFILE_PATH) return true;
    ls_message_set(why, "%.100s...: the path is too long", folder);
    return false;
}

static bool write_files(const ls_spans *spans, const ls_profiled *who, const char *folder, ls_message *why)
{
    char name[64], path[LS_PROFILE_PATH];
    snprintf(name, sizeof name, LS_PROFILE_EVENTS, who->rank);
    if (!ls_folder_make(folder, why) || !path_of(path, folder, name, why)) return false;
    if (!ls_profile_write_events(spans, who, path, why)) return false;
    snprintf(name, sizeof name, LS_PROFILE_TABLES, who->rank);
    char *tables = ls_profile_tables(spans, who);
    bool ok = tables && path_of(path, folder, name, why) && ls_file_write(path, tables, strlen(tables), false, why);
    ls_sys_free(tables);
    return ok;
}

/* Append a file to another and remove it; false without an error if it does not exist. */
static bool take_part(ls_file_out *out, const char *folder, const char *format, int rank, ls_message *why)
{
    char name[64], path[LS_PROFILE_PATH];
    snprintf(name, sizeof name, format, rank);
    if (!path_of(path, folder, name, why) || ls_path_kind_of(path) != LS_PATH_FILE) return false;
    ls_file_bytes part;
    if (!ls_file_load(&part, path, SIZE_MAX, why)) return false;
    bool ok = ls_file_put(out, part.bytes, part.there, why);
    ls_file_unload(&part);
    unlink(path);
    return ok;
}

/* One file of all ranks' parts, between a beginning and an end. Returns how many parts there were; -1 on failure. */
static int join_parts(const char *folder, const char *name, const char *format, const char *const ends[2],
                      ls_message *why)
{
    char path[LS_PROFILE_PATH];
    ls_file_out out;
    int parts = 0;
    if (!path_of(path, folder, name, why) || !ls_file_create(&out, path, false, why)) return -1;
    bool ok = ls_file_put(&out, ends[0], strlen(ends[0]), why);
    while (ok && take_part(&out, folder, format, parts, why)) parts++;
    ok = ok && !why->text[0] && parts > 0 && ls_file_put(&out, ends[1], strlen(ends[1]), why) &&
         ls_file_seal(&out, why) && ls_file_publish(&out, why);
    ls_file_discard(&out);
    return why->text[0] || (parts > 0 && !ok) ? -1 : parts;
}

bool ls_profile_join(ls_run *run, const char *folder)
{
    if (!run || ls_failed(run)) return false;
    ls_message why = {{0}};
    /* Every event ends with a comma; the last of the array is about nothing. */
    static const char *const trace[] = {"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n",
                                        "{\"name\":\"end\",\"ph\":\"M\",\"pid\":0,\"args\":{}}\n]}\n"};
    static const char *const text[] = {"", ""};
    int parts = join_parts(folder, LS_PROFILE_TRACE, LS_PROFILE_EVENTS, trace, &why);
    if (parts > 0) parts = join_parts(folder, LS_PROFILE_TEXT, LS_PROFILE_TABLES, text, &why);
    if (parts > 0) return true;
    if (parts == 0)
        ls_fail(&run->errors, LS_ERR_STATE,
                "ls_profile_join: no process has left a profile in %s: did it call ls_init() and ls_finish()?", folder);
    else ls_fail(&run->errors, LS_ERR_IO, "ls_profile_join: %s", why.text[0] ? why.text : "out of memory");
    return false;
}

/* ---- begin and end ---- */

static bool begin(ls_run *run, const char *who, const char *folder)
{
    char *copy = ls_text_copy(run, folder);
    if (!copy) return false;
    if (!ls_spans_begin()) {
        ls_fail(&run->errors, LS_ERR_STATE, "%s: this process is being profiled already", who);
        ls_sys_free(copy);
        return false;
    }
    run->session->profile = copy;
    wrap_devices(run);
    return true;
}

/* Write what was measured. Also of a run that failed: where its time went may be the question. */
static void end(ls_run *run, const char *who, bool joined)
{
    char *folder = run->session->profile;
    ls_message why = {{0}};
    ls_spans *spans = ls_spans_end();
    unwrap_devices(run);
    run->session->profile = NULL;
    ls_profiled by = {.rank = ls_rank(run), .world = ls_world_size(run)};
    by.asynchronous = run->device && run->device->table.stream_sync;
    gethostname(by.host, sizeof by.host - 1);
    bool ok = spans && write_files(spans, &by, folder, &why);
    if (!ok) ls_fail(&run->errors, LS_ERR_IO, "%s: %s", who, why.text[0] ? why.text : "out of memory");
    if (joined) ls_wait_for_everyone(run);
    if (joined && ls_is_main(run)) ls_profile_join(run, folder);
    char *tables = joined && ls_is_main(run) && spans ? ls_profile_tables(spans, &by) : NULL;
    if (tables && !ls_failed(run)) fprintf(stderr, "%s%s/" LS_PROFILE_TRACE "\n", tables, folder);
    ls_sys_free(tables);
    ls_sys_free(folder);
    ls_spans_free(spans);
}

bool ls_profile_begin_sized(ls_run *run, const ls_profile_opts *opts, size_t opts_size)
{
    if (!run || ls_failed(run)) return true;
    ls_profile_opts o = LS_OPTS_READ(ls_profile_opts, opts, opts_size);
    const char *folder = o.folder ? o.folder : "profile";
    if (*folder) begin(run, "ls_profile", folder);
    else ls_fail(&run->errors, LS_ERR_VALUE, "ls_profile: the folder has no name");
    return true;
}

bool ls_profile_end(ls_run *run)
{
    if (run && run->session && run->session->profile) end(run, "ls_profile_end", true);
    return false;
}

void ls_profile_start(ls_run *run)
{
    static _Atomic int started; /* runs of this process so far: none replaces the profile of another */
    const char *first = ls_config_text(LS_SETTING_PROFILE);
    char later[LS_PROFILE_PATH];
    if (!first[0] || ls_failed(run)) return;
    int number = ++started;
    if (number == 1) begin(run, "LOCKSTEP_PROFILE", first);
    else if (snprintf(later, sizeof later, LS_PROFILE_NEXT, first, number) < (int)sizeof later)
        begin(run, "LOCKSTEP_PROFILE", later);
    else ls_fail(&run->errors, LS_ERR_VALUE, "LOCKSTEP_PROFILE: %.100s...: the path is too long", first);
}

void ls_profile_finish(ls_run *run)
{
    if (run->session && run->session->profile) end(run, "LOCKSTEP_PROFILE", false);
}
