/* on_device.c - collectives on device memory: by the device's own library, or staged through the host. */
#include <lockstep/group.h>

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/spans.h"
#include "comm/comm.h"
#include "device/device.h"
#include "device/gpus.h"

/* Description of a rank's next call, compared before it starts. */
typedef struct intent {
    int32_t kind, dtype, op, peer;
    int64_t count; /* 0 where ranks may differ in it */
    uint64_t shape;
    uint64_t state; /* of the group: see ls_group_state */
    int64_t has_calls;
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

/* What a rank tells the others about its part of a group. */
typedef struct member {
    uint64_t host;
    char device[160]; /* in words that differ between the devices of a host; "": unknown, and its own */
    char id[LS_GROUP_ID_BYTES];
    ls_message failure; /* why it has no group; "": nothing failed */
} member;

static ls_status tell_members(ls_comm *comm, const member *mine, member *all, ls_message *why)
{
    return ls_comm_all_gather(comm, mine, all, sizeof *mine, "group of devices", why);
}

/* A group needs a device for each rank. */
static bool share_a_device(const member *all, int size)
{
    for (int r = 1; r < size; r++)
        for (int s = 0; s < r && all[r].device[0]; s++)
            if (all[r].host == all[s].host && strcmp(all[r].device, all[s].device) == 0) {
                LS_LOG_ONCE_OF_JOB(LS_LOG_INFO,
                                   "ranks %d and %d share %s: collectives of devices go through the host's memory", s,
                                   r, all[r].device);
                return true;
            }
    return false;
}

/* The results are right, but training is slower, which nobody would notice. */
static bool has_failed(const member *all, int size)
{
    int r = 0;
    while (r < size && !all[r].failure.text[0]) r++;
    if (r == size) return false;
    LS_LOG_ONCE_OF_JOB(LS_LOG_WARN, "collectives of devices go through the host's memory, which is slower: rank %d: %s",
                       r, all[r].failure.text);
    return true;
}

static void note_failure(member *mine, ls_status status)
{
    if (status && !mine->failure.text[0]) ls_message_set(&mine->failure, "%s", ls_status_text(status));
}

/* Opens a group on all ranks, or on none: then calls go through the host. `all`: room for a member per rank. */
static ls_status open_group(ls_comm *comm, ls_comm_device *d, member *all, ls_message *why)
{
    const ls_group_table *table = d->device->table.group;
    member mine = {.host = ls_host_key()};
    ls_device_identify(d->device, mine.device, sizeof mine.device);
    ls_status status = tell_members(comm, &mine, all, why);
    if (status || share_a_device(all, comm->size)) return status;
    if (comm->rank == 0) note_failure(&mine, table->id(d->device->handle, mine.id, &mine.failure));
    status = tell_members(comm, &mine, all, why);
    if (status || has_failed(all, comm->size)) return status;
    note_failure(&mine, table->open(d->device->handle, all[0].id, comm->rank, comm->size, &d->group, &mine.failure));
    status = tell_members(comm, &mine, all, why);
    if (status || has_failed(all, comm->size)) close_group(d, true);
    return status;
}

static intent intent_of(const ls_comm_device *d, const ls_comm_call *call)
{
    const ls_group_table *table = d->device->table.group;
    ls_group_state state = table->state ? table->state(d->group, call) : (ls_group_state){0};
    bool same_count =
        call->kind == LS_COMM_ALL_REDUCE || call->kind == LS_COMM_REDUCE || call->kind == LS_COMM_BROADCAST;
    intent mine = {.kind = (int32_t)call->kind,
                   .dtype = (int32_t)call->dtype,
                   .op = (int32_t)call->op,
                   .peer = call->peer,
                   .count = same_count ? call->count : 0,
                   .shape = call->shape,
                   .state = state.hash,
                   .has_calls = state.has_calls};
    snprintf(mine.site, sizeof mine.site, "%s", call->site ? call->site : "");
    return mine;
}

static void describe(const intent *x, char *text, size_t size)
{
    snprintf(text, size, "%s (%s) of %lld %s (%s)", ls_comm_kind_name((ls_comm_kind)x->kind),
             ls_comm_op_name((ls_reduction)x->op), (long long)x->count, ls_dtype_name((ls_dtype)x->dtype), x->site);
}

/* LS_ERR_UNSUPPORTED: ranks have recorded different things, so there is no program of all. */
static ls_status compare_states(const ls_comm *comm, const intent *all, ls_message *why)
{
    int other = 1;
    bool has_calls = all[0].has_calls;
    while (other < comm->size && all[other].state == all[0].state) other++;
    if (other == comm->size) return LS_OK;
    for (int r = 1; r < comm->size; r++) has_calls |= all[r].has_calls != 0;
    if (has_calls)
        return ls_explain(
            why, LS_ERR_PEER,
            "ranks 0 and %d computed different things between two collectives, the second of which is %s, "
            "but compile one program: read numbers (ls_item, ls_read) and make tensors in all processes",
            other, all[0].site);
    LS_LOG_ONCE_OF_JOB(LS_LOG_INFO, "ranks 0 and %d computed different things before %s, which goes through the host",
                       other, all[0].site);
    return LS_ERR_UNSUPPORTED;
}

/* No device starts before all ranks have arrived with the same call, so that none waits for a process that failed. */
static ls_status agree(ls_comm *comm, ls_comm_device *d, const ls_comm_call *call, ls_message *why)
{
    intent mine = intent_of(d, call);
    ls_comm_call all = {.kind = LS_COMM_ALL_GATHER,
                        .dtype = LS_U8,
                        .count = sizeof mine,
                        .in = &mine,
                        .out = d->intents,
                        .site = call->site};
    ls_status status = comm->table->run(comm, &all, why); /* part of the call that a profile counts */
    for (int r = 1; r < comm->size && !status; r++) {
        if (memcmp(&d->intents[0], &d->intents[r], offsetof(intent, state)) == 0) continue;
        char first[96], other[96];
        describe(&d->intents[0], first, sizeof first);
        describe(&d->intents[r], other, sizeof other);
        status = ls_explain(why, LS_ERR_PEER, "processes disagree: rank 0 calls %s, rank %d calls %s", first, r, other);
    }
    return status ? status : compare_states(comm, d->intents, why);
}

/* LS_ERR_UNSUPPORTED: the library cannot make this call. */
static ls_status run_in_group(ls_comm *comm, ls_comm_device *d, const ls_comm_call *call, ls_message *why)
{
    const ls_group_table *table = d->device->table.group;
    int64_t began = ls_spans_clock();
    ls_status status = table->error(d->group, why);
    if (!status) status = agree(comm, d, call, why);
    if (!status) status = table->run(d->group, d->device->stream, call, why);
    if (!status) ls_spans_add(LS_SPAN_COLLECTIVE, ls_comm_kind_name(call->kind), NULL, began);
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
    member *members = ls_sys_alloc((size_t)comm->size * sizeof *members);
    if (!d || !intents || !members) {
        ls_message_set(why, "no memory");
        *status = LS_ERR_MEMORY;
        return ls_sys_free(d), ls_sys_free(intents), ls_sys_free(members), NULL;
    }
    *d = (ls_comm_device){.next = comm->devices, .device = device, .intents = intents};
    comm->devices = d;
    *status = device->table.group ? open_group(comm, d, members, why) : LS_OK;
    ls_sys_free(members);
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
