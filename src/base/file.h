/* file.h - files as a whole: read into memory, written under a temporary name until they are complete.
 *
 * Nothing is mapped: a mapped file that another program writes to changes under the reader's eyes, and one that is cut
 * short ends the process.
 *
 * Failures are told in words that carry the path and the system's reason. */
#ifndef LOCKSTEP_BASE_FILE_H
#define LOCKSTEP_BASE_FILE_H

#include "base/message.h"
/* ---- Reading ---- */

typedef struct ls_file_bytes {
    char *bytes;  /* page-aligned; not NULL, also for an empty file */
    size_t there; /* bytes that were read */
    size_t size;  /* of the file */
    bool changed; /* somebody wrote to the file meanwhile: its bytes may be of two times */
} ls_file_bytes;

/* The first `limit` bytes of a file, by all threads where it is large; SIZE_MAX: all of it. */
bool ls_file_load(ls_file_bytes *file, const char *path, size_t limit, ls_message *why);
void ls_file_unload(ls_file_bytes *file);

/* All of a small file, zero-terminated; ls_sys_free() it. NULL on failure or when it is larger than `limit`. */
char *ls_file_read(const char *path, size_t limit, size_t *size, ls_message *why);

typedef enum ls_path_kind { LS_PATH_NONE, LS_PATH_FILE, LS_PATH_FOLDER, LS_PATH_OTHER } ls_path_kind;
ls_path_kind ls_path_kind_of(const char *path);

/* ---- Writing ----
 *
 *     ls_file_out out;
 *     bool ok = ls_file_create(&out, path, true, &why) && ls_file_put(&out, bytes, size, &why) &&
 *               ls_file_seal(&out, &why) && ls_file_publish(&out, &why);
 *
 * Until publish, bytes stand in "PATH.part"; whichever call fails removes it, and what was at PATH before stays.
 * Several files can be sealed first and then published together. A .part file that a killed process left is written
 * over; one that a living process is writing is refused. */

typedef struct ls_file_out {
    char *path, *part; /* NULL when nothing is open */
    int descriptor;    /* locked; -1 when nothing is open */
    char *buffer;      /* small pieces gather here */
    size_t buffered;
    bool sync, direct; /* direct: past the system's cache */
} ls_file_out;

/* With `sync`, bytes are on the disk when the file is sealed, and its name is when it is published; without, a power
 * cut may lose both. */
bool ls_file_create(ls_file_out *out, const char *path, bool sync, ls_message *why);
bool ls_file_put(ls_file_out *out, const void *bytes, size_t size, ls_message *why);
bool ls_file_seal(ls_file_out *out, ls_message *why); /* no more bytes */
/* Give the file its name. */
bool ls_file_publish(ls_file_out *out, ls_message *why);
void ls_file_discard(ls_file_out *out); /* remove what is not published; does nothing otherwise */

/* All of it at once. */
bool ls_file_write(const char *path, const void *bytes, size_t size, bool sync, ls_message *why);

/* The folder and those above it; one that is there is fine. Names of those above are on the disk then; that of the last
 * is for whoever fills it to sync. */
bool ls_folder_make(const char *path, ls_message *why);
/* The same for the folder that a file is to be in. */
bool ls_folder_make_above(const char *path, ls_message *why);
/* Names that were made, changed or removed in a folder reach the disk. */
bool ls_folder_sync(const char *path, ls_message *why);
/* The same for the folder that a file or folder is in. */
bool ls_folder_sync_above(const char *path, ls_message *why);

#endif
