/* file.h - whole files: read into memory, written under a temporary name until they are complete.
 *
 * Nothing is mapped: a mapped file can change while it is read, and one that is truncated ends the process with SIGBUS.
 *
 * Messages about failures contain the path and the system's reason. */
#ifndef LOCKSTEP_BASE_FILE_H
#define LOCKSTEP_BASE_FILE_H

#include "base/message.h"
/* ---- Reading ---- */

typedef struct ls_file_bytes {
    char *bytes;  /* page-aligned; not NULL, even for an empty file */
    size_t there; /* bytes that were read */
    size_t size;  /* of the file */
    bool changed; /* the file was written to meanwhile: the bytes may be a mix of old and new */
} ls_file_bytes;

/* The first `limit` bytes of a file, read by all threads if it is large; SIZE_MAX: all of it. */
bool ls_file_load(ls_file_bytes *file, const char *path, size_t limit, ls_message *why);
void ls_file_unload(ls_file_bytes *file);

/* All of a small file, zero-terminated; ls_sys_free() it. NULL on failure or if it is larger than `limit`. */
char *ls_file_read(const char *path, size_t limit, size_t *size, ls_message *why);

typedef enum ls_path_kind { LS_PATH_NONE, LS_PATH_FILE, LS_PATH_FOLDER, LS_PATH_OTHER } ls_path_kind;
ls_path_kind ls_path_kind_of(const char *path);

/* ---- Writing ----
 *
 *     ls_file_out out;
 *     bool ok = ls_file_create(&out, path, true, &why) && ls_file_put(&out, bytes, size, &why) &&
 *               ls_file_seal(&out, &why) && ls_file_publish(&out, &why);
 *
 * Until publish, the bytes are in "PATH.part"; a call that fails removes it, and an existing file at PATH is unchanged.
 * Several files can be sealed first and then published together. A .part file left by a killed process is overwritten;
 * one that a running process is writing is an error. */

typedef struct ls_file_out {
    char *path, *part; /* NULL when nothing is open */
    int descriptor;    /* locked; -1 when nothing is open */
    char *buffer;      /* collects small pieces */
    size_t buffered;
    bool sync, direct; /* direct: bypass the page cache */
} ls_file_out;

/* With `sync`, the bytes are on disk when the file is sealed, and its name when it is published; without, a power cut
 * may lose both. */
bool ls_file_create(ls_file_out *out, const char *path, bool sync, ls_message *why);
bool ls_file_put(ls_file_out *out, const void *bytes, size_t size, ls_message *why);
bool ls_file_seal(ls_file_out *out, ls_message *why); /* no more bytes */
/* Give the file its name. */
bool ls_file_publish(ls_file_out *out, ls_message *why);
void ls_file_discard(ls_file_out *out); /* remove what is not published; does nothing otherwise */

/* All of it at once. */
bool ls_file_write(const char *path, const void *bytes, size_t size, bool sync, ls_message *why);

/* Create the folder and missing ones above it; it may exist already. The names of those above are synced to disk; the
 * caller syncs that of the last one after filling it. */
bool ls_folder_make(const char *path, ls_message *why);
/* The same for the folder that will contain a file. */
bool ls_folder_make_above(const char *path, ls_message *why);
/* Sync a folder to disk: names that were created, changed or removed in it. */
bool ls_folder_sync(const char *path, ls_message *why);
/* The same for the folder that contains a file or folder. */
bool ls_folder_sync_above(const char *path, ls_message *why);

#endif
