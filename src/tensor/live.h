/* live.h - numbers that change from step to step, for devices that record or compile steps.
 *
 * To such a device (LS_TRAIT_LIVE_VALUES) a number in a call is a constant of the program, and a step with another
 * learning rate would be another program. So what changes between steps is written into device memory and handed over
 * as ls_call.live; calls then differ in nothing. Every other device gets the numbers in ls_call.attrs. */
#ifndef LOCKSTEP_TENSOR_LIVE_H
#define LOCKSTEP_TENSOR_LIVE_H

#include "tensor/context.h"

static inline bool ls_wants_live(const ls_device *device)
{
    return ls_device_has(device, LS_TRAIT_LIVE_VALUES);
}

/* ls_submit() of a call whose numbers change from step to step: those are handed over as the device wants them. */
bool ls_submit_live(ls_run *run, ls_device *device, ls_call *call);

/* Take the random numbers of n elements: where they start. On a device that wants live values the offset counts from
 * a place in device memory, the result, u64 [2]: ls_call.live of the operators that draw these numbers. It belongs to
 * the run; the tape may save it. Elsewhere NULL. Poison on failure. */
ls_tensor *ls_draw(ls_run *run, ls_device *device, int64_t n, uint64_t *seed, uint64_t *offset);

/* A step begins or has ended: tell the run's device, and count random numbers anew. Failures are recorded. */
void ls_step_mark(ls_run *run, ls_mark_kind mark);

/* Before the run goes. */
void ls_live_free(ls_run *run);

#endif
