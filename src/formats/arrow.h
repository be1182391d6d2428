/* arrow.h - Apache Arrow's IPC formats: tables in batches of rows, as in the cache of Hugging Face's `datasets` (the
 * stream format) and in .arrow files of other programs (the file format).
 *
 * Texts, integers, lists and structs are read; columns of other types are listed, but have no values. Compressed
 * batches and big-endian tables are errors. Everything is checked once, by ls_arrow_read(): afterwards no offset points
 * outside the file. */
#ifndef LOCKSTEP_FORMATS_ARROW_H
#define LOCKSTEP_FORMATS_ARROW_H

#include "base/arena.h"
#include "base/message.h"

typedef enum ls_arrow_kind {
    LS_ARROW_OTHER, /* not read */
    LS_ARROW_INTEGER,
    LS_ARROW_TEXT,
    LS_ARROW_LIST,   /* of its one child */
    LS_ARROW_STRUCT, /* of all of its children */
} ls_arrow_kind;

/* A column, or a part of one. */
typedef struct ls_arrow_field {
    const char *name;
    const char *type; /* Arrow's name for it */
    ls_arrow_kind kind;
    bool is_signed;
    int width;   /* bytes of an integer, or of the offsets of texts and lists */
    int buffers; /* per batch, without its children's */
    int64_t child_count;
    struct ls_arrow_field *children;
} ls_arrow_field;

/* The values of a field in one batch. */
typedef struct ls_arrow_array {
    const ls_arrow_field *field;
    int64_t count;
    const char *valid;   /* a bit for each value; NULL: none is null */
    const char *offsets; /* where each text or list begins, and where the last one ends */
    const char *values;  /* integers; bytes of texts */
    struct ls_arrow_array *children;
} ls_arrow_array;

typedef struct ls_arrow_batch {
    struct ls_arrow_batch *next;
    int64_t rows;
    ls_arrow_array table; /* a struct of all columns */
} ls_arrow_batch;

typedef struct ls_arrow {
    ls_arrow_field table; /* a struct of all columns */
    ls_arrow_batch *first;
    int64_t rows;
    ls_arena memory;
} ls_arrow;

/* Do these first bytes look like an Arrow file? */
bool ls_is_arrow(const char *bytes, size_t size);

/* Read a whole file. The bytes must outlive the table. */
ls_status ls_arrow_read(ls_arrow *table, const char *bytes, size_t size, ls_message *why);
void ls_arrow_free(ls_arrow *table);

/* ---- Files ---- */

bool ls_is_arrow_file(const char *path);

/* Read a file, and if its path ends in "-00000-of-00004.arrow" the other three as well. Each part goes to `take`, which
 * may clear *more to stop there. Errors name the part. */
typedef ls_status ls_arrow_part_fn(const ls_arrow *part, bool *more, ls_message *why, void *user);
ls_status ls_arrow_read_parts(const char *path, ls_arrow_part_fn *take, void *user, ls_message *why);

/* ---- Values: `index` < count; the field must be of the right kind ---- */

const ls_arrow_array *ls_arrow_child(const ls_arrow_array *array, const char *name); /* NULL if there is none */
bool ls_arrow_is_null(const ls_arrow_array *array, int64_t index);
int64_t ls_arrow_integer(const ls_arrow_array *array, int64_t index); /* large u64 values wrap around */
/* Not zero-terminated, and not checked to be UTF-8. */
const char *ls_arrow_text(const ls_arrow_array *array, int64_t index, size_t *size);
/* The elements of a list, as a range of its child's values: the first, and how many. */
int64_t ls_arrow_list(const ls_arrow_array *array, int64_t index, int64_t *count);

#endif
