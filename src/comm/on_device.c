/* on_device.c - collectives on device memory: by the device's own library, or staged through the host. */
#include <lockstep/group.h>

#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "device/device.h"

/* Description of a rank's next call, compared before it starts. */
typedef struct intent {
    int32_t kind, dtype, op, peer;
    int64_t count; /* 0 where ranks may differ in it */
    uint64_t shape;
    char site[40]; /* for messages; not compared */
} intent;

/* A communicator's state for one device. */
typedef struct ls_comm_device {
    struct ls_comm_device *next;
    ls_device *device;
    void *group;     /* of the device's library; NULL: it has none, or could not open it */
    intent *intents; /* [size], by rank */
    void *staging;   /* host memory for staged data; NULL: none yet */
    size_t staging_bytes;
} ls_comm_device;

static void close_group(ls_comm_device *d, bool abort)
{
    if (d->group && abort) d->device->table.group->abort(d->group);
    if (d->group) d->device->table.group->close(d->group);
    d->group = NULL;
}

void ls_comm_leave_devices(ls_comm *comm, bool abort)
{
    for (ls_comm_device *d = comm->devices, *next; d; d = next) {
        next = d->next;
        close_group(d, abort);
        ls_device_host_release(d->device, d->staging, d->staging_bytes);
        ls_sys_free(d->intents);
        ls_sys_free(d);
    }
    comm->devices = NULL;
}

/* ---- by the device's library ---- */

/* The results are right, but training is slower, which nobody would notice. */
static void report_staging(const ls_message *reason)
{
    if (reason->text[0])
        ls_log_line(LS_LOG_WARN, "collectives of devices go through the host's memory, which is slower: %s",
                    reason->text);
}

/* Opens a group on all ranks, or on none: then calls go through the host. */
static ls_status open_group(ls_comm *comm, ls_comm_device *d, ls_message *why)
{
    const ls_group_table *table = d->device->table.group;
    ls_message reason = {{0}};
    struct {
        int32_t failed;
        char id[LS_GROUP_ID_BYTES];
    } all = {0};
    if (comm->rank == 0) all.failed = table->id(d->device->handle, all.id, &reason) != LS_OK;
    ls_status status = ls_comm_broadcast(comm, &all, sizeof all, 0, "group of devices", why);
    if (all.failed) report_staging(&reason);
    if (status || all.failed) return status;
    int32_t failed = table->open(d->device->handle, all.id, comm->rank, comm->size, &d->group, &reason) != LS_OK;
    status = ls_comm_all_reduce(comm, &failed, 1, LS_I32, LS_REDUCE_MAX, "group of devices", why);
    if (failed) report_staging(&reason);
    if (status || failed) close_group(d, true);
    return status;
}

static intent intent_of(const ls_comm_call *call)
{
    bool same_count =
        call->kind == LS_COMM_ALL_REDUCE || call->kind == LS_COMM_REDUCE || call->kind == LS_COMM_BROADCAST;
    intent mine = {.kind = (int32_t)call->kind,
                   .dtype = (int32_t)call->dtype,
                   .op = (int32_t)call->op,
                   .peer = call->peer,
                   .count = same_count ? call->count : 0,
                   .shape = call->shape};
    snprintf(mine.site, sizeof mine.site, "%s", call->site ? call->site : "");
    return mine;
}

static void describe(const intent *x, char *text, size_t size)
{
    snprintf(text, size, "%s (%s) of %lld %s (%s)", ls_comm_kind_name((ls_comm_kind)x->kind),
             ls_comm_op_name((ls_reduction)x->op), (long long)x->count, ls_dtype_name((ls_dtype)x->dtype), x->site);
}

/* No device starts before all ranks have arrived with the same call, so that none waits for a process that failed. */
static ls_status agree(ls_comm *comm, ls_comm_device *d, const ls_comm_call *call, ls_message *why)
{
    intent mine = intent_of(call);
    ls_status status = ls_comm_all_gather(comm, &mine, d->intents, sizeof mine, call->site, why);
    for (int r = 1; r < comm->size && !status; r++) {
        if (memcmp(&d->intents[0], &d->intents[r], offsetof(intent, site)) == 0) continue;
        char first[96], other[96];
        describe(&d->intents[0], first, sizeof first);
        describe(&d->intents[r], other, sizeof other);
        status = ls_explain(why, LS_ERR_PEER, "processes disagree: rank 0 calls %s, rank %d calls %s", first, r, other);
    }
    return status;
}

/* LS_ERR_UNSUPPORTED: the library lacks this call. */
static ls_status run_in_group(ls_comm *comm, ls_comm_device *d, const ls_comm_call *call, ls_message *why)
{
    const ls_group_table *table = d->device->table.group;
    ls_status status = table->error(d->group, why);
    if (!status) status = agree(comm, d, call, why);
    if (!status) status = table->run(d->group, d->device->stream, call, why);
    if (status && status != LS_ERR_UNSUPPORTED) close_group(d, true);
    return status;
}

/* ---- through the host ---- */

static bool reserve_staging(ls_comm_device *d, size_t bytes)
{
    if (d->staging && d->staging_bytes >= bytes) return true;
    ls_device_host_release(d->device, d->staging, d->staging_bytes);
    d->staging = ls_device_host_alloc(d->device, bytes);
    d->staging_bytes = bytes;
    return d->staging != NULL;
}

static ls_status run_staged(ls_comm *comm, ls_comm_device *d, const ls_comm_call *call, ls_message *why)
{
    int64_t in, out;
    size_t element = ls_dtype_size(call->dtype);
    ls_comm_elements(comm, call, &in, &out);
    size_t in_bytes = (size_t)in * element, out_bytes = (size_t)out * element, out_at = (in_bytes + 63) / 64 * 64;
    if (call->kind == LS_COMM_ALL_REDUCE) out_at = 0; /* in and out share memory */
    if (!reserve_staging(d, out_at + out_bytes + 1))
        return ls_explain(why, LS_ERR_MEMORY, "no host memory to stage %zu bytes", out_at + out_bytes);
    ls_comm_call staged = *call;
    staged.in = d->staging;
    staged.out = (char *)d->staging + out_at;
    bool is_source = call->kind == LS_COMM_BROADCAST && comm->rank == call->peer;
    ls_status status = ls_device_download(d->device, d->staging, call->in, in_bytes, why);
    if (!status && is_source) status = ls_device_download(d->device, staged.out, call->out, out_bytes, why);
    if (!status) status = ls_comm_run(comm, &staged, why);
    return status || is_source ? status : ls_device_upload(d->device, call->out, staged.out, out_bytes, why);
}

/* ---- either ---- */

/* With one process the result is its own data, which stays on the device. */
static ls_status copy_own(ls_device *device, const ls_comm_call *call, ls_message *why)
{
    size_t bytes = (size_t)call->count * ls_dtype_size(call->dtype);
    if (!call->in || !call->out || call->in == call->out || !bytes) return LS_OK;
    return device->table.copy(device->handle, device->stream, call->out, call->in, bytes, LS_COPY_ON_DEVICE, why);
}

/* The communicator's state for the device, created by the first call. NULL: no memory, or opening the group failed. */
static ls_comm_device *device_state(ls_comm *comm, ls_device *device, ls_status *status, ls_message *why)
{
    ls_comm_device *d = comm->devices;
    while (d && d->device != device) d = d->next;
    if (d) return d;
    d = ls_sys_alloc(sizeof *d);
    intent *intents = ls_sys_alloc((size_t)comm->size * sizeof *intents);
    if (!d || !intents) {
        ls_message_set(why, "no memory");
        *status = LS_ERR_MEMORY;
        return ls_sys_free(d), ls_sys_free(intents), NULL;
    }
    *d = (ls_comm_device){.next = comm->devices, .device = device, .intents = intents};
    comm->devices = d;
    bool shared = ls_config_switch(LS_SETTING_SHARE_GPU); /* a group needs a device for each rank */
    *status = device->table.group && !shared ? open_group(comm, d, why) : LS_OK;
    return *status ? NULL : d;
}

ls_status ls_comm_run_on(ls_comm *comm, ls_device *device, const ls_comm_call *call, ls_message *why)
{
    if (ls_device_is_host(device)) return ls_comm_run(comm, call, why);
    if (comm->size == 1) return copy_own(device, call, why);
    ls_status status = LS_OK;
    ls_comm_device *d = device_state(comm, device, &status, why);
    if (!d) return status;
    status = d->group ? run_in_group(comm, d, call, why) : LS_ERR_UNSUPPORTED;
    return status == LS_ERR_UNSUPPORTED ? run_staged(comm, d, call, why) : status;
}
