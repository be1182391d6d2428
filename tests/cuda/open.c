/* open.c - what a user reads where the driver of the GPUs is missing, damaged, too old, or does not start.
 *
 * CUDA and the driver are pretended. */
#include "../../plugins/device-cuda/choices.h"
#include "../../plugins/device-cuda/count.h"
#include "../../plugins/device-cuda/entries.h"
#include "../../plugins/device-cuda/fault.h"
#include "../../plugins/device-cuda/profile.h"
#include "../../plugins/device-cuda/recent.h"
#include "../../plugins/device-cuda/row_sums.h"
#include "../../plugins/device-cuda/values.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"

/* ---- CUDA, pretended ---- */

static cudaError_t result;  /* of the first call that starts the driver */
static int version;         /* of the driver; 0: the runtime cannot load it */
static const char *loading; /* what the linker says of its library */

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = result == cudaSuccess;
    return result;
}

cudaError_t cudaDriverGetVersion(int *number)
{
    *number = version;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *number)
{
    *number = 13000;
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorInitializationError    ? "initialization error"
           : error == cudaErrorSystemDriverMismatch ? "system has unsupported display driver / cuda driver combination"
           : error == cudaErrorStubLibrary          ? "CUDA driver is a stub library"
                                                    : "unknown error";
}

cudaError_t cudaGetLastError(void)
{
    return result;
}

const char *cuda_driver_error(void)
{
    return loading;
}

cudaError_t cudaFree(void *memory)
{
    (void)memory;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    (void)attribute, (void)device;
    *value = 9;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    (void)properties, (void)device;
    return cudaErrorUnknown;
}

/* ---- the rest of the plug-in ---- */

cudaError_t cuda_has_code(void)
{
    return cudaSuccess;
}

ls_status cuda_enter(const cuda_device *d, ls_message *why)
{
    (void)d, (void)why;
    return LS_OK;
}

ls_status cuda_fault_new(cuda_device *d, ls_message *why)
{
    (void)d, (void)why;
    return LS_OK;
}

void cuda_fault_free(cuda_device *d)
{
    (void)d;
}

cuda_recent *cuda_recent_new(void)
{
    return malloc(1);
}

void cuda_recent_free(cuda_recent *recent)
{
    free(recent);
}

cuda_profile *cuda_profile_new(void)
{
    return NULL;
}

void cuda_profile_free(cuda_device *d)
{
    (void)d;
}

void cuda_forget_sums(cuda_device *d)
{
    (void)d;
}

cuda_choices *cuda_choices_open(const char *name)
{
    (void)name;
    return NULL;
}

/* ---- tests ---- */

/* Opens GPU 0, and returns the message if it cannot be opened. */
static const char *open_with(cudaError_t error, int driver, const char *linker)
{
    static ls_message why;
    void *device = NULL;
    why.text[0] = '\0';
    result = error;
    version = driver;
    loading = linker;
    ls_status status = cuda_open(NULL, &(ls_device_open_args){.index = 0}, &device, &why);
    CHECK(status == (*why.text ? LS_ERR_DEVICE : LS_OK) && !device == !!*why.text);
    if (device) cuda_close(device);
    return why.text;
}

static void a_driver_that_works_is_used(void)
{
    CHECK_TEXT(open_with(cudaSuccess, 13000, NULL), "");
}

static void one_that_cannot_be_loaded_is_missing_or_damaged(void)
{
    CHECK_TEXT(open_with(cudaErrorInsufficientDriver, 0,
                         "libcuda.so.1: cannot open shared object file: No such file or directory"),
               "device \"cuda\": no NVIDIA driver (libcuda.so.1) is installed");
    static const char *const damages[] = {
        "/usr/lib/libcuda.so.1: file too short", "libcuda.so.1: wrong ELF class: ELFCLASS32",
        "libnvidia-other.so.1: cannot open shared object file: No such file or directory"};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        char words[200];
        snprintf(words, sizeof words, "device \"cuda\": the NVIDIA driver cannot be loaded: %s", damages[i]);
        CHECK_TEXT(open_with(cudaErrorInsufficientDriver, 0, damages[i]), words);
    }
    CHECK_TEXT(
        open_with(cudaErrorInsufficientDriver, 0, NULL),
        "device \"cuda\": libcuda.so.1 can be loaded, but is no NVIDIA driver that CUDA can use: nvidia-smi says "
        "more");
}

static void one_that_does_not_start_says_what_may_help(void)
{
    CHECK_TEXT(open_with(cudaErrorSystemDriverMismatch, 12020, NULL),
               "device \"cuda\": system has unsupported display driver / cuda driver combination (CUDA error 803); a "
               "driver that was just updated needs a restart of the machine; nvidia-smi says more");
    CHECK_TEXT(open_with(cudaErrorInitializationError, 13000, NULL),
               "device \"cuda\": initialization error (CUDA error 3); if this process was forked after CUDA was "
               "started, start it with ls_launch() instead; a driver that was just updated needs a restart of the "
               "machine; nvidia-smi says more");
    CHECK_TEXT(open_with(cudaErrorInsufficientDriver, 12020, NULL),
               "device \"cuda\": the NVIDIA driver supports CUDA up to 12.2, and this plug-in was built with 13.0: "
               "update the driver, or build with an older toolkit");
}

/* Its version is 0, too, and it can be loaded. */
static void a_library_for_linking_is_no_driver(void)
{
    CHECK_TEXT(
        open_with(cudaErrorStubLibrary, 0, NULL),
        "device \"cuda\": CUDA driver is a stub library (CUDA error 34); the toolkit's libcuda.so.1, for linking "
        "only, is found before the driver's: LD_LIBRARY_PATH must not name its folder");
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    unsetenv("CUDA_VISIBLE_DEVICES");
    CHECK_RUN(a_driver_that_works_is_used);
    CHECK_RUN(one_that_cannot_be_loaded_is_missing_or_damaged);
    CHECK_RUN(one_that_does_not_start_says_what_may_help);
    CHECK_RUN(a_library_for_linking_is_no_driver);
    return check_done();
}
