/* sample.c - the functions that a dataset's callback can use on its sample. */
#include "data/datasets/sample.h"

#include <stdarg.h>
#include <string.h>

#include "base/memory.h"
#include "data/image/image.h"
#include "data/random.h"

/* ---- requesting a sample ---- */

static void begin(ls_sample *sample)
{
    const ls_reading *reading = sample->reading;
    sample->status = LS_OK;
    sample->why.text[0] = 0;
    sample->draws = 0;
    for (int i = 0; i < reading->field_count; i++)
        if (sample->cells[i]) sample->cells[i]->shape.ndim = -1;
}

/* Fields with varying sizes must have been given one. */
static bool is_complete(ls_sample *sample)
{
    for (int i = 0; i < sample->reading->field_count; i++)
        if (!sample->reading->bytes[i] && sample->cells[i]->shape.ndim < 0)
            return ls_sample_fail(sample, LS_ERR_STATE,
                                  "ls_sample_resize() was not called for \"%s\", whose sizes vary",
                                  sample->reading->fields[i].name);
    return true;
}

bool ls_sample_get(ls_sample *sample, const ls_dataset *set, int64_t index)
{
    begin(sample);
    if (set->get(index, sample, set->user)) return sample->status == LS_OK && is_complete(sample);
    return ls_sample_fail(sample, LS_ERR_STATE, "get returned false without calling ls_sample_fail() with a reason");
}

bool ls_sample_next(ls_sample *sample, const ls_dataset *set)
{
    begin(sample);
    return set->next(sample, set->user) && sample->status == LS_OK && (sample->not_needed || is_complete(sample));
}

void ls_sample_clear(ls_sample *sample)
{
    ls_sys_free(sample->scratch);
    sample->scratch = NULL;
    sample->scratch_bytes = 0;
}

/* ---- writing it ---- */

static const ls_field *field_of(ls_sample *sample, int field, const char *who)
{
    if (!sample) return NULL;
    if (field >= 0 && field < sample->reading->field_count) return &sample->reading->fields[field];
    ls_sample_fail(sample, LS_ERR_VALUE, "%s: field %d of %d", who, field, sample->reading->field_count);
    return NULL;
}

/* Memory for a sample of this shape in its cell. */
static void *room_in_cell(ls_sample *sample, int field, ls_shape shape)
{
    ls_cell *cell = sample->cells[field];
    size_t bytes = (size_t)ls_shape_numel(shape) * ls_dtype_size(sample->reading->fields[field].dtype);
    if (bytes > cell->room || !cell->data) {
        /* Half as much again: lengths vary a little from sample to sample, and soon nothing has to grow. */
        size_t room = bytes + bytes / 2 + 64;
        void *data = ls_sys_realloc(cell->data, room);
        if (!data) return ls_sample_fail(sample, LS_ERR_MEMORY, "no memory for a sample of %zu bytes", bytes), NULL;
        cell->data = data;
        cell->room = room;
    }
    cell->shape = shape;
    return cell->data;
}

/* Is this image copied to the device as bytes only? Not if the program asked for its numbers. */
static bool is_bytes(const ls_sample *sample, int field)
{
    return sample->reading->as_bytes[field] && sample->cells[field]->shape.ndim < 0;
}

/* Memory of a field of fixed size, in the batch's number type. */
static void *numbers_of(ls_sample *sample, int field)
{
    const ls_reading *reading = sample->reading;
    if (!reading->as_bytes[field]) return sample->fixed[field];
    if (!is_bytes(sample, field)) return sample->cells[field]->data;
    float *numbers = room_in_cell(sample, field, ls_field_shape(&reading->fields[field]));
    if (numbers) ls_transform_widen(reading->transform, sample->fixed[field], (int64_t)reading->bytes[field], numbers);
    return numbers;
}

void *ls_sample_field(ls_sample *sample, int field)
{
    const ls_field *f = field_of(sample, field, "ls_sample_field");
    if (!f) return NULL;
    if (!sample->fixed[field] && sample->cells[field]->shape.ndim >= 0) return sample->cells[field]->data;
    if (!sample->fixed[field])
        ls_sample_fail(sample, LS_ERR_STATE, "ls_sample_field: the size of \"%s\" varies; use ls_sample_resize()",
                       f->name);
    return sample->fixed[field] ? numbers_of(sample, field) : NULL;
}

ls_shape ls_sample_shape(const ls_sample *sample, int field)
{
    if (!sample || field < 0 || field >= sample->reading->field_count) return LS_SCALAR;
    bool varies = !sample->fixed[field] && sample->cells[field]->shape.ndim >= 0;
    return varies ? sample->cells[field]->shape : ls_field_shape(&sample->reading->fields[field]);
}

void *ls_sample_resize(ls_sample *sample, int field, ls_shape shape)
{
    const ls_field *f = field_of(sample, field, "ls_sample_resize");
    if (!f) return NULL;
    ls_shape declared = ls_field_shape(f);
    int64_t numel = ls_shape_numel(shape);
    bool fits = shape.ndim == declared.ndim && numel >= 0 && numel <= INT64_MAX / 16;
    for (int d = 0; fits && d < shape.ndim; d++) fits = declared.dim[d] == LS_ANY || declared.dim[d] == shape.dim[d];
    if (!fits) {
        char given[LS_TEXT], wanted[LS_TEXT];
        ls_sample_fail(sample, LS_ERR_SHAPE, "ls_sample_resize: %s for field \"%s\" of %s", ls_shape_text(shape, given),
                       f->name, ls_shape_text(declared, wanted));
        return NULL;
    }
    return sample->fixed[field] ? numbers_of(sample, field) : room_in_cell(sample, field, shape);
}

void *ls_sample_scratch(ls_sample *sample, size_t bytes)
{
    if (!sample) return NULL;
    if (bytes > sample->scratch_bytes || !sample->scratch) {
        size_t room = bytes + bytes / 2 + 4096;
        ls_sample_clear(sample); /* no need to keep the contents */
        sample->scratch = ls_sys_alloc(room);
        if (!sample->scratch)
            return ls_sample_fail(sample, LS_ERR_MEMORY, "no memory for %zu bytes of scratch", bytes), NULL;
        sample->scratch_bytes = room;
    }
    return sample->scratch;
}

/* ---- images ---- */

static const ls_field *picture_of(ls_sample *sample, int field, const char *who)
{
    const ls_field *f = field_of(sample, field, who);
    if (!f || f->image) return f;
    ls_sample_fail(sample, LS_ERR_STATE, "%s: field \"%s\" is not an image; declare it with .image = true", who,
                   f->name);
    return NULL;
}

/* Where the transformed picture goes. */
static ls_image_out place_of(ls_sample *sample, int field)
{
    const ls_field *f = &sample->reading->fields[field];
    bool as_bytes = is_bytes(sample, field);
    return (ls_image_out){.memory = as_bytes ? sample->fixed[field] : numbers_of(sample, field),
                          .bytes = as_bytes,
                          .height = f->shape[1],
                          .width = f->shape[2]};
}

bool ls_sample_image(ls_sample *sample, int field, const void *bytes, size_t size)
{
    const ls_field *f = picture_of(sample, field, "ls_sample_image");
    if (!f || sample->not_needed) return f != NULL;
    if (!bytes) return ls_sample_fail(sample, LS_ERR_VALUE, "ls_sample_image: the file of \"%s\" is NULL", f->name);
    ls_image_out out = place_of(sample, field);
    const uint64_t random[2] = {sample->reading->transform_key, (uint64_t)sample->place};
    ls_message why = {{0}};
    ls_status status = ls_image_decode_transform(bytes, size, sample->reading->transform, random, out, &why);
    return status ? ls_sample_fail(sample, status, "%s", why.text) : true;
}

static bool transform_pixels(ls_sample *sample, int field, const uint8_t *pixels)
{
    const ls_field *given = &sample->reading->declared[field];
    ls_image_out out = place_of(sample, field);
    const uint64_t random[2] = {sample->reading->transform_key, (uint64_t)sample->place};
    ls_message why = {{0}};
    ls_status status = ls_image_transform_pixels(pixels, given->shape[1], given->shape[2], given->shape[0],
                                                 sample->reading->transform, random, out, &why);
    return status ? ls_sample_fail(sample, status, "%s", why.text) : true;
}

bool ls_sample_pixels(ls_sample *sample, int field, const uint8_t *pixels)
{
    const ls_field *f = picture_of(sample, field, "ls_sample_pixels");
    if (!f || sample->not_needed) return f != NULL;
    if (!pixels)
        return ls_sample_fail(sample, LS_ERR_VALUE, "ls_sample_pixels: the pixels of \"%s\" are NULL", f->name);
    if (!sample->reading->declared[field].shape[0])
        return ls_sample_fail(sample, LS_ERR_STATE,
                              "ls_sample_pixels: the size of the pixels of \"%s\" is unknown; declare the field with "
                              ".shape = {channels, height, width}",
                              f->name);
    const ls_transform *t = sample->reading->transform;
    if (t && (t->count || t->normalized)) return transform_pixels(sample, field, pixels);
    int64_t count = ls_shape_numel(ls_field_shape(f));
    if (f->dtype == LS_U8) {
        memcpy(sample->fixed[field], pixels, (size_t)count);
        return true;
    }
    float *to = ls_sample_field(sample, field);
    if (!to) return false;
    for (int64_t i = 0; i < count; i++) to[i] = (float)pixels[i] / 255.0f;
    return true;
}

/* ---- random numbers, failures ---- */

uint64_t ls_sample_random(ls_sample *sample)
{
    if (!sample) return 0;
    return ls_random_bits(sample->reading->sample_key, ((uint64_t)sample->place << 24) + sample->draws++);
}

bool ls_sample_fail(ls_sample *sample, ls_status status, const char *format, ...)
{
    if (!sample || sample->status != LS_OK) return false;
    va_list args;
    va_start(args, format);
    ls_message_set_list(&sample->why, format, args);
    va_end(args);
    sample->status = status == LS_OK ? LS_ERR_STATE : status;
    return false;
}
