/* plugin.c - the table of the CUDA device. */
#include <lockstep/device.h>

#include "../names.h"
#include "count.h"
#include "entries.h"
#include "fault.h"
#include "group.h"
#include "profile.h"
#include "recent.h"

/* The library adds the names of module and operator to failures of `run`. */
static ls_status wait_at_once(cuda_device *d, cudaStream_t stream, ls_message *why)
{
    CUDA_TRY(cuda_check(cudaStreamSynchronize(stream), "the GPU failed", why));
    cuda_recent_done(d->recent, cuda_recent_count(d->recent));
    return cuda_fault_read(d, NULL, why);
}

static ls_status run(void *device, ls_stream *stream, const ls_call *call, ls_message *why)
{
    cuda_device *d = device;
    CUDA_TRY(cuda_enter(d, why));
    cuda_recent_note(d->recent, call);
    ls_status status = (d->profile ? cuda_profile_run : cuda_run)(d, (cudaStream_t)stream, call, why);
    if (status == LS_OK) return d->blocking ? wait_at_once(d, (cudaStream_t)stream, why) : LS_OK;
    if (cuda_died_of() && cuda_recent_open(d->recent) > 1)
        cuda_recent_blame(d, why); /* an earlier one may have failed */
    return status;
}

/* Asked only for operators that the library can compose of others: several kernels are faster than the host. */
static bool supports(void *device, ls_opcode op)
{
    (void)device;
    return cuda_has(op);
}

__attribute__((visibility("default"))) ls_device_stats_fn ls_plugin_stats;

void ls_plugin_stats(void *device, ls_device_counts *counts)
{
    const cuda_device *d = device;
    counts->host_calls = d->host_calls;
    counts->host_operators[0] = '\0';
    for (int op = 0; op < LS_OP_COUNT; op++)
        if (d->host_ran[op])
            names_add(counts->host_operators, sizeof counts->host_operators, d->host->op_name((ls_opcode)op));
}

static const ls_device_table table = {
    LS_DEVICE_TABLE,
    .traits = LS_TRAIT_HALF_COPY | LS_TRAIT_KRSC | LS_TRAIT_STEP_FACTOR,
    .name = "cuda",
    .count = cuda_count,
    .open = cuda_open,
    .close = cuda_close,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .host_alloc = cuda_host_alloc,
    .host_release = cuda_host_release,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_sync = cuda_stream_sync,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .event_done = cuda_event_done,
    .event_sync = cuda_event_sync,
    .copy = cuda_copy_bytes,
    .run = run,
    .supports = supports,
    .mark = cuda_mark,
    .group = &cuda_groups,
};

__attribute__((visibility("default"))) ls_plugin_entry ls_plugin_v2;

const ls_device_table *ls_plugin_v2(const ls_host *host)
{
    (void)host;
    return &table;
}
