/* dataset.h - the inside of a dataset, and of a sample on its way into a batch. */
#ifndef LOCKSTEP_DATA_DATASET_H
#define LOCKSTEP_DATA_DATASET_H

#include <lockstep/data.h>

#include "tensor/context.h"

struct ls_dataset {
    ls_object object;
    const char *kind; /* how messages call it: "tensor dataset" */
    int64_t count;
    int field_count;
    ls_field fields[LS_MAX_FIELDS]; /* names are the dataset's own */
    ls_on_bad on_bad;
    bool in_memory; /* reading a sample is a copy: worker threads would cost more than they bring */

    ls_get_fn *get;
    void *user;
    void (*release)(void *user);
    int64_t (*class_of)(void *user, int64_t index); /* NULL: cannot be told */

    int64_t class_count;
    char **class_names; /* NULL: none */

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

/* How a sample's field lies in memory. */
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

/* ---- samples ---- */

/* A sample's part of a field whose sizes vary. Grows, is kept for later samples, and is the slot's own. */
typedef struct ls_cell {
    void *data;
    size_t room;
    ls_shape shape;
} ls_cell;

struct ls_sample {
    const ls_field *fields;
    int field_count;
    void *fixed[LS_MAX_FIELDS];    /* this sample's place in the batch, for fields of fixed size */
    ls_cell *cells[LS_MAX_FIELDS]; /* for the others */
    uint64_t key, draws;           /* of its random numbers */
    int64_t place;                 /* what the random numbers belong to: the index the order asked for */
    ls_status status;
    ls_message why;
};

/* Let a dataset write sample `index`; false when it failed, and sample->status and why say how. */
bool ls_dataset_read(const ls_dataset *set, int64_t index, ls_sample *sample);

#endif
