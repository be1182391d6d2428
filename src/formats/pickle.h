/* pickle.h - a machine for pickles that runs nothing: it builds tensors, numbers, text and plain containers, and
 * refuses, by name, everything else.
 *
 * A pickle is a program for a stack machine; "GLOBAL os system" would fetch a function and REDUCE would call it. Here
 * GLOBAL looks into a fixed list (pickle_globals.c) of what PyTorch and NumPy need for data, and REDUCE knows what each
 * of those means. There is no way from a pickle to code. */
#ifndef LOCKSTEP_FORMATS_PICKLE_H
#define LOCKSTEP_FORMATS_PICKLE_H

#include "formats/archive.h"

typedef enum ls_pickle_kind {
    LS_PICKLE_NONE,
    LS_PICKLE_BOOL,
    LS_PICKLE_INT,
    LS_PICKLE_BIG_INT, /* more than 64 bits: the bytes of it */
    LS_PICKLE_FLOAT,
    LS_PICKLE_TEXT,
    LS_PICKLE_BYTES,
    LS_PICKLE_TUPLE,
    LS_PICKLE_LIST, /* or a set */
    LS_PICKLE_DICT,
    LS_PICKLE_GLOBAL,
    LS_PICKLE_STORAGE,
    LS_PICKLE_TENSOR,
    LS_PICKLE_ARRAY, /* of NumPy */
    LS_PICKLE_DTYPE, /* of NumPy */
    LS_PICKLE_MARK,  /* the machine's own */
} ls_pickle_kind;

typedef struct ls_pickle_value ls_pickle_value;
typedef struct ls_pickle_global ls_pickle_global;

/* Memory that tensors are views of. Where it lies is found out when the file is read further. */
typedef struct ls_pickle_storage {
    const char *key;
    ls_element element;
    int64_t count; /* of elements */
    int64_t number;
    ls_pages *pages; /* NULL while it is not found */
    char *bytes;
    uint64_t size; /* bytes */
    struct ls_pickle_storage *next, *same_hash;
} ls_pickle_storage;

typedef struct ls_pickle_list { /* of a dict: key, value, key, value, ... */
    int64_t count, capacity;
    ls_pickle_value **items;
} ls_pickle_list;

typedef struct ls_pickle_tensor {
    ls_pickle_storage *storage; /* NULL: an array, whose bytes follow */
    ls_element element;
    int64_t offset; /* in elements */
    int ndim;
    const int64_t *dim, *stride; /* stride NULL: row-major */
    const char *bytes;
    size_t size;
} ls_pickle_tensor;

struct ls_pickle_value {
    ls_pickle_kind kind;
    union {
        int64_t integer; /* also BOOL */
        double real;
        struct {
            const char *bytes;
            size_t length;
        } text; /* TEXT, BYTES, BIG_INT */
        ls_pickle_list list;
        const ls_pickle_global *global;
        ls_pickle_tensor tensor; /* TENSOR, ARRAY; STORAGE: all of it, or a part, in one dimension */
        ls_element element;      /* DTYPE */
    };
};

/* The machine. Zero, but for the archive and what is to be read. */
typedef struct ls_pickle {
    ls_archive *archive; /* owns all values */
    const char *begin, *at, *end;
    ls_pickle_list stack, memo;
    ls_pickle_storage *storages;        /* the first met is the last here */
    ls_pickle_storage *hashed[1 << 14]; /* by the keyed hash of their keys */
} ls_pickle;

/* Run one pickle, from p->at up to its end; the next may follow. NULL (and an error) when it is damaged or refused. */
ls_pickle_value *ls_pickle_run(ls_pickle *pickle);

/* ---- Between the files of the machine ---- */

LS_PRINTF(2, 3) bool ls_pickle_fail(ls_pickle *pickle, const char *format, ...);
ls_pickle_value *ls_pickle_new(ls_pickle *pickle, ls_pickle_kind kind);
bool ls_pickle_append(ls_pickle *pickle, ls_pickle_list *list, ls_pickle_value *value);
ls_pickle_storage *ls_pickle_storage_of(ls_pickle *pickle, const char *key, size_t length);

/* NULL (and an error) for what is not in the list. */
const ls_pickle_global *ls_pickle_global_named(ls_pickle *pickle, const char *module, size_t module_length,
                                               const char *name, size_t name_length);
/* What calling a global with a tuple would give. */
ls_pickle_value *ls_pickle_reduce(ls_pickle *pickle, const ls_pickle_value *callee, const ls_pickle_value *arguments);
/* Give a value the rest of its state. */
bool ls_pickle_build(ls_pickle *pickle, ls_pickle_value *value, const ls_pickle_value *state);
/* A storage by its description, ('storage', type, key, location, count, ...). */
ls_pickle_value *ls_pickle_persistent(ls_pickle *pickle, const ls_pickle_value *id);

#endif
