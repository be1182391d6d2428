/* dataset.c - datasets of a user's own, and what all kinds share: fields, classes, samples, lifetime. */
#include "data/dataset.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/opts.h"
#include "data/random.h"

/* ---- made and freed ---- */

static void clear(void *object)
{
    ls_dataset *set = object;
    for (int i = 0; i < set->base_count; i++) ls_dataset_let_go(set->bases[i]);
    if (set->release) set->release(set->user);
    for (int i = 0; i < set->field_count; i++) ls_sys_free((void *)(uintptr_t)set->fields[i].name);
    if (set->class_names)
        for (int64_t i = 0; i < set->class_count; i++) ls_sys_free(set->class_names[i]);
    ls_sys_free(set->class_names);
}

static bool field_is_sound(ls_run *run, const char *kind, const ls_field *field)
{
    if (ls_dtype_size(field->dtype) == 0)
        return ls_fail(&run->errors, LS_ERR_DTYPE, "%s: field \"%s\" has no number type; give it one with .dtype", kind,
                       field->name),
               false;
    bool ended = false;
    for (int d = 0; d < LS_MAX_DIMS; d++) {
        ended = ended || field->shape[d] == 0;
        if (field->shape[d] >= LS_ANY && (!ended || field->shape[d] == 0)) continue;
        return ls_fail(&run->errors, LS_ERR_SHAPE, "%s: size %d of field \"%s\" is %lld; sizes are positive or LS_ANY",
                       kind, d, field->name, (long long)field->shape[d]),
               false;
    }
    if (!ended)
        return ls_fail(&run->errors, LS_ERR_SHAPE,
                       "%s: field \"%s\" has %d dimensions; with the batch's there is room for %d", kind, field->name,
                       LS_MAX_DIMS, LS_MAX_DIMS - 1),
               false;
    return true;
}

ls_dataset *ls_dataset_begin(ls_run *run, const char *kind, const ls_field *fields)
{
    if (ls_failed(run)) return NULL;
    if (!fields[0].name)
        return ls_fail(&run->errors, LS_ERR_VALUE, "%s: no field is given; .fields says what a sample consists of",
                       kind),
               NULL;
    ls_dataset *set = ls_object_new(run, LS_OBJECT_DATASET, sizeof *set, clear);
    if (!set) return NULL;
    set->kind = kind;
    for (int i = 0; i < LS_MAX_FIELDS && fields[i].name; i++) {
        for (int k = 0; k < i; k++)
            if (strcmp(fields[k].name, fields[i].name) == 0)
                ls_fail(&run->errors, LS_ERR_VALUE, "%s: two fields are called \"%s\"", kind, fields[i].name);
        if (ls_failed(run) || !field_is_sound(run, kind, &fields[i])) break;
        char *name = ls_text_copy(run, fields[i].name);
        if (!name) break;
        set->fields[i] = fields[i];
        set->fields[i].name = name;
        set->field_count++;
    }
    if (!ls_failed(run)) return set;
    ls_object_free(set);
    return NULL;
}

ls_dataset *ls_dataset_sized(ls_run *run, const ls_dataset_opts *opts, size_t opts_size)
{
    ls_dataset_opts o;
    ls_opts_read(&o, sizeof o, opts, opts_size);
    if (ls_failed(run)) return NULL;
    if (!o.get || o.count < 0) {
        if (!o.get)
            ls_fail(&run->errors, LS_ERR_VALUE, "ls_dataset_new: .get is missing, the function that writes a sample");
        else ls_fail(&run->errors, LS_ERR_VALUE, "ls_dataset_new: .count = %lld samples", (long long)o.count);
        return NULL;
    }
    ls_dataset *set = ls_dataset_begin(run, "dataset", o.fields);
    if (!set) return NULL;
    if (!ls_dataset_set_classes(set, o.class_count, o.class_names)) return ls_object_free(set), NULL;
    set->count = o.count;
    set->get = o.get;
    set->user = o.user;
    set->release = o.release;
    set->on_bad = o.on_bad;
    return set;
}

void ls_dataset_hold(ls_dataset *set)
{
    set->users++;
}

void ls_dataset_let_go(ls_dataset *set)
{
    if (--set->users == 0 && set->abandoned) ls_object_free(set);
}

void ls_dataset_free(ls_dataset *set)
{
    if (!set) return;
    if (set->users) set->abandoned = true;
    else ls_object_free(set);
}

/* ---- what it is ---- */

int64_t ls_dataset_len(const ls_dataset *set)
{
    return set ? set->count : 0;
}

bool ls_dataset_set_classes(ls_dataset *set, int64_t count, const char *const *names)
{
    ls_run *run = set->object.run;
    if (count < 0) return ls_fail(&run->errors, LS_ERR_VALUE, "%s: %lld classes", set->kind, (long long)count), false;
    if (names && count) {
        set->class_names = ls_sys_alloc((size_t)count * sizeof *set->class_names);
        if (!set->class_names)
            return ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory for classes", set->kind), false;
    }
    set->class_count = count;
    for (int64_t i = 0; set->class_names && i < count; i++)
        if (!(set->class_names[i] = ls_text_copy(run, names[i] ? names[i] : ""))) return false;
    return true;
}

int64_t ls_class_count(const ls_dataset *set)
{
    while (set && set->base_count && !set->class_count) set = set->bases[0];
    return set ? set->class_count : 0;
}

const char *ls_class_name(const ls_dataset *set, int64_t label)
{
    while (set && set->base_count && !set->class_count) set = set->bases[0];
    return set && set->class_names && label >= 0 && label < set->class_count ? set->class_names[label] : "";
}

int64_t ls_class_of(const ls_dataset *set, int64_t index)
{
    return set && set->class_of && index >= 0 && index < set->count ? set->class_of(set->user, index) : -1;
}

/* ---- samples ---- */

bool ls_dataset_read(const ls_dataset *set, int64_t index, ls_sample *sample)
{
    sample->status = LS_OK;
    sample->why.text[0] = 0;
    if (set->get(set->user, index, sample) && sample->status == LS_OK) return true;
    if (sample->status == LS_OK)
        ls_sample_fail(sample, LS_ERR_STATE, "get returned false and no reason: ls_sample_fail() gives one");
    return false;
}

void *ls_sample_field(ls_sample *sample, int field)
{
    if (field >= 0 && field < sample->field_count && sample->fixed[field]) return sample->fixed[field];
    if (field < 0 || field >= sample->field_count)
        ls_sample_fail(sample, LS_ERR_VALUE, "ls_sample_field: field %d of %d", field, sample->field_count);
    else
        ls_sample_fail(sample, LS_ERR_STATE,
                       "ls_sample_field: sizes of \"%s\" vary; ls_sample_resize() gives them and the memory",
                       sample->fields[field].name);
    return NULL;
}

void *ls_sample_resize(ls_sample *sample, int field, ls_shape shape)
{
    if (field < 0 || field >= sample->field_count)
        return ls_sample_fail(sample, LS_ERR_VALUE, "ls_sample_resize: field %d of %d", field, sample->field_count),
               NULL;
    const ls_field *f = &sample->fields[field];
    ls_shape declared = ls_field_shape(f);
    bool fits = shape.ndim == declared.ndim;
    for (int d = 0; fits && d < shape.ndim; d++) fits = declared.dim[d] == LS_ANY || declared.dim[d] == shape.dim[d];
    int64_t numel = ls_shape_numel(shape);
    if (!fits || numel < 0 || numel > INT64_MAX / 16) {
        char given[LS_TEXT], wanted[LS_TEXT];
        ls_sample_fail(sample, LS_ERR_SHAPE, "ls_sample_resize: %s for field \"%s\" of %s", ls_shape_text(shape, given),
                       f->name, ls_shape_text(declared, wanted));
        return NULL;
    }
    ls_cell *cell = sample->cells[field];
    if (!cell) return sample->fixed[field];
    size_t bytes = (size_t)numel * ls_dtype_size(f->dtype);
    if (bytes > cell->room || !cell->data) {
        /* Half as much again: lengths differ a little from sample to sample, and soon nothing grows any more. */
        size_t room = bytes + bytes / 2 + 64;
        void *data = ls_sys_realloc(cell->data, room);
        if (!data) return ls_sample_fail(sample, LS_ERR_MEMORY, "no memory for a sample of %zu bytes", bytes), NULL;
        cell->data = data;
        cell->room = room;
    }
    cell->shape = shape;
    return cell->data;
}

uint64_t ls_sample_random(ls_sample *sample)
{
    return ls_random_bits(sample->key, ((uint64_t)sample->place << 24) + sample->draws++);
}

bool ls_sample_fail(ls_sample *sample, ls_status status, const char *format, ...)
{
    if (sample->status != LS_OK) return false;
    va_list args;
    va_start(args, format);
    vsnprintf(sample->why.text, sizeof sample->why.text, format, args);
    va_end(args);
    sample->status = status == LS_OK ? LS_ERR_STATE : status;
    return false;
}
