/* finite.c - NaN and infinity in losses and gradient norms: traced, counted, reported once. */
#include "step/finite.h"

#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "step/step.h"
#include "tensor/live.h"

/* trace += 0 * number: NaN and infinity leave a lasting NaN, without waiting for the device. */
static bool leave_trace(ls_run *run, ls_tensor *number)
{
    ls_device *device = number->storage->device;
    ls_tensor *zero = ls_tensor_new_like(number, number->view.dtype),
              *wide = ls_tensor_new(run, device, LS_F32, LS_SHAPE(1));
    if (!ls_is_valid(zero) || !ls_is_valid(wide)) return false;
    if (!run->step->finite.trace) {
        ls_tensor *made = ls_tensor_new(run, device, LS_F32, LS_SHAPE(1));
        if (!ls_is_valid(made) || !ls_begin_at(made, 0)) return false;
        run->step->finite.trace = ls_alias_owned(made);
    }
    ls_call call = {.op = LS_OP_affine, .n_in = 1, .n_out = 1, .in = {&number->view}, .out = {&zero->view}};
    if (!run->step->finite.trace || !ls_submit(run, device, &call)) return false;
    ls_view_set_contiguous(&zero->view, LS_SHAPE(1));
    return ls_raw_copy(wide, zero) && ls_raw_add(run->step->finite.trace, run->step->finite.trace, wide);
}

bool ls_finite_look(ls_run *run, ls_tensor *number)
{
    ls_device *device = number->storage->device;
    if (ls_device_is_host(device)) return isfinite(ls_item(number));
    if (run->step->finite.trace && run->step->finite.trace->storage->device != device) return true;
    ls_mark mark = ls_scope_begin(run);
    leave_trace(run, number);
    ls_scope_end(run, mark, NULL);
    return true;
}

bool ls_finite_late(ls_run *run)
{
    if (!run->step->finite.trace || ls_failed(run) || isfinite(ls_item(run->step->finite.trace))) return false;
    return ls_raw_fill(run->step->finite.trace, 0) && !ls_failed(run);
}

void ls_finite_note(ls_run *run, const char *what, int64_t step, int rank)
{
    ls_finite *f = &run->step->finite;
    if (step != f->last || !f->steps) f->steps++;
    f->last = step;
    if (f->first) return;
    f->first = step;
    if (run->step->reducer && run->step->share.rank != 0) return; /* one line for all processes that train together */
    char process[32] = "";
    if (run->step->share.world > 1) snprintf(process, sizeof process, " in process %d", rank);
    ls_log_line(LS_LOG_WARN,
                "step %lld: %s is not finite%s; training continues, and ls_finish() counts such steps. "
                "LOCKSTEP_CHECK_FINITE=1 names the operator it comes from",
                (long long)step, what, process);
}

void ls_finite_clear(ls_run *run)
{
    ls_release(run->step->finite.trace);
    run->step->finite.trace = NULL;
}
