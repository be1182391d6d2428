/* slot.c - one batch in the making: its memory, and how it becomes tensors. */
#include "data/slot.h"

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

/* A tensor that no scope owns; NULL (and an error) when memory is out. */
static ls_tensor *owned_tensor(ls_run *run, ls_dtype dtype, ls_shape shape)
{
    ls_storage *storage = ls_storage_new(run, run->device, (size_t)ls_shape_numel(shape) * ls_dtype_size(dtype));
    if (!storage) return NULL;
    ls_tensor *t = ls_handle_new_owned(run);
    if (!t) return ls_storage_release(run, storage), NULL;
    t->storage = storage;
    t->view.data = storage->block ? storage->block->address : NULL;
    t->view.dtype = dtype;
    ls_view_set_contiguous(&t->view, shape);
    return t;
}

static bool out_of_memory(ls_run *run, size_t bytes)
{
    ls_fail(&run->errors, LS_ERR_MEMORY, "loader: no memory for a batch (%zu bytes); a smaller batch needs less",
            bytes);
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

static bool grow_pinned(ls_run *run, ls_slot *slot, int field, size_t bytes)
{
    if (bytes <= slot->pinned_bytes[field]) return true;
    ls_device_host_release(run->device, slot->pinned[field], slot->pinned_bytes[field]);
    slot->pinned_bytes[field] = 0;
    slot->pinned[field] = ls_device_host_alloc(run->device, bytes);
    if (!slot->pinned[field]) return out_of_memory(run, bytes);
    slot->pinned_bytes[field] = bytes;
    return true;
}

bool ls_slot_prepare(ls_run *run, ls_slot *slot, const ls_field *fields, int field_count, int64_t size)
{
    ls_message why = {{0}};
    if (slot->copying && ls_device_event_wait(run->device, slot->event, &why)) {
        ls_fail(&run->errors, LS_ERR_DEVICE, "loader: %s", why.text);
        return false;
    }
    slot->copying = false;
    if (size > slot->room) {
        if (!grow(run, &slot->index, slot->room, size, sizeof *slot->index)) return false;
        if (!grow(run, &slot->place, slot->room, size, sizeof *slot->place)) return false;
        for (int i = 0; i < field_count; i++)
            if (ls_field_varies(&fields[i]) && !grow(run, &slot->cells[i], slot->room, size, sizeof *slot->cells[i]))
                return false;
        slot->room = size;
    }
    bool host = ls_device_is_host(run->device);
    for (int i = 0; i < field_count; i++) {
        if (ls_field_varies(&fields[i])) continue;
        if (host) {
            slot->tensor[i] = owned_tensor(run, fields[i].dtype, batch_shape(ls_field_shape(&fields[i]), size));
            if (!slot->tensor[i]) return ls_slot_forget(slot), false;
            slot->fixed[i] = slot->tensor[i]->view.data;
        } else {
            if (!grow_pinned(run, slot, i, (size_t)size * ls_field_bytes(&fields[i]))) return false;
            slot->fixed[i] = slot->pinned[i];
        }
    }
    slot->size = size;
    slot->issued = slot->done = slot->bad = 0;
    slot->failed_at = slot->bad_at = -1;
    slot->status = LS_OK;
    return true;
}

void ls_slot_forget(ls_slot *slot)
{
    for (int i = 0; i < LS_MAX_FIELDS; i++) {
        ls_release(slot->tensor[i]);
        slot->tensor[i] = NULL;
    }
}

void ls_slot_clear(ls_run *run, ls_slot *slot)
{
    ls_slot_forget(slot);
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
    *slot = (ls_slot){0};
}

/* ---- samples whose sizes vary ---- */

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

/* Copy a block of shape `from` into the corner of one of shape `to` that is already filled, dimension d and inner ones. */
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

static ls_shape largest(const ls_cell *cells, int64_t count, const ls_field *field)
{
    ls_shape most = ls_field_shape(field);
    for (int d = 0; d < most.ndim; d++)
        if (most.dim[d] == LS_ANY) most.dim[d] = 0;
    for (int64_t j = 0; j < count; j++)
        for (int d = 0; d < most.ndim; d++)
            if (cells[j].shape.dim[d] > most.dim[d]) most.dim[d] = cells[j].shape.dim[d];
    return most;
}

/* Put the cells together, padded to the largest; the result is slot->tensor[i], or in pinned memory. */
static bool gather_cells(ls_run *run, ls_slot *slot, const ls_field *field, int i, ls_shape *shape)
{
    const ls_cell *cells = slot->cells[i];
    ls_shape most = largest(cells, slot->size, field);
    size_t element = ls_dtype_size(field->dtype), bytes = (size_t)ls_shape_numel(most) * element;
    *shape = batch_shape(most, slot->size);
    char *to;
    if (ls_device_is_host(run->device)) {
        slot->tensor[i] = owned_tensor(run, field->dtype, *shape);
        if (!slot->tensor[i]) return false;
        to = slot->tensor[i]->view.data;
    } else {
        if (!grow_pinned(run, slot, i, (size_t)slot->size * bytes)) return false;
        to = slot->pinned[i];
    }
    for (int64_t j = 0; bytes && j < slot->size; j++, to += bytes) {
        if (!ls_shape_equal(cells[j].shape, most)) fill(to, bytes, field->dtype, field->pad);
        if (ls_shape_numel(cells[j].shape)) copy_block(to, cells[j].data, most, cells[j].shape, 0, element);
    }
    return true;
}

/* ---- delivery ---- */

/* Start the copy of a field to the device, into slot->tensor[i]. */
static bool upload(ls_run *run, ls_slot *slot, const ls_field *field, int i, ls_shape shape)
{
    ls_message why = {{0}};
    slot->tensor[i] = owned_tensor(run, field->dtype, shape);
    if (!slot->tensor[i]) return false;
    size_t bytes = (size_t)ls_shape_numel(shape) * ls_dtype_size(field->dtype);
    ls_status status = ls_device_upload_begin(run->device, slot->tensor[i]->view.data, slot->pinned[i], bytes, &why);
    slot->copying = true;
    if (status) ls_fail(&run->errors, status, "loader: %s", why.text[0] ? why.text : ls_status_text(status));
    return status == LS_OK;
}

bool ls_slot_deliver(ls_run *run, ls_slot *slot, const ls_field *fields, int field_count, ls_tensor **tensors)
{
    bool host = ls_device_is_host(run->device);
    for (int i = 0; i < field_count; i++) {
        ls_shape shape = batch_shape(ls_field_shape(&fields[i]), slot->size);
        if (slot->cells[i] && !gather_cells(run, slot, &fields[i], i, &shape)) return false;
        if (!host && !upload(run, slot, &fields[i], i, shape)) return false;
    }
    ls_message why = {{0}};
    if (!host && ls_device_event_record(run->device, &slot->event, &why)) {
        ls_fail(&run->errors, LS_ERR_DEVICE, "loader: %s", why.text);
        return false;
    }
    for (int i = 0; i < field_count; i++) {
        tensors[i] = slot->tensor[i];
        slot->tensor[i] = NULL;
        ls_handle_to_scope(run, tensors[i]);
    }
    return true;
}
