/* zip.h - the directory of a zip file, and the files in it: stored, or deflated if zlib is built in. */
#ifndef LOCKSTEP_FORMATS_ZIP_H
#define LOCKSTEP_FORMATS_ZIP_H

#include "formats/archive.h"

typedef struct ls_zip_file {
    const char *name; /* owned by the archive */
    char *packed;     /* in the pages of the zip file */
    uint64_t packed_size, size;
    uint32_t crc; /* 0: unknown */
    bool deflated;
    ls_pages *pages; /* its bytes; NULL until fetched */
    char *bytes;
} ls_zip_file;

typedef struct ls_zip {
    ls_pages *pages;
    int64_t count;
    ls_zip_file *files; /* sorted by name */
} ls_zip;

/* Reads the directory. False, with an error, if it is damaged. Memory is owned by the archive. */
bool ls_zip_open(ls_archive *archive, ls_pages *pages, ls_zip *zip);
ls_zip_file *ls_zip_find(const ls_zip *zip, const char *name); /* NULL if there is none */
/* Make its bytes available: in place if stored, else unpacked. Verifies the checksum of the directory. */
bool ls_zip_fetch(ls_archive *archive, ls_zip *zip, ls_zip_file *file);

#endif
