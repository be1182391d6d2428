/* error.c - CUDA's errors as messages with advice. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "recent.h"

ls_status cuda_refuse(ls_message *why, ls_status status, const char *format, ...)
{
    if (!why) return status;
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return status;
}

/* Advice for the user; "": CUDA's message is enough. */
static const char *cure(cudaError_t error)
{
    switch (error) {
    case cudaErrorInitializationError:
        return "; if this process was forked after CUDA was started, start it with ls_launch() instead; a driver that "
               "was just updated needs a restart of the machine; nvidia-smi says more";
    case cudaErrorSystemDriverMismatch:
        return "; a driver that was just updated needs a restart of the machine; nvidia-smi says more";
    case cudaErrorStubLibrary:
        return "; the toolkit's libcuda.so.1, for linking only, is found before the driver's: LD_LIBRARY_PATH must not "
               "name its folder";
    case cudaErrorNoKernelImageForDevice:
        return "; the plug-in has no code for this GPU: configure with -DLOCKSTEP_CUDA_ARCHITECTURES=native";
    case cudaErrorDevicesUnavailable: return "; another process uses the GPU exclusively (nvidia-smi shows which)";
    case cudaErrorECCUncorrectable: return "; the GPU's memory is defective or needs a reset (nvidia-smi -q -d ECC)";
    case cudaErrorMemoryAllocation: return "; a smaller batch needs less";
    default: return "";
    }
}

/* Failures inside a kernel, after which every call of the process fails. */
static bool is_fatal(cudaError_t error)
{
    switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure: return true;
    default: return false;
    }
}

static _Atomic int died_of;

cudaError_t cuda_died_of(void)
{
    return (cudaError_t)atomic_load(&died_of);
}

ls_status cuda_check(cudaError_t error, const char *what, ls_message *why)
{
    if (error == cudaSuccess) return LS_OK;
    if (is_fatal(error)) atomic_store(&died_of, (int)error);
    cudaGetLastError(); /* otherwise the next call would report it again */
    ls_status status = error == cudaErrorMemoryAllocation ? LS_ERR_MEMORY : LS_ERR_DEVICE;
    return cuda_refuse(why, status, "%s: %s (CUDA error %d)%s", what, cudaGetErrorString(error), (int)error,
                       cure(error));
}
