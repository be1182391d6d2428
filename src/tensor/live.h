/* live.h - numbers that change from step to step, for devices that record or compile steps.
 *
 * To such a device (LS_TRAIT_LIVE_VALUES) a number in a call is a constant of the program, and a step with another
 * learning rate would be another program. So numbers that change between steps are written to device memory and passed
 * as ls_call.live; the calls are then identical. Every other device gets the numbers in ls_call.attrs. */
#ifndef LOCKSTEP_TENSOR_LIVE_H
#define LOCKSTEP_TENSOR_LIVE_H

#include "tensor/context.h"

static inline bool ls_wants_live(const ls_device *device)
{
    return ls_device_has(device, LS_TRAIT_LIVE_VALUES);
}

/* ls_submit() of a call with numbers that change from step to step, passed as the device wants them. */
bool ls_submit_live(ls_run *run, ls_device *device, ls_call *call);

/* The first numbers of a tensor that steps read or update: `value` everywhere. A device that compiles gets them from
 * the host, as if a step before had left them there: a program that makes the numbers that training begins with runs
 * once, and may take longer to compile than that of a step. */
bool ls_begin_at(ls_tensor *t, double value);

/* A tensor of t's shape in the CPU's memory, for such numbers. */
ls_tensor *ls_on_host_like(const ls_tensor *t, ls_dtype dtype);

/* Reserve the random numbers of n elements: *seed and *offset say where they start. On a device that wants live values
 * the offset is relative to the result, u64 [2] in device memory: ls_call.live of the operators that draw these
 * numbers. The run owns it; the tape may save it. NULL on other devices, poison on failure. */
ls_tensor *ls_draw(ls_run *run, ls_device *device, int64_t n, uint64_t *seed, uint64_t *offset);

/* A step begins or has ended: notify the run's device, and restart the offset of random numbers. Records failures. */
void ls_step_mark(ls_run *run, ls_mark_kind mark);

/* Before the run is freed. */
void ls_live_free(ls_run *run);

#endif
