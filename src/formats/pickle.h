/* pickle.h - a pickle machine that executes no code: it builds tensors, numbers, text and plain containers, and refuses
 * everything else by name.
 *
 * A pickle is a program for a stack machine; "GLOBAL os system" would fetch a function and REDUCE would call it. Here
 * GLOBAL looks a name up in a fixed list (pickle_globals.c) of what PyTorch and NumPy need for data, and REDUCE knows
 * the meaning of each. A pickle cannot reach any code. */
#ifndef LOCKSTEP_FORMATS_PICKLE_H
#define LOCKSTEP_FORMATS_PICKLE_H

#include "formats/archive.h"

typedef enum ls_pickle_kind {
    LS_PICKLE_NONE,
    LS_PICKLE_BOOL,
    LS_PICKLE_INT,
    LS_PICKLE_BIG_INT, /* more than 64 bits: its bytes */
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
    LS_PICKLE_MARK,  /* internal to the machine */
} ls_pickle_kind;

typedef struct ls_pickle_value ls_pickle_value;
typedef struct ls_pickle_global ls_pickle_global;

/* Memory that tensors are views of. It is located later, when the rest of the file is read. */
typedef struct ls_pickle_storage {
    const char *key;
    ls_element element;
    int64_t count; /* of elements */
    int64_t number;
    ls_pages *pages; /* NULL until located */
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

/* The machine. Zero-initialise, except for the archive and the input. */
typedef struct ls_pickle {
    ls_archive *archive; /* owns all values */
    const char *begin, *at, *end;
    ls_pickle_list stack, memo;
    ls_pickle_storage *storages;        /* most recent first */
    ls_pickle_storage *hashed[1 << 14]; /* by the keyed hash of their keys */
} ls_pickle;

/* Run one pickle, from p->at up to its end; the next may follow. NULL (and an error) if it is damaged or refused. */
ls_pickle_value *ls_pickle_run(ls_pickle *pickle);

/* ---- Between the files of the machine ---- */

LS_PRINTF(2, 3) bool ls_pickle_fail(ls_pickle *pickle, const char *format, ...);
ls_pickle_value *ls_pickle_new(ls_pickle *pickle, ls_pickle_kind kind);
bool ls_pickle_append(ls_pickle *pickle, ls_pickle_list *list, ls_pickle_value *value);
ls_pickle_storage *ls_pickle_storage_of(ls_pickle *pickle, const char *key, size_t length);

/* NULL (and an error) if it is not in the list. */
const ls_pickle_global *ls_pickle_global_named(ls_pickle *pickle, const char *module, size_t module_length,
                                               const char *name, size_t name_length);
/* The result of calling a global with a tuple. */
ls_pickle_value *ls_pickle_reduce(ls_pickle *pickle, const ls_pickle_value *callee, const ls_pickle_value *arguments);
/* Set the remaining state of a value. */
bool ls_pickle_build(ls_pickle *pickle, ls_pickle_value *value, const ls_pickle_value *state);
/* The storage described by ('storage', type, key, location, count, ...). */
ls_pickle_value *ls_pickle_persistent(ls_pickle *pickle, const ls_pickle_value *id);

#endif
