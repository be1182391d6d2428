/* open.c - open and close a GPU, with helpful messages if it cannot be opened. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../variables.h"
#include "choices.h"
#include "count.h"
#include "entries.h"
#include "fault.h"
#include "profile.h"
#include "recent.h"
#include "row_sums.h"
#include "values.h"

/* The process that CUDA was started in. */
static pid_t started_in;

static ls_status refuse_fork(ls_message *why)
{
    return cuda_refuse(
        why, LS_ERR_DEVICE,
        "device \"cuda\": this process was forked after process %d had started CUDA, which CUDA does not "
        "support: fork before a device is opened, or start processes with ls_launch()",
        (int)started_in);
}

/* The runtime finds no driver. */
static ls_status refuse_driver(ls_message *why)
{
    const char *error = cuda_driver_error();
    if (!error)
        return cuda_refuse(why, LS_ERR_DEVICE,
                           "device \"cuda\": libcuda.so.1 can be loaded, but is no NVIDIA driver that CUDA can use: "
                           "nvidia-smi says more");
    if (strncmp(error, "libcuda.so.1: ", 14) == 0 && strstr(error, strerror(ENOENT)))
        return cuda_refuse(why, LS_ERR_DEVICE, "device \"cuda\": no NVIDIA driver (libcuda.so.1) is installed");
    return cuda_refuse(why, LS_ERR_DEVICE, "device \"cuda\": the NVIDIA driver cannot be loaded: %.180s", error);
}

static ls_status find(int index, ls_message *why)
{
    int driver = 0, runtime = 0, count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (error == cudaErrorInsufficientDriver && driver == 0) return refuse_driver(why);
    if (error == cudaErrorInsufficientDriver)
        return cuda_refuse(
            why, LS_ERR_DEVICE,
            "device \"cuda\": the NVIDIA driver supports CUDA up to %d.%d, and this plug-in was built with "
            "%d.%d: update the driver, or build with an older toolkit",
            driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (error == cudaErrorNoDevice || (error == cudaSuccess && index >= count)) {
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        return cuda_refuse(why, LS_ERR_DEVICE, "device \"cuda:%d\": CUDA finds %d GPUs%s%.60s", index, count,
                           visible ? ", with CUDA_VISIBLE_DEVICES=" : "", visible ? visible : "");
    }
    return cuda_check(error, "device \"cuda\"", why);
}

/* Returns the first failure. */
static ls_status start(cuda_device *d, ls_message *why)
{
    int major = 0, minor = 0;
    CUDA_TRY(find(d->index, why));
    CUDA_TRY(cuda_enter(d, why));
    cudaError_t error = cudaFree(NULL); /* makes the context */
    if (error == cudaErrorMemoryAllocation)
        return cuda_refuse(why, LS_ERR_MEMORY,
                           "device \"cuda:%d\": its memory is full already: other programs use it (nvidia-smi shows "
                           "which)",
                           d->index);
    CUDA_TRY(cuda_check(error, "device \"cuda\"", why));
    CUDA_TRY(cuda_check(cudaDeviceGetAttribute(&d->processors, cudaDevAttrMultiProcessorCount, d->index), "cuda", why));
    CUDA_TRY(cuda_check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d->index), "cuda", why));
    CUDA_TRY(cuda_check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, d->index), "cuda", why));
    d->architecture = major * 10 + minor;
    error = cuda_has_code();
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
        cudaGetLastError();
        return cuda_refuse(why, LS_ERR_UNSUPPORTED,
                           "device \"cuda:%d\": the plug-in has no code for this GPU, of compute capability %d.%d: "
                           "configure with -DLOCKSTEP_CUDA_ARCHITECTURES=%d%d and build again",
                           d->index, major, minor, major, minor);
    }
    CUDA_TRY(cuda_check(error, "device \"cuda\"", why));
    return cuda_fault_new(d, why);
}

ls_status cuda_open(const ls_host *host, const ls_device_open_args *args, void **device, ls_message *why)
{
    if (started_in && started_in != getpid()) return refuse_fork(why);
    if (cuda_died_of())
        return cuda_refuse(why, LS_ERR_DEVICE,
                           "device \"cuda\": CUDA stopped working in this process when an operator failed earlier "
                           "(%s): start the program again",
                           cudaGetErrorString(cuda_died_of()));
    started_in = getpid();
    cuda_device *d = calloc(1, sizeof *d);
    if (d) d->recent = cuda_recent_new();
    if (!d || !d->recent) {
        free(d);
        return cuda_refuse(why, LS_ERR_MEMORY, "device \"cuda\": no memory to open it");
    }
    d->host = host;
    d->owner = args->owner;
    d->index = args->index;
    d->tf32 = variable_is_on("LOCKSTEP_CUDA_TF32");
    d->deterministic = variable_is_on("LOCKSTEP_CUDA_DETERMINISTIC");
    d->blocking = variable_is_on("LOCKSTEP_CUDA_BLOCKING");
    d->report_waits = variable_is_on("LOCKSTEP_CUDA_WAITS");
    ls_status status = start(d, why);
    if (status == LS_OK && variable_is_on("LOCKSTEP_CUDA_PROFILE")) d->profile = cuda_profile_new();
    if (status == LS_OK) *device = d;
    else cuda_close(d);
    return status;
}

cuda_choices *cuda_open_choices(const cuda_device *d, const char *library, size_t version)
{
    struct cudaDeviceProp gpu;
    char name[400];
    if (cudaGetDeviceProperties(&gpu, d->index) != cudaSuccess) gpu.name[0] = '\0';
    snprintf(name, sizeof name, "%s-%zu-%s-%d", library, version, gpu.name, d->processors);
    return cuda_choices_open(name);
}

void cuda_close(void *device)
{
    cuda_device *d = device;
    if (d->report_waits && d->host_calls) {
        char text[80];
        snprintf(text, sizeof text, "cuda: %llu operators ran on the host", (unsigned long long)d->host_calls);
        d->host->log(text);
    }
    cuda_profile_free(d);
    if (d->blas && cuda_blas_free) cuda_blas_free(d->blas);
    if (d->dnn && cuda_dnn_free) cuda_dnn_free(d->dnn);
    cuda_forget_sums(d);
    cuda_fault_free(d);
    cuda_recent_free(d->recent);
    free(d);
}
