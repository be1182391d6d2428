/* live.c - pass numbers to devices that want them as operands. */
#include "tensor/live.h"

#include <string.h>

/* There is no u64 among the number types: i64 holds the same bits. */
static ls_tensor *put(ls_run *run, ls_device *device, ls_dtype dtype, const void *numbers, int count)
{
    ls_message why = {{0}};
    ls_tensor *t = ls_tensor_new(run, device, dtype, LS_SHAPE(count));
    if (!ls_is_valid(t)) return t;
    ls_status status = ls_device_put(device, t->view.data, numbers, (size_t)count * ls_dtype_size(dtype), &why);
    return status ? LS_POISON(run, status, "%s", why.text) : t;
}

/* ---- numbers of calls ---- */

static bool begin_numbers(ls_run *run, ls_device *device, const double *number, int count)
{
    ls_live *live = &run->live;
    ls_release(live->numbers);
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *numbers = put(run, device, LS_F64, number, count);
    live->numbers = ls_is_valid(numbers) ? ls_alias_owned(numbers) : NULL;
    live->count = count;
    memcpy(live->number, number, (size_t)count * sizeof *number);
    ls_scope_end(run, mark, NULL);
    return live->numbers != NULL;
}

/* Parameters mostly have the same rate, so their calls share the numbers. */
static bool has_numbers(const ls_live *live, const ls_device *device, const double *number, int count)
{
    return live->numbers && live->numbers->storage->device == device && live->count == count &&
           memcmp(live->number, number, (size_t)count * sizeof *number) == 0;
}

bool ls_submit_live(ls_run *run, ls_device *device, ls_call *call)
{
    if (!ls_wants_live(device)) return ls_submit(run, device, call);
    double number[LS_LIVE_MOST];
    int count = ls_call_take_live(call, number);
    if (!has_numbers(&run->live, device, number, count) && !begin_numbers(run, device, number, count)) return false;
    call->live = &run->live.numbers->view;
    return ls_submit(run, device, call);
}

/* ---- beginnings ---- */

ls_tensor *ls_on_host_like(const ls_tensor *t, ls_dtype dtype)
{
    ls_device *cpu = ls_device_named(t->run, "cpu");
    return cpu ? ls_tensor_new(t->run, cpu, dtype, ls_view_shape(&t->view)) : &t->run->poison;
}

/* Equal numbers need no order: they are copied as they are to every tensor without gaps. */
static bool begin_with(ls_tensor *t, const ls_tensor *equal)
{
    size_t bytes = (size_t)ls_view_numel(&t->view) * ls_dtype_size(t->view.dtype);
    if (bytes == 0 || !ls_view_dense(&t->view)) return ls_write(t, equal->view.data, bytes);
    ls_message why = {{0}};
    ls_status status = ls_device_upload(t->storage->device, t->view.data, equal->view.data, bytes, &why);
    if (status) ls_fail(&t->run->errors, status, "%s", *why.text ? why.text : ls_status_text(status));
    return status == LS_OK;
}

bool ls_begin_at(ls_tensor *t, double value)
{
    if (!ls_device_records(t->storage->device)) return ls_raw_fill(t, value);
    ls_mark mark = ls_scope_begin(t->run);
    ls_tensor *filled = ls_on_host_like(t, t->view.dtype);
    bool ok = ls_is_valid(filled) && ls_raw_fill(filled, value) && begin_with(t, filled);
    ls_scope_end(t->run, mark, NULL);
    return ok;
}

/* ---- random numbers ---- */

static bool counts_from(const ls_live *live, const ls_run *run, const ls_device *device)
{
    return live->drawn && live->drawn->storage->device == device && live->seed == run->random.seed &&
           live->offset <= run->random.offset;
}

static bool begin_drawing(ls_run *run, ls_device *device)
{
    ls_live *live = &run->live;
    ls_release(live->drawn);
    live->seed = run->random.seed;
    live->offset = run->random.offset;
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *drawn = put(run, device, LS_I64, (uint64_t[]){live->seed, live->offset}, 2);
    live->drawn = ls_is_valid(drawn) ? ls_alias_owned(drawn) : NULL;
    ls_scope_end(run, mark, NULL);
    return live->drawn != NULL;
}

ls_tensor *ls_draw(ls_run *run, ls_device *device, int64_t n, uint64_t *seed, uint64_t *offset)
{
    bool live = ls_wants_live(device);
    if (live && !counts_from(&run->live, run, device) && !begin_drawing(run, device)) return &run->poison;
    *seed = live ? 0 : run->random.seed;
    *offset = run->random.offset - (live ? run->live.offset : 0);
    run->random.offset += ((uint64_t)n + 3) / 4;
    return live ? run->live.drawn : NULL;
}

void ls_live_free(ls_run *run)
{
    ls_release(run->live.drawn);
    ls_release(run->live.numbers);
    run->live = (ls_live){0};
}

/* ---- steps ---- */

void ls_step_mark(ls_run *run, ls_mark_kind mark)
{
    ls_message why = {{0}};
    ls_live_free(run);
    if (!run->device || ls_failed(run)) return;
    ls_status status = ls_device_mark(run->device, mark, &why);
    if (status) ls_fail(&run->errors, status, "%s", why.text);
}
