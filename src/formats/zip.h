/* zip.h - the directory of a zip file, and the files in it: stored, or deflated where zlib is built in. */
#ifndef LOCKSTEP_FORMATS_ZIP_H
#define LOCKSTEP_FORMATS_ZIP_H

#include "formats/archive.h"

typedef struct ls_zip_file {
    const char *name; /* the archive's */
    char *packed;     /* within the pages of the zip file */
    uint64_t packed_size, size;
    uint32_t crc; /* 0: not told */
    bool deflated;
    ls_pages *pages; /* where its bytes are; NULL until they were asked for */
    char *bytes;
} ls_zip_file;

typedef struct ls_zip {
    ls_pages *pages;
    int64_t count;
    ls_zip_file *files; /* sorted by name */
} ls_zip;

/* Reads the directory. False, with an error, when it is damaged. Memory is the archive's. */
bool ls_zip_open(ls_archive *archive, ls_pages *pages, ls_zip *zip);
ls_zip_file *ls_zip_find(const ls_zip *zip, const char *name); /* NULL when there is none */
/* Make its bytes available: in place where they are stored, unpacked otherwise.
 * Checks the sum that the directory has. */
bool ls_zip_fetch(ls_archive *archive, ls_zip *zip, ls_zip_file *file);

#endif
