/* finite.c - NaN and infinity: counted, told once, and found. */
#include "tensor/finite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/log.h"
#include "base/memory.h"
#include "tensor/context.h"

/* ---- noticed ---- */

/* trace += 0 * number: NaN and infinity leave a NaN that stays, and nobody has to wait for it. */
static bool leave_trace(ls_run *run, ls_tensor *number)
{
    ls_device *device = number->storage->device;
    ls_tensor *zero = ls_tensor_new_like(number, number->view.dtype),
              *wide = ls_tensor_new(run, device, LS_F32, LS_SHAPE(1));
    if (!ls_is_valid(zero) || !ls_is_valid(wide)) return false;
    if (!run->finite.trace) {
        ls_tensor *made = ls_tensor_new(run, device, LS_F32, LS_SHAPE(1));
        if (!ls_is_valid(made) || !ls_raw_fill(made, 0)) return false;
        run->finite.trace = ls_alias_owned(made);
    }
    ls_call call = {.op = LS_OP_affine, .n_in = 1, .n_out = 1, .in = {&number->view}, .out = {&zero->view}};
    if (!run->finite.trace || !ls_submit(run, device, &call)) return false;
    ls_view_set_contiguous(&zero->view, LS_SHAPE(1));
    return ls_raw_copy(wide, zero) && ls_raw_add(run->finite.trace, run->finite.trace, wide);
}

bool ls_finite_look(ls_run *run, ls_tensor *number)
{
    ls_device *device = number->storage->device;
    if (ls_device_is_host(device)) return isfinite(ls_item(number));
    if (run->finite.trace && run->finite.trace->storage->device != device) return true;
    ls_mark mark = ls_scope_begin(run);
    leave_trace(run, number);
    ls_scope_end(run, mark, NULL);
    return true;
}

bool ls_finite_late(ls_run *run)
{
    if (!run->finite.trace || ls_failed(run) || isfinite(ls_item(run->finite.trace))) return false;
    return ls_raw_fill(run->finite.trace, 0) && !ls_failed(run);
}

void ls_finite_note(ls_run *run, const char *what, int64_t step, int rank)
{
    ls_finite *f = &run->finite;
    if (step != f->last || !f->steps) f->steps++;
    f->last = step;
    if (f->first) return;
    f->first = step;
    if (run->reducer && run->share.rank != 0) return; /* one line for all who train together */
    char process[32] = "";
    if (run->share.world > 1) snprintf(process, sizeof process, " in process %d", rank);
    ls_log_line(LS_LOG_WARN,
                "step %lld: %s is not finite%s; training goes on, and ls_finish() counts such steps. "
                "LOCKSTEP_CHECK_FINITE=1 names the operator it comes from",
                (long long)step, what, process);
}

/* ---- searched for ---- */

void ls_finite_clear(ls_run *run)
{
    ls_release(run->finite.trace);
    run->finite.trace = NULL;
}

static double value_at(ls_dtype dtype, const char *data, int64_t i)
{
    switch (dtype) {
    case LS_F16: return (double)ls_f16_to_f32(((const ls_f16 *)(const void *)data)[i]);
    case LS_BF16: return (double)ls_bf16_to_f32(((const ls_bf16 *)(const void *)data)[i]);
    case LS_F32: return (double)((const float *)(const void *)data)[i];
    default: return ((const double *)(const void *)data)[i];
    }
}

/* "[0,3]" of an element counted in row-major order. */
static void name_place(const ls_operand *x, int64_t i, char *to, size_t size)
{
    int64_t index[LS_MAX_DIMS];
    for (int d = x->ndim - 1; d >= 0; d--) {
        index[d] = i % x->dim[d];
        i /= x->dim[d];
    }
    size_t used = (size_t)snprintf(to, size, "[");
    for (int d = 0; d < x->ndim && used < size; d++)
        used += (size_t)snprintf(to + used, size - used, "%s%lld", d ? "," : "", (long long)index[d]);
    if (used < size) snprintf(to + used, size - used, "]");
}

bool ls_find_not_finite(ls_tensor *t, ls_not_finite *found)
{
    ls_dtype dtype = t->view.dtype;
    int64_t n = ls_view_numel(&t->view);
    if (!ls_dtype_is_float(dtype) || n == 0) return false;
    size_t bytes = (size_t)n * ls_dtype_size(dtype);
    char *data = ls_sys_alloc(bytes);
    if (!data || !ls_read(t, data, bytes)) return ls_sys_free(data), false;
    int64_t first = -1;
    bool is_nan = false;
    for (int64_t i = 0; i < n && !is_nan; i++) {
        double value = value_at(dtype, data, i);
        if (isfinite(value)) continue;
        if (first < 0) first = i;
        is_nan = isnan(value);
    }
    if (first >= 0) {
        *found = (ls_not_finite){.value = value_at(dtype, data, first), .is_nan = is_nan};
        name_place(&t->view, first, found->at, sizeof found->at);
    }
    ls_sys_free(data);
    return first >= 0;
}
