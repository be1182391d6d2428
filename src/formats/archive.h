/* archive.h - the contents of a file of tensors, whatever its format: names, types, shapes, and pointers to the data.
 *
 * Readers fill an archive; ls_state_read() makes tensors of it, ls_contents_read() a list. The archive owns names,
 * shapes and small values; the bytes of files are pages with a reference count of their own, since tensors outlive the
 * archive. */
#ifndef LOCKSTEP_FORMATS_ARCHIVE_H
#define LOCKSTEP_FORMATS_ARCHIVE_H

#include <lockstep/formats.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/status.h"
#include "formats/element.h"

/* Memory that entries point into: a file, or data unpacked from one. */
typedef struct ls_pages {
    int32_t refs;
    char *bytes;
    size_t size;
    bool head_only;     /* only the header of a file is in memory, and entries have no data */
    ls_file_bytes file; /* empty: bytes are from ls_sys_alloc() */
    struct ls_pages *next;
} ls_pages;

void ls_pages_release(void *pages);

typedef struct ls_archive_entry {
    const char *name;
    const char *file;
    ls_element element;
    int ndim;
    const int64_t *dim, *stride; /* stride in elements; NULL: row-major */
    char *data;      /* element [0, ..., 0]; all elements are within the pages, or in memory of the archive. NULL in an
                      * archive of names only */
    ls_pages *pages; /* NULL: memory of the archive */
    int64_t storage; /* entries with the same number are views of the same memory */
} ls_archive_entry;

typedef struct ls_archive {
    ls_errors *errors; /* where failures are recorded */
    bool names_only;   /* data is read only if names are unavailable without it */
    ls_arena arena;
    uint64_t file_bytes, taken; /* bytes of all files; bytes allocated because they say so (base/budget.h) */
    const char *format;
    const char *file; /* the file being read, for messages and entries */
    ls_pages *pages;  /* of all files; the archive holds one reference each */
    int64_t count, capacity, storages;
    ls_archive_entry *entries;
    int64_t metadata_count, metadata_capacity;
    ls_metadata *metadata;
    int64_t file_count, file_capacity;
    const char **files;
} ls_archive;

/* Open a file, an index or a folder. False on failure: the error names the file, and the archive can only be closed.
 * Names are unique. */
bool ls_archive_open(ls_archive *archive, ls_errors *errors, const char *path, bool names_only);
void ls_archive_close(ls_archive *archive);

/* ---- For readers ---- */

/* The same for bytes in memory, which the archive takes over. */
bool ls_archive_parse(ls_archive *archive, const char *path, ls_pages *pages);
/* New pages of zeroed memory, counted and held by the archive; NULL (and an error): out of memory. */
ls_pages *ls_archive_unpack(ls_archive *archive, size_t size);

/* Record an error (LS_ERR_IO unless given) that begins with the file's name. Always false. */
LS_PRINTF(2, 3) bool ls_archive_fail(ls_archive *archive, const char *format, ...);
LS_PRINTF(3, 4) bool ls_archive_fail_with(ls_archive *archive, ls_status code, const char *format, ...);

/* Count memory to be allocated because a file says so; false (and an error) beyond the files' budget. */
bool ls_archive_afford(ls_archive *archive, uint64_t bytes);
/* Memory of the archive, counted; NULL (and an error): out of memory. */
void *ls_archive_take(ls_archive *archive, size_t bytes);
char *ls_archive_text(ls_archive *archive, const char *text, size_t length);
/* Append. The archive must own the entry's name, dim and stride; `file` is set here. */
bool ls_archive_add(ls_archive *archive, ls_archive_entry entry);
bool ls_archive_add_metadata(ls_archive *archive, const char *key, const char *value);

/* The largest safetensors header accepted: the limit of the reference implementation. */
#define LS_SAFETENSORS_HEADER 100000000u

/* Readers of formats: each is given the bytes of one file. */
bool ls_read_safetensors(ls_archive *archive, ls_pages *pages);
bool ls_read_zip(ls_archive *archive, ls_pages *pages); /* of PyTorch or NumPy */
bool ls_read_pickle(ls_archive *archive, ls_pages *pages);
bool ls_read_npy(ls_archive *archive, ls_pages *pages);
/* Read one array at `bytes` within the pages, under a name owned by the archive. */
bool ls_read_npy_array(ls_archive *archive, ls_pages *pages, const char *bytes, size_t size, const char *name);

#endif
