/* fields.h - the fields of batches: the size and type that a program asks for, and how samples become that. */
#ifndef LOCKSTEP_DATA_LOADER_FIELDS_H
#define LOCKSTEP_DATA_LOADER_FIELDS_H

#include "data/datasets/sample.h"

/* What a program asks for. */
typedef struct ls_fields_wanted {
    ls_field *fields;        /* [LS_MAX_FIELDS], to be filled */
    ls_transform *transform; /* of images; completed by dtype */
    ls_dtype dtype;          /* of images; 0: the transform's */
    ls_rounding rounding;
} ls_fields_wanted;

/* Fill wanted->fields, and `reading`, which then refers to them, to the transform and to the dataset. False, and an
 * error that begins with `who`, if the dataset does not allow it. */
bool ls_fields_resolve(ls_run *run, const char *who, const ls_dataset *set, const ls_fields_wanted *wanted,
                       ls_reading *reading);

#endif
