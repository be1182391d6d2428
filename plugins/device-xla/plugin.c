/* plugin.c - the table of the XLA device. */
#include <stdlib.h>
#include <string.h>

#include "group.h"

/* A recording this long is executed: memory of activations would pile up in loops without marks. */
enum { MOST_CALLS = 20000 };

/* A process that trains alone has no second thread that calls the device. To lock and unlock for every call would take
 * as long as to record it. */
static void enter(xla_device *d)
{
    if (d->has_peers) pthread_mutex_lock(&d->lock);
}

static ls_status leave(xla_device *d, ls_status status)
{
    if (d->has_peers) pthread_mutex_unlock(&d->lock);
    return status;
}

/* ---- memory ---- */

static ls_status device_alloc(void *device, size_t bytes, void **address)
{
    xla_device *d = device;
    enter(d);
    size_t number = bytes >> XLA_OFFSET_BITS ? 0 : xla_storage_new(d, bytes ? bytes : 1);
    *address = xla_address(number, 0);
    return leave(d, number ? LS_OK : LS_ERR_MEMORY);
}

static void device_release(void *device, void *address, size_t bytes)
{
    xla_device *d = device;
    (void)bytes;
    enter(d);
    xla_storage *s = xla_behind(d, address, 0);
    if (s && s->mention) s->is_released = true;
    else if (s) xla_storage_free(d, xla_number(address));
    leave(d, LS_OK);
}

/* ---- copies ---- */

/* A part of a storage whose contents are on the chip is written by the program: from an array of its own. */
static ls_status upload_part(xla_device *d, void *to, const void *from, size_t bytes, ls_message *why)
{
    size_t number = xla_storage_new(d, bytes);
    if (!number) return xla_refuse(why, LS_ERR_MEMORY, "no host memory for a list of arrays");
    xla_storage *part = &d->storages[number];
    ls_status status = xla_to_host(d, part, why);
    if (!status) {
        memcpy(part->host, from, bytes);
        status = xla_record_copy(d, to, xla_address(number, 0), bytes, why);
    }
    if (d->storages[number].mention) d->storages[number].is_released = true;
    else xla_storage_free(d, number);
    return status;
}

static ls_status upload(xla_device *d, void *to, const void *from, size_t bytes, bool is_batch, ls_message *why)
{
    xla_storage *s = xla_behind(d, to, bytes);
    bool whole = bytes == s->bytes;
    if (!whole && (s->mention || s->chips.on[0])) return upload_part(d, to, from, bytes, why);
    if (whole) XLA_TRY(xla_storage_renew(d, xla_number(to), why));
    s = xla_behind(d, to, bytes);
    XLA_TRY(xla_to_host(d, s, why));
    memcpy(s->host + xla_offset(to), from, bytes);
    s->is_batch = whole && is_batch;
    return LS_OK;
}

/* What was recorded of other tensors stays recorded. */
static ls_status download(xla_device *d, void *to, const void *from, size_t bytes, ls_message *why)
{
    xla_storage *s = xla_behind(d, from, bytes);
    if (s->mention) XLA_TRY(xla_flush(d, why));
    XLA_TRY(xla_wait(d, why));
    XLA_TRY(xla_to_host(d, s, why));
    memcpy(to, s->host + xla_offset(from), bytes);
    if (s->chips.on[0]) xla_drop_host(s); /* the copy of a tensor that is read now and then is not worth its memory */
    return LS_OK;
}

static ls_status copy(xla_device *d, void *to, const void *from, size_t bytes, ls_copy_kind kind, ls_message *why)
{
    if (bytes == 0) return LS_OK;
    if (kind != LS_COPY_TO_HOST && !xla_behind(d, to, bytes))
        return xla_refuse(why, LS_ERR_DEVICE, "the destination of a copy is not in memory of this device");
    if ((kind == LS_COPY_TO_HOST || kind == LS_COPY_ON_DEVICE) && !xla_behind(d, from, bytes))
        return xla_refuse(why, LS_ERR_DEVICE, "the source of a copy is not in memory of this device");
    if (kind == LS_COPY_TO_HOST) return download(d, to, from, bytes, why);
    if (kind == LS_COPY_ON_DEVICE) return xla_record_copy(d, to, from, bytes, why);
    if (kind == LS_COPY_VALUES) xla_behind(d, to, bytes)->is_exact = true;
    return upload(d, to, from, bytes, kind == LS_COPY_BATCH, why);
}

static ls_status device_copy(void *device, ls_stream *stream, void *to, const void *from, size_t bytes,
                             ls_copy_kind kind, ls_message *why)
{
    xla_device *d = device;
    (void)stream;
    enter(d);
    return leave(d, copy(d, to, from, bytes, kind, why));
}

/* ---- operators ---- */

/* Operators on tensors without elements have results, or errors, of their own: the host knows them. */
static bool reads_nothing(const ls_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] && xla_numel(call->in[i]) == 0) return true;
    return false;
}

static ls_status device_run(void *device, ls_stream *stream, const ls_call *call, ls_message *why)
{
    xla_device *d = device;
    (void)stream;
    enter(d);
    bool lowered = xla_lowering_of(call->op) && !reads_nothing(call);
    ls_status status = (lowered ? xla_record : xla_run_on_host)(d, call, why);
    if (!status && d->recording.calls >= MOST_CALLS) status = xla_flush(d, why);
    return leave(d, status);
}

static bool device_supports(void *device, ls_opcode op)
{
    (void)device;
    return xla_lowering_of(op) != NULL;
}

/* A step that was not taken, such as one of evaluation, ends when the next begins. */
static ls_status device_mark(void *device, ls_stream *stream, ls_mark_kind mark, ls_message *why)
{
    xla_device *d = device;
    (void)stream;
    enter(d);
    bool due = mark == LS_MARK_STEP_ENDED || !d->ended;
    d->ended = mark == LS_MARK_STEP_ENDED;
    ls_status status = due ? xla_flush(d, why) : LS_OK;
    if (!status && d->ended && xla_is_rehearsal(d)) xla_rehearsal_step(d);
    return leave(d, status);
}

static ls_status stream_sync(void *device, ls_stream *stream, ls_message *why)
{
    xla_device *d = device;
    (void)stream;
    enter(d);
    ls_status status = xla_flush(d, why);
    return leave(d, status ? status : xla_wait(d, why));
}

__attribute__((visibility("default"))) ls_device_stats_fn ls_plugin_stats;

void ls_plugin_stats(void *device, ls_device_counts *counts)
{
    xla_device *d = device;
    enter(d);
    *counts = d->counts;
    leave(d, LS_OK);
}

/* ---- opening ---- */

static void device_close(void *device)
{
    xla_device *d = device;
    ls_message ignored;
    xla_wait(d, &ignored);
    xla_recording_free(d);
    for (size_t i = 1; i < d->storage_count; i++)
        if (d->storages[i].bytes) xla_storage_free(d, i);
    free(d->storages);
    free(d->spare);
    free(d->joint.ids);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static ls_status device_open(const ls_host *host, const ls_device_open_args *args, void **device, ls_message *why)
{
    const pjrt *p;
    XLA_TRY(pjrt_start(args->peers, &p, why));
    pjrt_team team;
    pjrt_joint joint = {.count = 0};
    XLA_TRY(xla_find_team(p, args->index, &team, why));
    if (args->peers && p->client) XLA_TRY(xla_find_joint(p, team, args->peers, &joint, why));
    xla_device *d = calloc(1, sizeof *d);
    if (!d) {
        free(joint.ids);
        return xla_refuse(why, LS_ERR_MEMORY, "device \"xla\": no memory to open it");
    }
    d->host = host;
    d->pjrt = p;
    d->team = team;
    d->joint = joint;
    d->has_peers = args->peers != NULL;
    if (d->has_peers) d->peers = *args->peers;
    pthread_mutex_init(&d->lock, NULL);
    *device = d;
    if (!xla_is_rehearsal(d)) return LS_OK;
    ls_status status = xla_rehearsal_begin(d, why);
    if (status) device_close(d);
    return status;
}

static const ls_device_table table = {
    LS_DEVICE_TABLE,
    .traits = LS_TRAIT_STORAGES | LS_TRAIT_LIVE_VALUES | LS_TRAIT_SCATTERED | LS_TRAIT_BATCHES,
    .name = "xla",
    .count = xla_count,
    .open = device_open,
    .close = device_close,
    .alloc = device_alloc,
    .release = device_release,
    .stream_sync = stream_sync,
    .copy = device_copy,
    .run = device_run,
    .supports = device_supports,
    .mark = device_mark,
    .group = &xla_groups,
};

__attribute__((visibility("default"))) ls_plugin_entry ls_plugin_v2;

const ls_device_table *ls_plugin_v2(const ls_host *host)
{
    (void)host;
    return &table;
}
