/* profile.c - begin and end a profile: device tables are wrapped, so that operators are measured only meanwhile. */
#include "run/profile/profile.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/opts.h"
#include "run/session.h"
#include "tensor/exchange.h"

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

/* Events last: they are what ls_profile_list() finds, and a process may be killed between the two. */
static bool write_files(const ls_spans *spans, const ls_profiled *who, const char *tables, const char *folder,
                        ls_message *why)
{
    char path[LS_PROFILE_PATH];
    return ls_folder_make(folder, why) &&
           ls_profile_part(path, folder, who->rank, who->world, LS_PROFILE_TABLES, why) &&
           ls_file_write(path, tables, strlen(tables), false, why) &&
           ls_profile_part(path, folder, who->rank, who->world, LS_PROFILE_EVENTS, why) &&
           ls_profile_write_events(spans, who, path, why);
}

/* ---- begin and end ---- */

/* All processes must call. Times since then are short enough for a double to hold their nanoseconds, and positive on a
 * host whose clock is slow. */
static bool agree_on_origin(ls_run *run, int64_t *origin, const char *who)
{
    static const int64_t hour = 3600 * 1000000000ll;
    int64_t then = ls_clock_date_ns() - hour;
    if (!ls_exchange_broadcast(run, &then, sizeof then, 0, who)) return false;
    *origin = ls_clock_ns() - (ls_clock_date_ns() - then);
    return true;
}

static void begin(ls_run *run, const char *who, const char *folder, bool whole)
{
    int64_t origin;
    if (!agree_on_origin(run, &origin, who)) return;
    char *copy = ls_text_copy(run, folder);
    if (!copy) return;
    ls_status status = ls_spans_begin();
    if (!status) {
        run->session->profile = copy;
        run->session->profile_origin = origin;
        run->session->profile_is_whole = whole;
        wrap_devices(run);
        return;
    }
    ls_sys_free(copy);
    if (whole && ls_is_main(run)) ls_profile_unclaim(folder);
    if (status == LS_ERR_MEMORY) ls_fail(&run->errors, LS_ERR_MEMORY, "%s: out of memory", who);
    else if (whole)
        ls_log_line(LS_LOG_WARN, "LOCKSTEP_PROFILE: another run of this process is being profiled; this one is not");
    else if (ls_config_text(LS_SETTING_PROFILE)[0])
        LS_LOG_ONCE_OF_JOB(LS_LOG_INFO, "ls_profile: the whole run is profiled (LOCKSTEP_PROFILE), and the block with "
                                        "it: it gets no files of its own");
    else ls_fail(&run->errors, LS_ERR_STATE, "%s: this process is being profiled already", who);
}

/* Write what was measured. Also of a run that failed: where its time went may be the question. */
static void end(ls_run *run, const char *who)
{
    char *folder = run->session->profile;
    bool whole = run->session->profile_is_whole;
    ls_message why = {{0}};
    ls_spans *spans = ls_spans_end();
    unwrap_devices(run);
    run->session->profile = NULL;
    ls_profiled by = {.rank = ls_rank(run), .world = ls_world_size(run), .origin = run->session->profile_origin};
    by.asynchronous = run->device && run->device->table.stream_sync;
    gethostname(by.host, sizeof by.host - 1);
    char *tables = spans ? ls_profile_tables(spans, &by) : NULL;
    bool ok = tables && write_files(spans, &by, tables, folder, &why);
    if (!ok) ls_fail(&run->errors, LS_ERR_IO, "%s: %s", who, why.text[0] ? why.text : "out of memory");
    if (!whole) ls_wait_for_everyone(run);
    bool shows = !whole && ls_is_main(run) && ls_profile_join_job(run, folder, by.world);
    if (shows) fprintf(stderr, "%s%s/" LS_PROFILE_TRACE "\n", tables, folder);
    ls_sys_free(tables);
    ls_sys_free(folder);
    ls_spans_free(spans);
}

bool ls_profile_begin_sized(ls_run *run, const ls_profile_opts *opts, size_t opts_size)
{
    if (!run || ls_failed(run)) return true;
    ls_profile_opts o = LS_OPTS_READ(ls_profile_opts, opts, opts_size);
    const char *folder = o.folder ? o.folder : "profile";
    if (*folder) begin(run, "ls_profile", folder, false);
    else ls_fail(&run->errors, LS_ERR_VALUE, "ls_profile: the folder has no name");
    return true;
}

bool ls_profile_end(ls_run *run)
{
    if (run && run->session && run->session->profile && !run->session->profile_is_whole) end(run, "ls_profile_end");
    return false;
}

void ls_profile_start(ls_run *run)
{
    const char *folder = ls_config_text(LS_SETTING_PROFILE);
    char room[LS_PROFILE_PATH];
    if (folder[0] && !ls_failed(run) && ls_profile_claim(room, run, folder)) begin(run, "LOCKSTEP_PROFILE", room, true);
}

/* A block that was never ended ends with the run. */
void ls_profile_finish(ls_run *run)
{
    if (!run->session || !run->session->profile) return;
    end(run, run->session->profile_is_whole ? "LOCKSTEP_PROFILE" : "ls_profile");
}
