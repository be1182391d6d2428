/* stream.c - streams, events, and the places where the host waits for the device. */
#include <stdio.h>

#include "entries.h"
#include "fault.h"
#include "group.h"
#include "profile.h"
#include "recent.h"

ls_status cuda_enter(const cuda_device *d, ls_message *why)
{
    static _Thread_local int current = -1;
    if (current == d->index) return LS_OK;
    CUDA_TRY(cuda_check(cudaSetDevice(d->index), "device \"cuda\"", why));
    current = d->index;
    return LS_OK;
}

/* ---- waits ---- */

static void report_wait(const cuda_device *d, const char *reason)
{
    char last[120], text[240];
    cuda_recent_last(d, last, sizeof last);
    snprintf(text, sizeof text, "cuda: the host waits for %s, after %s", reason, *last ? last : "nothing");
    d->host->log(text);
}

ls_status cuda_check_late(const cuda_device *d, cudaError_t error, const char *what, ls_message *why)
{
    ls_status status = cuda_check(error, what, why);
    if (status != LS_OK && error == cuda_died_of() && why) cuda_recent_blame(d, why);
    return status;
}

/* The result of a wait. */
static ls_status conclude(cuda_device *d, cudaError_t error, ls_message *why)
{
    if (error != cudaSuccess) return cuda_check_late(d, error, "the GPU failed", why);
    CUDA_TRY(cuda_groups_lost(why));
    return cuda_fault_read(d, d->host->blame, why);
}

ls_status cuda_wait(cuda_device *d, cudaStream_t stream, const char *reason, ls_message *why)
{
    if (d->report_waits) report_wait(d, reason);
    uint64_t submitted = cuda_recent_count(d->recent);
    cudaError_t error = cudaStreamSynchronize(stream);
    ls_status status = conclude(d, error, why);
    if (error == cudaSuccess && stream == d->compute) cuda_recent_done(d->recent, submitted);
    return status;
}

ls_status cuda_mark(void *device, ls_stream *stream, ls_mark_kind mark, ls_message *why)
{
    cuda_device *d = device;
    (void)stream;
    if (mark == LS_MARK_STEP_ENDED) cuda_profile_step(d);
    return cuda_fault_read(d, d->host->blame, why);
}

/* ---- streams ---- */

ls_status cuda_stream_create(void *device, ls_stream **stream)
{
    cuda_device *d = device;
    cudaStream_t made;
    CUDA_TRY(cuda_enter(d, NULL));
    CUDA_TRY(cuda_check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "stream", NULL));
    if (!d->compute) d->compute = made;
    *stream = (ls_stream *)made;
    return LS_OK;
}

void cuda_stream_destroy(void *device, ls_stream *stream)
{
    cuda_device *d = device;
    if (d->compute == (cudaStream_t)stream) d->compute = NULL;
    if (cuda_enter(d, NULL) == LS_OK) cuda_check(cudaStreamDestroy((cudaStream_t)stream), "stream", NULL);
}

ls_status cuda_stream_sync(void *device, ls_stream *stream, ls_message *why)
{
    CUDA_TRY(cuda_enter(device, why));
    return cuda_wait(device, (cudaStream_t)stream, "a stream", why);
}

/* ---- events ---- */

ls_status cuda_event_create(void *device, ls_event **event)
{
    cudaEvent_t made;
    CUDA_TRY(cuda_enter(device, NULL));
    CUDA_TRY(cuda_check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "event", NULL));
    *event = (ls_event *)made;
    return LS_OK;
}

void cuda_event_destroy(void *device, ls_event *event)
{
    if (cuda_enter(device, NULL) == LS_OK) cuda_check(cudaEventDestroy((cudaEvent_t)event), "event", NULL);
}

ls_status cuda_event_record(void *device, ls_event *event, ls_stream *stream)
{
    CUDA_TRY(cuda_enter(device, NULL));
    return cuda_check(cudaEventRecord((cudaEvent_t)event, (cudaStream_t)stream), "event", NULL);
}

ls_status cuda_event_wait(void *device, ls_event *event, ls_stream *stream)
{
    CUDA_TRY(cuda_enter(device, NULL));
    return cuda_check(cudaStreamWaitEvent((cudaStream_t)stream, (cudaEvent_t)event, 0), "event", NULL);
}

/* An error counts as done: the next wait reports it. */
bool cuda_event_done(void *device, ls_event *event)
{
    if (cuda_enter(device, NULL) != LS_OK) return true;
    bool is_done = cudaEventQuery((cudaEvent_t)event) != cudaErrorNotReady;
    if (!is_done) cudaGetLastError(); /* "not ready" is kept as an error, which the next launch would report */
    return is_done;
}

ls_status cuda_event_sync(void *device, ls_event *event, ls_message *why)
{
    cuda_device *d = device;
    CUDA_TRY(cuda_enter(d, why));
    if (d->report_waits && !cuda_event_done(device, event)) report_wait(d, "an event");
    return conclude(d, cudaEventSynchronize((cudaEvent_t)event), why);
}
