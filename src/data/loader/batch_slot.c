/* batch_slot.c - one batch that is being assembled: its memory, and how it becomes tensors. */
#include "data/loader/batch_slot.h"

#include <string.h>

#include "base/half.h"
#include "base/memory.h"

/* ---- memory ---- */

static ls_shape batch_shape(ls_shape sample, int64_t size)
{
    ls_shape shape = {.ndim = sample.ndim + 1, .dim = {size}};
    for (int d = 0; d < sample.ndim; d++) shape.dim[d + 1] = sample.dim[d];
    return shape;
}

ls_tensor *ls_field_tensor(ls_run *run, const ls_field *field, ls_shape shape)
{
    ls_storage *storage = ls_storage_new(run, run->device, (size_t)ls_shape_numel(shape) * ls_dtype_size(field->dtype));
    if (!storage) return NULL;
    ls_tensor *t = ls_handle_new_owned(run);
    if (!t) return ls_storage_release(run, storage), NULL;
    ls_storage_show(storage, t);
    t->view.data = storage->block ? storage->block->address : NULL;
    t->view.dtype = field->dtype;
    ls_view_set_contiguous(&t->view, shape);
    if (field->image) { /* [N,C,H,W], channels last in memory */
        t->view.stride[1] = 1;
        t->view.stride[2] = shape.dim[3] * shape.dim[1];
        t->view.stride[3] = shape.dim[1];
    }
    return t;
}

static bool out_of_memory(ls_run *run, size_t bytes)
{
    ls_fail(&run->errors, LS_ERR_MEMORY, "loader: no memory for a batch (%zu bytes); use a smaller batch", bytes);
    return false;
}

/* Grow an array of the slot to hold `room` elements, new ones zero. */
static bool grow(ls_run *run, void *array, int64_t from, int64_t room, size_t element)
{
    void *old, *grown;
    memcpy(&old, array, sizeof old);
    grown = ls_sys_realloc(old, (size_t)room * element);
    if (!grown) return out_of_memory(run, (size_t)room * element);
    memset((char *)grown + (size_t)from * element, 0, (size_t)(room - from) * element);
    memcpy(array, &grown, sizeof grown);
    return true;
}

static bool grow_pinned(ls_run *run, ls_batch_slot *slot, int field, size_t bytes)
{
    if (bytes <= slot->pinned_bytes[field]) return true;
    ls_device_host_release(run->device, slot->pinned[field], slot->pinned_bytes[field]);
    slot->pinned_bytes[field] = 0;
    slot->pinned[field] = ls_device_host_alloc(run->device, bytes);
    if (!slot->pinned[field]) return out_of_memory(run, bytes);
    slot->pinned_bytes[field] = bytes;
    return true;
}

static bool prepare_lists(ls_run *run, ls_batch_slot *slot, const ls_reading *reading, int64_t size)
{
    slot->size = slot->count = size;
    slot->issued = slot->done = slot->bad = 0;
    slot->failed_at = slot->bad_at = -1;
    slot->status = LS_OK;
    if (size <= slot->room) return true;
    if (!grow(run, &slot->index, slot->room, size, sizeof *slot->index)) return false;
    if (!grow(run, &slot->place, slot->room, size, sizeof *slot->place)) return false;
    for (int i = 0; i < reading->field_count; i++)
        if ((!reading->bytes[i] || reading->as_bytes[i]) &&
            !grow(run, &slot->cells[i], slot->room, size, sizeof *slot->cells[i]))
            return false;
    slot->room = size;
    return true;
}

bool ls_batch_slot_prepare(ls_run *run, ls_batch_slot *slot, const ls_reading *reading, int64_t size)
{
    ls_message why = {{0}};
    if (slot->copying && ls_device_event_wait(run->device, slot->event, &why))
        return ls_fail(&run->errors, LS_ERR_DEVICE, "loader: %s", why.text), false;
    slot->copying = false;
    if (!prepare_lists(run, slot, reading, size)) return false;
    bool host = ls_device_is_host(run->device);
    for (int i = 0; i < reading->field_count; i++) {
        const ls_field *field = &reading->fields[i];
        if (!reading->bytes[i]) continue;
        if (host) {
            slot->tensor[i] = ls_field_tensor(run, field, batch_shape(ls_field_shape(field), size));
            if (!slot->tensor[i]) return ls_batch_slot_forget(slot), false;
            slot->fixed[i] = slot->tensor[i]->view.data;
        } else {
            if (!grow_pinned(run, slot, i, (size_t)size * reading->bytes[i])) return false;
            slot->fixed[i] = slot->pinned[i];
        }
    }
    return true;
}

bool ls_batch_slot_prepare_plain(ls_run *run, ls_batch_slot *slot, const ls_reading *reading, int64_t size)
{
    if (!prepare_lists(run, slot, reading, size)) return false;
    for (int i = 0; i < reading->field_count; i++) {
        if (!reading->bytes[i]) continue;
        if (!grow_pinned(run, slot, i, (size_t)size * reading->bytes[i])) return false;
        slot->fixed[i] = slot->pinned[i];
    }
    return true;
}

void ls_batch_slot_point(const ls_batch_slot *slot, const ls_reading *reading, int64_t j, ls_sample *sample)
{
    sample->reading = reading;
    for (int i = 0; i < reading->field_count; i++) {
        sample->cells[i] = slot->cells[i] ? &slot->cells[i][j] : NULL;
        sample->fixed[i] = reading->bytes[i] ? slot->fixed[i] + (size_t)j * reading->bytes[i] : NULL;
    }
}

bool ls_batch_slot_copy(const ls_batch_slot *slot, const ls_reading *reading, int64_t j, const ls_batch_slot *source,
                        int64_t from, ls_sample *sample)
{
    ls_batch_slot_point(slot, reading, j, sample);
    sample->status = LS_OK;
    for (int i = 0; i < reading->field_count; i++) {
        const ls_field *field = &reading->fields[i];
        if (reading->bytes[i])
            memcpy(sample->fixed[i], source->fixed[i] + (size_t)from * reading->bytes[i], reading->bytes[i]);
        if (!source->cells[i]) continue;
        const ls_cell *cell = &source->cells[i][from];
        sample->cells[i]->shape.ndim = -1;
        if (cell->shape.ndim < 0) continue;
        void *to = ls_sample_resize(sample, i, cell->shape);
        if (!to) return false;
        memcpy(to, cell->data, (size_t)ls_shape_numel(cell->shape) * ls_dtype_size(field->dtype));
    }
    return true;
}

void ls_batch_slot_forget(ls_batch_slot *slot)
{
    ls_message ignored;
    if (slot->uploaded) ls_device_uploads_join(slot->tensor[0]->storage->device, slot->event, &ignored);
    slot->uploaded = false;
    for (int i = 0; i < LS_MAX_FIELDS; i++) {
        ls_release(slot->tensor[i]);
        slot->tensor[i] = NULL;
    }
}

void ls_batch_slot_clear(ls_run *run, ls_batch_slot *slot)
{
    ls_batch_slot_forget(slot);
    ls_message ignored;
    if (slot->copying) ls_device_event_wait(run->device, slot->event, &ignored);
    ls_device_event_free(run->device, slot->event);
    for (int i = 0; i < LS_MAX_FIELDS; i++) {
        ls_device_host_release(run->device, slot->pinned[i], slot->pinned_bytes[i]);
        for (int64_t j = 0; slot->cells[i] && j < slot->room; j++) ls_sys_free(slot->cells[i][j].data);
        ls_sys_free(slot->cells[i]);
    }
    ls_sys_free(slot->index);
    ls_sys_free(slot->place);
    *slot = (ls_batch_slot){0};
}

/* ---- samples of varying sizes ---- */

static size_t element_of(ls_dtype dtype, double value, void *element)
{
    switch (dtype) {
    case LS_BOOL: *(uint8_t *)element = value != 0; break;
    case LS_U8: *(uint8_t *)element = (uint8_t)value; break;
    case LS_I8: *(int8_t *)element = (int8_t)value; break;
    case LS_I32: *(int32_t *)element = (int32_t)value; break;
    case LS_I64: *(int64_t *)element = (int64_t)value; break;
    case LS_F16: *(ls_f16 *)element = ls_f16_from_f32((float)value); break;
    case LS_BF16: *(ls_bf16 *)element = ls_bf16_from_f32((float)value); break;
    case LS_F32: *(float *)element = (float)value; break;
    case LS_F64: *(double *)element = value; break;
    case LS_DTYPE_NONE:
    case LS_DTYPE_COUNT: break;
    }
    return ls_dtype_size(dtype);
}

static void fill(char *to, size_t bytes, ls_dtype dtype, double value)
{
    if (value == 0) {
        memset(to, 0, bytes);
        return;
    }
    double room;
    size_t step = element_of(dtype, value, &room);
    for (size_t i = 0; i < bytes; i += step) memcpy(to + i, &room, step);
}

/* Copy a block of shape `from` into the corner of an already padded block of shape `to`: dimension d and inner ones. */
static void copy_block(char *to, const char *data, ls_shape to_shape, ls_shape shape, int d, size_t element)
{
    if (d == shape.ndim) {
        memcpy(to, data, element);
        return;
    }
    size_t to_step = element, step = element;
    bool inner_alike = true;
    for (int e = d + 1; e < shape.ndim; e++) {
        inner_alike = inner_alike && shape.dim[e] == to_shape.dim[e];
        to_step *= (size_t)to_shape.dim[e];
        step *= (size_t)shape.dim[e];
    }
    if (inner_alike) {
        memcpy(to, data, (size_t)shape.dim[d] * step);
        return;
    }
    for (int64_t i = 0; i < shape.dim[d]; i++)
        copy_block(to + (size_t)i * to_step, data + (size_t)i * step, to_shape, shape, d + 1, element);
}

static int64_t padded(int64_t size, ls_rounding rounding)
{
    int64_t rounded = (size + rounding.multiple - 1) / rounding.multiple * rounding.multiple;
    if (!rounding.most || rounded <= rounding.most) return rounded;
    return size > rounding.most ? size : rounding.most;
}

static ls_shape largest(const ls_cell *cells, int64_t count, const ls_field *field, ls_rounding rounding)
{
    ls_shape most = ls_field_shape(field);
    for (int d = 0; d < most.ndim; d++)
        if (most.dim[d] == LS_ANY) most.dim[d] = 0;
    for (int64_t j = 0; j < count; j++)
        for (int d = 0; d < most.ndim; d++)
            if (cells[j].shape.dim[d] > most.dim[d]) most.dim[d] = cells[j].shape.dim[d];
    for (int d = 0; d < most.ndim; d++)
        if (field->shape[d] == LS_ANY) most.dim[d] = padded(most.dim[d], rounding);
    return most;
}

/* Combine the cells, padded to the largest; the result is slot->tensor[i], or in pinned memory. */
static bool gather_cells(ls_run *run, ls_batch_slot *slot, const ls_reading *reading, int i, ls_shape *shape)
{
    const ls_field *field = &reading->fields[i];
    const ls_cell *cells = slot->cells[i];
    ls_shape most = largest(cells, slot->count, field, reading->rounding);
    size_t element = ls_dtype_size(field->dtype), bytes = (size_t)ls_shape_numel(most) * element;
    *shape = batch_shape(most, slot->count);
    char *to;
    if (ls_device_is_host(run->device)) {
        slot->tensor[i] = ls_field_tensor(run, field, *shape);
        if (!slot->tensor[i]) return false;
        to = slot->tensor[i]->view.data;
    } else {
        if (!grow_pinned(run, slot, i, (size_t)slot->count * bytes)) return false;
        to = slot->pinned[i];
    }
    for (int64_t j = 0; bytes && j < slot->count; j++, to += bytes) {
        if (!ls_shape_equal(cells[j].shape, most)) fill(to, bytes, field->dtype, field->pad);
        if (ls_shape_numel(cells[j].shape)) copy_block(to, cells[j].data, most, cells[j].shape, 0, element);
    }
    return true;
}

/* ---- delivery ---- */

/* Start the copy of a field to the device, into slot->tensor[i]. */
static bool upload(ls_run *run, ls_batch_slot *slot, const ls_reading *reading, int i, ls_shape shape)
{
    ls_message why = {{0}};
    ls_field field = reading->fields[i];
    if (reading->as_bytes[i]) field.dtype = LS_U8;
    slot->tensor[i] = ls_field_tensor(run, &field, shape);
    if (!slot->tensor[i]) return false;
    size_t bytes = (size_t)ls_shape_numel(shape) * ls_dtype_size(field.dtype);
    ls_status status = ls_device_upload_begin(run->device, slot->tensor[i]->view.data, slot->pinned[i], bytes, &why);
    slot->copying = true;
    if (status) ls_fail(&run->errors, status, "loader: %s", why.text[0] ? why.text : ls_status_text(status));
    return status == LS_OK;
}

/* Combine the fields and start their copies to the device; the slot's event signals their completion. */
static bool begin_delivery(ls_run *run, ls_batch_slot *slot, const ls_reading *reading)
{
    bool host = ls_device_is_host(run->device);
    for (int i = 0; i < reading->field_count; i++) {
        ls_shape shape = batch_shape(ls_field_shape(&reading->fields[i]), slot->count);
        if (!reading->bytes[i] && !gather_cells(run, slot, reading, i, &shape)) return false;
        if (!host && !upload(run, slot, reading, i, shape)) return false;
    }
    ls_message why = {{0}};
    if (!host && ls_device_uploads_note(run->device, &slot->event, &why))
        return ls_fail(&run->errors, LS_ERR_DEVICE, "loader: %s", why.text), false;
    return true;
}

/* No event covers copies that have started: wait for them, since they read memory that will be freed. */
static void give_up_delivery(ls_run *run, ls_batch_slot *slot)
{
    ls_message ignored;
    if (slot->copying && !ls_device_uploads_note(run->device, &slot->event, &ignored))
        ls_device_event_wait(run->device, slot->event, &ignored);
    slot->copying = false;
}

void ls_batch_slot_upload_ahead(ls_run *run, ls_batch_slot *slot, const ls_reading *reading)
{
    if (ls_device_is_host(run->device) || slot->uploaded || ls_failed(run)) return;
    slot->uploaded = begin_delivery(run, slot, reading);
    if (slot->uploaded) return;
    give_up_delivery(run, slot);
    ls_batch_slot_forget(slot);
    if (run->errors.code == LS_ERR_MEMORY) ls_errors_clear(&run->errors); /* there may be memory when it is needed */
}

bool ls_batch_slot_deliver(ls_run *run, ls_batch_slot *slot, const ls_reading *reading, ls_tensor **tensors)
{
    ls_message why = {{0}};
    if (!slot->uploaded && !begin_delivery(run, slot, reading)) return give_up_delivery(run, slot), false;
    slot->uploaded = false;
    if (slot->copying && ls_device_uploads_join(run->device, slot->event, &why))
        return ls_fail(&run->errors, LS_ERR_DEVICE, "loader: %s", why.text), false;
    for (int i = 0; i < reading->field_count; i++)
        if (reading->as_bytes[i] && !ls_batch_slot_widen(run, slot, reading, i))
            return give_up_delivery(run, slot), false;
    for (int i = 0; i < reading->field_count; i++) {
        tensors[i] = slot->tensor[i];
        slot->tensor[i] = NULL;
        tensors[i]->view.dim[0] = slot->count;
        ls_handle_to_scope(run, tensors[i]);
    }
    return true;
}
