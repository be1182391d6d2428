/* dataset.c - user-defined datasets, and what all kinds share: fields, classes, samples, lifetime. */
#include "data/datasets/dataset.h"

#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/opts.h"

/* ---- creating and freeing ---- */

static void clear(void *object)
{
    ls_dataset *set = object;
    for (int i = 0; i < set->base_count; i++) ls_dataset_let_go(set->bases[i]);
    if (set->release) set->release(set->user);
    for (int i = 0; i < set->field_count; i++) ls_sys_free((void *)(uintptr_t)set->fields[i].name);
    if (set->class_names)
        for (int64_t i = 0; i < set->class_count; i++) ls_sys_free(set->class_names[i]);
    ls_sys_free(set->class_names);
    ls_sys_free(set->source);
}

static bool field_is_sound(ls_run *run, const char *kind, const ls_field *field)
{
    int ndim = 0;
    while (ndim < LS_MAX_DIMS && field->shape[ndim]) ndim++;
    bool sizes_fit = true;
    for (int d = 0; d < LS_MAX_DIMS; d++)
        sizes_fit = sizes_fit && field->shape[d] >= LS_ANY && (d < ndim || !field->shape[d]);
    if (field->image ? field->dtype != LS_DTYPE_NONE : ls_dtype_size(field->dtype) == 0)
        ls_fail(&run->errors, LS_ERR_DTYPE, "%s: field \"%s\": %s", kind, field->name,
                field->image ? "an image takes its .dtype from the loader; leave it out" : "the .dtype is missing");
    else if (!sizes_fit)
        ls_fail(&run->errors, LS_ERR_SHAPE, "%s: field \"%s\": a size is negative; sizes are positive or LS_ANY", kind,
                field->name);
    else if (field->image && ndim && (ndim != 3 || ls_field_varies(field)))
        ls_fail(&run->errors, LS_ERR_SHAPE,
                "%s: field \"%s\": an image has the .shape [channels,height,width], or none", kind, field->name);
    else if (ndim == LS_MAX_DIMS)
        ls_fail(&run->errors, LS_ERR_SHAPE, "%s: field \"%s\": %d dimensions; the batch needs one more", kind,
                field->name, ndim);
    return !ls_failed(run);
}

ls_dataset *ls_dataset_begin(ls_run *run, const char *kind, const ls_field *fields)
{
    if (ls_failed(run)) return NULL;
    if (!fields[0].name)
        return ls_fail(&run->errors, LS_ERR_VALUE, "%s: .fields is missing, the description of a sample", kind), NULL;
    ls_dataset *set = ls_object_new(run, LS_OBJECT_DATASET, sizeof *set, clear);
    if (!set) return NULL;
    set->kind = kind;
    for (int i = 0; i < LS_MAX_FIELDS && fields[i].name; i++) {
        for (int k = 0; k < i; k++)
            if (strcmp(fields[k].name, fields[i].name) == 0)
                ls_fail(&run->errors, LS_ERR_VALUE, "%s: two fields are named \"%s\"", kind, fields[i].name);
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

ls_dataset *ls_dataset_new_sized(ls_run *run, const ls_dataset_opts *opts, size_t opts_size)
{
    ls_dataset_opts o = LS_OPTS_READ(ls_dataset_opts, opts, opts_size);
    if (ls_failed(run)) return NULL;
    if (!o.get || o.count < 0) {
        if (!o.get)
            ls_fail(&run->errors, LS_ERR_VALUE, "ls_dataset_new: .get is missing, the function that writes a sample");
        else if (o.count == LS_AUTO)
            ls_fail(&run->errors, LS_ERR_VALUE, "ls_dataset_new: .count is missing, the number of samples");
        else
            ls_fail(&run->errors, LS_ERR_VALUE, "ls_dataset_new: .count = %lld; it must not be negative",
                    (long long)o.count);
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
    set->contents = o.contents;
    return set;
}

ls_dataset *ls_stream_dataset_new_sized(ls_run *run, const ls_stream_dataset_opts *opts, size_t opts_size)
{
    ls_stream_dataset_opts o = LS_OPTS_READ(ls_stream_dataset_opts, opts, opts_size);
    if (ls_failed(run)) return NULL;
    if (!o.next)
        return ls_fail(&run->errors, LS_ERR_VALUE,
                       "ls_stream_dataset_new: .next is missing, the function that writes a sample"),
               NULL;
    ls_dataset *set = ls_dataset_begin(run, "stream", o.fields);
    if (!set) return NULL;
    if (!ls_dataset_set_classes(set, o.class_count, o.class_names)) return ls_object_free(set), NULL;
    set->count = -1;
    set->next = o.next;
    set->begin = o.begin;
    set->skip = o.skip;
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

/* ---- properties ---- */

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

bool ls_dataset_set_source(ls_dataset *set, const char *path)
{
    set->source = ls_text_copy(set->object.run, path);
    return set->source != NULL;
}

static uint64_t contents_of_bases(const ls_dataset *set)
{
    ls_hash hash;
    ls_hash_begin(&hash);
    ls_hash_add(&hash, &set->choice, sizeof set->choice);
    for (int i = 0; i < set->base_count; i++) {
        uint64_t contents = ls_dataset_contents(set->bases[i]);
        if (!contents) return 0;
        ls_hash_add(&hash, &contents, sizeof contents);
    }
    return ls_hash_end(&hash);
}

uint64_t ls_dataset_contents(ls_dataset *set)
{
    if (!set->contents && set->base_count) set->contents = contents_of_bases(set);
    if (!set->contents && set->hash_samples) set->contents = set->hash_samples(set->user);
    return set->contents;
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

int64_t ls_dataset_class(const ls_dataset *set, int64_t index)
{
    return set && set->class_of && index >= 0 && index < set->count ? set->class_of(index, set->user) : -1;
}

const char *ls_dataset_path(const ls_dataset *set, int64_t index)
{
    return set && set->path_of && index >= 0 && index < set->count ? set->path_of(index, set->user) : "";
}

int64_t ls_dataset_sample_length(const ls_dataset *set, int64_t index)
{
    return set && set->length_of && index >= 0 && index < set->count ? set->length_of(index, set->user) : -1;
}
