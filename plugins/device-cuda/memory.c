/* memory.c - device memory, pinned host memory, and copies between them. */
#include <stdio.h>

#include "entries.h"
#include "recent.h"
#include "values.h"

/* The library reports how much memory it uses itself; other programs may use the rest. */
static void report_full(const cuda_device *d, size_t bytes)
{
    size_t left = 0, all = 0;
    char text[160];
    if (cudaMemGetInfo(&left, &all) != cudaSuccess) return;
    snprintf(text, sizeof text, "cuda: GPU %d has %.1f of %.1f GiB free; %.3g GiB were requested", d->index,
             (double)left / 0x1p30, (double)all / 0x1p30, (double)bytes / 0x1p30);
    d->host->log(text);
}

ls_status cuda_alloc(void *device, size_t bytes, void **address)
{
    CUDA_TRY(cuda_enter(device, NULL));
    ls_status status = cuda_check(cudaMalloc(address, bytes), "cudaMalloc", NULL);
    if (status == LS_ERR_MEMORY) report_full(device, bytes);
    return status;
}

/* cudaFree waits for all work submitted before it. */
void cuda_release(void *device, void *address, size_t bytes)
{
    (void)bytes;
    if (cuda_enter(device, NULL) == LS_OK) cuda_check(cudaFree(address), "cudaFree", NULL);
}

/* Pinned, and for all devices of the process. */
ls_status cuda_host_alloc(void *device, size_t bytes, void **memory)
{
    CUDA_TRY(cuda_enter(device, NULL));
    return cuda_check(cudaHostAlloc(memory, bytes, cudaHostAllocPortable), "cudaHostAlloc", NULL);
}

void cuda_host_release(void *device, void *memory, size_t bytes)
{
    (void)bytes;
    if (cuda_enter(device, NULL) == LS_OK) cuda_check(cudaFreeHost(memory), "cudaFreeHost", NULL);
}

/* A copy to memory that is not pinned waits until it is complete. */
static bool is_pinned(const void *memory)
{
    struct cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, memory) == cudaSuccess) return attributes.type == cudaMemoryTypeHost;
    cudaGetLastError();
    return false;
}

ls_status cuda_copy_bytes(void *device, ls_stream *stream, void *to, const void *from, size_t bytes, ls_copy_kind kind,
                          ls_message *why)
{
    cuda_device *d = device;
    cudaStream_t in = (cudaStream_t)stream;
    CUDA_TRY(cuda_enter(d, why));
    if (in == d->compute && kind != LS_COPY_TO_HOST) cuda_count_call(d);
    switch (kind) {
    case LS_COPY_VALUES: return cuda_put_values(in, to, from, bytes, why);
    case LS_COPY_TO_DEVICE:
        return cuda_check_late(d, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, in), "copy to the device",
                               why);
    case LS_COPY_TO_HOST:
        if (d->report_waits && !is_pinned(to)) CUDA_TRY(cuda_wait(d, in, "a copy to memory that is not pinned", why));
        return cuda_check_late(d, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, in), "copy to the host",
                               why);
    default:
        return cuda_check_late(d, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, in), "copy on the device",
                               why);
    }
}
