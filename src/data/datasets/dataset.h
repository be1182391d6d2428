/* dataset.h - the internals of a dataset. */
#ifndef LOCKSTEP_DATA_DATASETS_DATASET_H
#define LOCKSTEP_DATA_DATASETS_DATASET_H

#include <lockstep/data.h>

#include "tensor/context.h"

struct ls_dataset {
    ls_object object;
    const char *kind; /* its name in messages: "tensor dataset" */
    char *source;     /* the file or folder it was read from; NULL: none */
    int64_t count;    /* -1: a stream */
    int field_count;
    ls_field fields[LS_MAX_FIELDS]; /* names are owned by the dataset */
    ls_on_bad on_bad;
    bool in_memory; /* reading a sample is a plain copy: worker threads would not pay off */

    ls_get_fn *get;
    bool (*next)(ls_sample *sample, void *user); /* of a stream; begin and skip may be NULL */
    void (*begin)(int64_t epoch, void *user);
    int64_t (*skip)(int64_t n, void *user);
    void *user;
    void (*release)(void *user);
    int64_t (*class_of)(int64_t index, void *user);    /* NULL: unknown */
    const char *(*path_of)(int64_t index, void *user); /* NULL: samples are not files */
    int64_t (*length_of)(int64_t index, void *user);   /* NULL: unknown */
    uint64_t (*hash_samples)(const void *user);        /* NULL: not possible, or too slow */
    uint64_t contents;                                 /* what it returned, or the program gave; 0: not known yet */

    int64_t class_count;
    char **class_names; /* NULL: none */

    uint64_t choice;          /* hash of the samples chosen from its bases; 0: it has no bases */
    ls_dataset *const *bases; /* [base_count] datasets it is made of; they have its classes */
    int base_count;
    int64_t users;  /* loaders and datasets that use it */
    bool abandoned; /* to be freed with the last of them */
};

/* A dataset with only its fields, copied from a list that ends with a nameless one; NULL (and an error) if they are
 * invalid. */
ls_dataset *ls_dataset_begin(ls_run *run, const char *kind, const ls_field *fields);
/* Copy class names; false (and an error) if out of memory. */
bool ls_dataset_set_classes(ls_dataset *set, int64_t count, const char *const *names);
/* Copy the name of the file or folder; false (and an error) if out of memory. */
bool ls_dataset_set_source(ls_dataset *set, const char *path);
/* A hash of all samples, computed once and the same in every process; 0: unknown. */
uint64_t ls_dataset_contents(ls_dataset *set);
/* Loaders and composed datasets hold a reference to the dataset they read. */
void ls_dataset_hold(ls_dataset *set);
void ls_dataset_let_go(ls_dataset *set);

static inline bool ls_dataset_is_stream(const ls_dataset *set)
{
    return set->count < 0;
}

/* The memory layout of a sample's field. Images: [C,H,W] in the field, H x W x C in memory. */
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

/* Bytes of a sample; 0 if sizes vary. */
static inline size_t ls_field_bytes(const ls_field *field)
{
    return ls_field_varies(field) ? 0 : (size_t)ls_shape_numel(ls_field_shape(field)) * ls_dtype_size(field->dtype);
}

#endif
