/* staged.c - collectives on memory of a device: down to the host, between processes, and up again. */
#include <stdio.h>

#include "comm/comm.h"
#include "device/device.h"

/* Memory for so many bytes, kept for the next call. */
static bool make_room(ls_comm *comm, ls_device *device, size_t bytes)
{
    if (comm->staging && comm->staging_for == device && comm->staging_bytes >= bytes) return true;
    ls_comm_free_staging(comm);
    comm->staging = ls_device_host_alloc(device, bytes);
    comm->staging_for = device;
    comm->staging_bytes = bytes;
    return comm->staging != NULL;
}

void ls_comm_free_staging(ls_comm *comm)
{
    if (comm->staging) ls_device_host_release(comm->staging_for, comm->staging, comm->staging_bytes);
    comm->staging = NULL;
}

/* A process that is alone has its own numbers: they stay on the device. */
static ls_status keep(ls_device *device, const ls_comm_call *call, size_t bytes, ls_message *why)
{
    if (!call->in || !call->out || call->in == call->out || !bytes) return LS_OK;
    return device->table.copy(device->handle, device->stream, call->out, call->in, bytes, LS_COPY_ON_DEVICE, why);
}

ls_status ls_comm_run_on(ls_comm *comm, ls_device *device, const ls_comm_call *call, ls_message *why)
{
    if (ls_device_is_host(device)) return ls_comm_run(comm, call, why);
    int64_t in, out;
    size_t element = ls_dtype_size(call->dtype);
    ls_comm_elements(comm, call, &in, &out);
    if (comm->size == 1) return keep(device, call, (size_t)call->count * element, why);
    size_t in_bytes = (size_t)in * element, out_bytes = (size_t)out * element, out_at = (in_bytes + 63) / 64 * 64;
    if (call->kind == LS_COMM_ALL_REDUCE) out_at = 0; /* in place */
    if (!make_room(comm, device, out_at + out_bytes + 1)) {
        snprintf(why->text, sizeof why->text, "no host memory for %zu bytes on their way", out_at + out_bytes);
        return LS_ERR_MEMORY;
    }
    ls_comm_call staged = *call;
    staged.in = comm->staging;
    staged.out = (char *)comm->staging + out_at;
    bool gives = call->kind == LS_COMM_BROADCAST && comm->rank == call->peer;
    ls_status status = ls_device_download(device, comm->staging, call->in, in_bytes, why);
    if (!status && gives) status = ls_device_download(device, staged.out, call->out, out_bytes, why);
    if (!status) status = ls_comm_run(comm, &staged, why);
    return status || gives ? status : ls_device_upload(device, call->out, staged.out, out_bytes, why);
}
