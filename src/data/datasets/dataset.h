/* dataset.h - the inside of a dataset. */
#ifndef LOCKSTEP_DATA_DATASETS_DATASET_H
#define LOCKSTEP_DATA_DATASETS_DATASET_H

#include <lockstep/data.h>

#include "tensor/context.h"

struct ls_dataset {
    ls_object object;
    const char *kind; /* how messages call it: "tensor dataset" */
    int64_t count;    /* -1: a stream */
    int field_count;
    ls_field fields[LS_MAX_FIELDS]; /* names are the dataset's own */
    ls_on_bad on_bad;
    bool in_memory; /* reading a sample is a copy: worker threads would cost more than they bring */

    ls_get_fn *get;
    bool (*next)(ls_sample *sample, void *user); /* of a stream; begin and skip may be NULL */
    void (*begin)(int64_t epoch, void *user);
    int64_t (*skip)(int64_t n, void *user);
    void *user;
    void (*release)(void *user);
    int64_t (*class_of)(int64_t index, void *user);    /* NULL: cannot be told */
    const char *(*path_of)(int64_t index, void *user); /* NULL: not made of files */
    int64_t (*length_of)(int64_t index, void *user);   /* NULL: cannot be told */

    int64_t class_count;
    char **class_names; /* NULL: none */

    uint64_t choice;          /* which samples of its bases it has, as a hash; 0: all of one that has no bases */
    ls_dataset *const *bases; /* those it is a part of, base_count of them; they have its classes */
    int base_count;
    int64_t users;  /* loaders and parts made of it */
    bool abandoned; /* to be freed when the last of them goes */
};

/* A dataset that only has its fields, copied from a list that ends with one without a name; NULL (and an error) where
 * they make no sense. */
ls_dataset *ls_dataset_begin(ls_run *run, const char *kind, const ls_field *fields);
/* Copy class names; false (and an error) when memory is out. */
bool ls_dataset_set_classes(ls_dataset *set, int64_t count, const char *const *names);
/* Loaders and parts hold the dataset they read. */
void ls_dataset_hold(ls_dataset *set);
void ls_dataset_let_go(ls_dataset *set);

static inline bool ls_dataset_is_stream(const ls_dataset *set)
{
    return set->count < 0;
}

/* How a sample's field lies in memory. Pictures: [C,H,W] in the field, H x W x C in memory. */
static inline ls_shape ls_field_shape(const ls_field *field)
{
    ls_shape shape = {.ndim = 0};
    while (shape.ndim < LS_MAX_DIMS - 1 && field->shape[shape.ndim]) {
        shape.dim[shape.ndim] = field->shape[shape.ndim];
        shape.ndim++;
    }
    return shape;
}

static inline bool ls_field_varies(const ls_field *field)
{
    for (int d = 0; d < LS_MAX_DIMS && field->shape[d]; d++)
        if (field->shape[d] < 0) return true;
    return false;
}

/* Of a sample; 0 where sizes vary. */
static inline size_t ls_field_bytes(const ls_field *field)
{
    return ls_field_varies(field) ? 0 : (size_t)ls_shape_numel(ls_field_shape(field)) * ls_dtype_size(field->dtype);
}

#endif
